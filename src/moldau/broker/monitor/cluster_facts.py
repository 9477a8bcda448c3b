"""Facts of the cluster for the health page: every broker with its state and share, what is under way, the
metadata store.
"""

from moldau.broker.monitor.cluster_probes import when
from moldau.broker.monitor.cluster_watch import ClusterWatch
from moldau.broker.monitor.sources import Sources


def cluster_facts(watch: ClusterWatch, sources: Sources) -> dict[str, object]:
    """As they are on the health page, in JSON's types."""
    watch.look(sources.image())
    members = []
    for broker in watch.brokers():
        since_ms = watch.away_since_ms(broker.node_id)
        members.append(
            {
                "id": broker.node_id,
                "rack": broker.rack,
                "state": "gone" if broker.fenced else "shutting down" if broker.shutting_down else "live",
                "since": None if since_ms is None else when(since_ms),
                "leaders": watch.leaders.get(broker.node_id, 0),
                "replicas": watch.replicas.get(broker.node_id, 0),
            }
        )
    facts: dict[str, object] = {"members": members, "reassigning_partitions": watch.reassigning_count}
    status = sources.store_status()
    if status is not None:
        facts["metadata_store"] = {
            "name": status.name,
            "up": status.is_up,
            "since_seconds": round(status.since_seconds, 1),
            "latency_ms": round(status.latency_ms, 1),
        }
    return facts
