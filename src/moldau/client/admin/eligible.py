"""The eligible leader replicas of partitions (KIP-966), asked for with DescribeTopicPartitions.

They are what one needs to know when a partition has no leader: a broker of this list, once started, brings it
back without loss. Ask only where a replica is missing from the in-sync set: elsewhere the list is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moldau.client.admin.layout import Place
from moldau.client.admin.routing import ask_any
from moldau.client.cluster import Cluster
from moldau.client.errors import RequestRefused
from moldau.common.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)

_TOPICS_AT_ONCE = 500


class Eligible(NamedTuple):
    """Node ids of one partition. `last_known`: when no replica is in sync, those that may have the most."""

    eligible: tuple[int, ...]
    last_known: tuple[int, ...]


def eligible_replicas(cluster: Cluster, topics: Sequence[str]) -> dict[Place, Eligible]:
    """Eligible replicas by partition; nothing by brokers that cannot tell (before Kafka 3.8)."""
    names, found = sorted(topics), {}
    for start in range(0, len(names), _TOPICS_AT_ONCE):
        asked = [TopicRequest(name=name) for name in names[start : start + _TOPICS_AT_ONCE]]
        cursor = None
        while True:
            request = DescribeTopicPartitionsRequest(topics=asked, cursor=cursor)
            try:
                answer = ask_any(cluster, request, "describe topics")
            except RequestRefused:  # no broker of this version
                return {}
            for topic in answer.topics:
                for each in topic.partitions:
                    found[topic.name or "", each.partition_index] = Eligible(
                        tuple(each.eligible_leader_replicas or ()), tuple(each.last_known_elr or ())
                    )
            cursor = answer.next_cursor
            if cursor is None:
                break
    return found
