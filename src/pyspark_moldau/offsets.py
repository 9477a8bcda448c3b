"""Offsets in Spark's checkpoints: {"flights": {"0": 1200, "1": 1187}}.

The format is that of Spark's own Kafka connector. Each number is the offset of the next record to read, as in
a consumer group's committed offsets.

Spark compares two offsets as texts, so topics and partitions are always sorted: equal offsets must give equal
texts, or a query with nothing to read would run empty micro-batches for ever.

In options -2 means the earliest offset and -1 the latest; neither is ever in a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from pyspark_moldau.errors import OptionError

TopicPartition = tuple[str, int]
Offsets = dict[TopicPartition, int]
"""The next offset to read, of each partition."""

EARLIEST = -2
LATEST = -1


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The text for a checkpoint."""
    by_topic: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        by_topic.setdefault(topic, {})[str(partition)] = offsets[topic, partition]
    return by_topic


def from_json(by_topic: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The reverse of `to_json`."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in by_topic.items()
        for partition, offset in partitions.items()
    }


def parse_numbers(text: str, option: str, smallest: int) -> Offsets:
    """A number for each partition, from an option: offsets (at least -2) or timestamps (at least 0)."""
    example = '{"topic": {"0": 23, "1": -2}}' if smallest < 0 else '{"topic": {"0": 1700000000000}}'
    document = _document(text, option, example)
    numbers: Offsets = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            raise OptionError(f"{option}: {topic!r} needs a number for each partition, as in {example}")
        for partition, number in partitions.items():
            if not partition.isdigit():
                raise OptionError(f"{option}: {partition!r} of topic {topic!r} is no partition number")
            if not isinstance(number, int) or isinstance(number, bool) or number < smallest:
                raise OptionError(
                    f"{option}: {json.dumps(number)} for partition {partition} of topic {topic!r} is no "
                    f"whole number from {smallest} up"
                )
            numbers[topic, int(partition)] = number
    if not numbers:
        raise OptionError(f"{option} names no partition; it looks like {example}")
    return numbers


def parse_partitions(text: str, option: str) -> tuple[TopicPartition, ...]:
    """The partitions of the option `assign`: {"topic": [0, 1]}."""
    example = '{"topic": [0, 1]}'
    chosen: set[TopicPartition] = set()
    for topic, partitions in _document(text, option, example).items():
        numbers = partitions if isinstance(partitions, list) else [None]
        for number in numbers:
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise OptionError(f"{option}: {topic!r} needs a list of partition numbers, as in {example}")
            chosen.add((topic, number))
    if not chosen:
        raise OptionError(f"{option} names no partition; it looks like {example}")
    return tuple(sorted(chosen))


def _document(text: str, option: str, example: str) -> dict[str, object]:
    try:
        document = json.loads(text)
    except ValueError as failure:
        raise OptionError(f"{option} is not JSON ({failure}); it looks like {example}") from None
    if not isinstance(document, dict):
        raise OptionError(f"{option} must be a JSON object like {example}, not {text}")
    return document


def names(partitions: Iterable[TopicPartition], most: int = 8) -> str:
    """Partitions as text: flights-0, flights-1 and 12 more."""
    listed = [f"{topic}-{partition}" for topic, partition in sorted(partitions)]
    if len(listed) <= most:
        return ", ".join(listed)
    return f"{', '.join(listed[:most])} and {len(listed) - most} more"
