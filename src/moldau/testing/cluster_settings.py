"""Settings of brokers that form a cluster on one machine: for tests (cluster.py) and for `moldau cluster`.

Kafka's defaults are those of a first try on one machine (one replica) and of data centres (a broker counts
as gone after 18 s of silence). Here partitions have three replicas, of which two must have a record before it
is acknowledged, and a dead broker is noticed after two seconds. Not here: ports and folders, which the caller
chooses; the ZooKeeper server's side of the session's length (moldau/ensemble).
"""

from __future__ import annotations

from collections.abc import Mapping

SESSION_TIMEOUT_MS = 2000
REPLICATION_FACTOR = 3


def cluster_settings(broker_count: int) -> dict[str, str]:
    """Return what all brokers of a cluster of this size share; fewer than three brokers get fewer replicas.

    With two brokers one replica suffices for an acknowledgement: else the loss of either stops producers.
    """
    replicas = min(REPLICATION_FACTOR, broker_count)
    in_sync_min = max(1, replicas - 1) if replicas >= REPLICATION_FACTOR else 1
    return {
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync_min),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync_min),
    }


def broker_settings(
    node_id: int, broker_count: int, connect: str, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return one broker's settings; `connect` is the ensemble's address, `more` wins over all others."""
    return {
        "node.id": str(node_id),
        "zookeeper.connect": connect,
        **cluster_settings(broker_count),
        **(more or {}),
    }
