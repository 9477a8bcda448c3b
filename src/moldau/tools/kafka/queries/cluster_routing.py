"""A tool's cluster as the parts behind `moldau transactions` and `moldau topics reassign` want it (Routing).

They choose the lowest version of a request that has the fields they need; here that is the highest that is
used.
"""

from __future__ import annotations

from typing import Any

from moldau.client.cluster import Cluster
from moldau.common.protocol.declare import Message
from moldau.tools.commands.transactions.routing import Address, Copies, Routing
from moldau.tools.kafka.queries.brokers import ask, metadata

ANSWER_SECONDS = 15.0


def routing_over(cluster: Cluster) -> Routing:
    """Read the metadata; requests go over the connections of `cluster`, with their TLS and SASL."""
    known = metadata(cluster)
    brokers = {number: (host, port) for number, (host, port, _) in sorted(known.brokers.items())}
    numbers = {address: number for number, address in brokers.items()}

    def question(address: Address, request: Message, version: int, seconds: float) -> Any:
        return ask(cluster, numbers[address], request, at_most=version, timeout_seconds=seconds)

    copies = {
        (topic, index): Copies(each.leader, each.replicas)
        for topic, partitions in known.topics.items()
        for index, each in partitions.items()
    }
    return Routing(brokers, copies, ANSWER_SECONDS, question)
