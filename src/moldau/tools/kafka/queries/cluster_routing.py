"""A tool's cluster as the parts behind `moldau transactions` and `moldau topics reassign` want it (Routing).

They choose the lowest version of a request that has the fields they need; here that is the highest that is
used.
"""

from __future__ import annotations

from typing import Any

from moldau.client.admin.routing import ask_broker, metadata
from moldau.client.cluster import Cluster
from moldau.common.protocol.declare import Message
from moldau.tools.commands.transactions.routing import Address, Copies, Routing

ANSWER_SECONDS = 15.0


def routing_over(cluster: Cluster) -> Routing:
    """Read the metadata; requests go over the connections of `cluster`, with their TLS and SASL."""
    known = metadata(cluster)
    brokers = {each.node_id: (each.host, each.port) for each in sorted(known.brokers, key=_by_id)}
    numbers = {address: number for number, address in brokers.items()}

    def question(address: Address, request: Message, version: int, seconds: float) -> Any:
        return ask_broker(cluster, numbers[address], request, at_most=version, timeout_seconds=seconds)

    copies = {
        (topic.name, each.partition_index): Copies(each.leader_id, tuple(each.replica_nodes))
        for topic in known.topics
        if not topic.error_code
        for each in sorted(topic.partitions, key=_by_index)
    }
    return Routing(brokers, copies, ANSWER_SECONDS, question)


def _by_id(broker: Any) -> int:
    return int(broker.node_id)


def _by_index(partition: Any) -> int:
    return int(partition.partition_index)
