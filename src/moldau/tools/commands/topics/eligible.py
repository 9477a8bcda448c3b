"""The eligible leader replicas of partitions (KIP-966), which librdkafka does not ask for.

They are what one needs to know when a partition has no leader: a broker of this list, once started, brings
it back without loss. Asked for with DescribeTopicPartitions (Kafka 3.8 and later), only where a replica is
missing from the in-sync set: elsewhere the list is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from moldau.common.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.raw_request import ask_message

_TOPICS_AT_ONCE = 500

Ask = Callable[[tuple[str, int], Any, int, float], Any]


class Eligible(NamedTuple):
    """Node ids of one partition. `last_known`: when no replica is in sync, those that may have the most."""

    eligible: list[int]
    last_known: list[int]


def load_eligible(
    addresses: Iterable[tuple[str, int]],
    topics: list[str],
    timeout_seconds: float,
    ask: Ask = ask_message,
) -> dict[tuple[str, int], Eligible]:
    """Eligible replicas by topic and partition, from the first broker that answers; {} when none can tell."""
    for address in addresses:
        try:
            return dict(_pages(address, topics, timeout_seconds, ask))
        except CommandError:
            continue
    return {}


def _pages(
    address: tuple[str, int], topics: list[str], timeout_seconds: float, ask: Ask
) -> Iterator[tuple[tuple[str, int], Eligible]]:
    for start in range(0, len(topics), _TOPICS_AT_ONCE):
        asked = [TopicRequest(name=name) for name in sorted(topics)[start : start + _TOPICS_AT_ONCE]]
        cursor = None
        while True:
            request = DescribeTopicPartitionsRequest(topics=asked, cursor=cursor)
            answer = ask(address, request, 0, timeout_seconds)
            for topic in answer.topics:
                for each in topic.partitions:
                    lists = Eligible(each.eligible_leader_replicas or [], each.last_known_elr or [])
                    yield (topic.name or "", each.partition_index), lists
            cursor = answer.next_cursor
            if cursor is None:
                break
