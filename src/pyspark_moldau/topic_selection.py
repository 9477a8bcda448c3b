"""What a query selects: its topics (three ways), and where it starts and ends (four ways).

Plain values of the options; cluster_view.py resolves them on a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from moldau.common.core.patterns import compile_pattern
from pyspark_moldau.offsets import LATEST, TopicPartition


@dataclass(frozen=True)
class Named:
    """`subscribe`: these topics with all partitions, later ones included."""

    topics: tuple[str, ...]

    @property
    def only_topic(self) -> str | None:
        """The topic, if it is one."""
        return self.topics[0] if len(self.topics) == 1 else None


@dataclass(frozen=True)
class Matching:
    """`subscribePattern`: every topic whose whole name matches, later ones included. The text, not what is
    compiled of it: it goes to other processes."""

    pattern: str
    only_topic = None

    def takes(self, topic: str) -> bool:
        """Whether the topic's whole name matches."""
        return compile_pattern(self.pattern).fullmatch(topic) is not None


@dataclass(frozen=True)
class Assigned:
    """`assign`: these partitions."""

    partitions: tuple[TopicPartition, ...]

    @property
    def only_topic(self) -> str | None:
        """The topic, if they are of one."""
        topics = {topic for topic, _ in self.partitions}
        return topics.pop() if len(topics) == 1 else None


@dataclass(frozen=True)
class Everywhere:
    """The earliest (-2) or latest (-1) offset of every partition."""

    offset: int

    @property
    def has_latest(self) -> bool:
        """Whether it means another offset later on."""
        return self.offset == LATEST


@dataclass(frozen=True)
class AtOffsets:
    """An offset for each partition, -2 and -1 among them."""

    offsets: Mapping[TopicPartition, int]

    @property
    def has_latest(self) -> bool:
        """Whether it means another offset later on."""
        return LATEST in self.offsets.values()


@dataclass(frozen=True)
class AtTime:
    """The first record of every partition at or after this timestamp."""

    timestamp_ms: int
    has_latest = False


@dataclass(frozen=True)
class AtTimes:
    """The same with a timestamp for each partition."""

    timestamps_ms: Mapping[TopicPartition, int]
    has_latest = False


Topics = Named | Matching | Assigned
Position = Everywhere | AtOffsets | AtTime | AtTimes
