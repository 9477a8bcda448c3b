"""What a query may choose: its topics (three ways) and where to begin and end (four ways).

Plain values: they say what was asked for. What it comes to on a cluster is cluster_view.py's business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_moldau.offsets import LATEST, TopicPartition


@dataclass(frozen=True)
class Named:
    """`subscribe`: these topics, with all partitions that they have and will have."""

    topics: tuple[str, ...]


@dataclass(frozen=True)
class Matching:
    """`subscribePattern`: every topic whose whole name matches, those included that come later."""

    pattern: re.Pattern[str]


@dataclass(frozen=True)
class Assigned:
    """`assign`: these partitions and no others."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class Everywhere:
    """The earliest (-2) or latest (-1) offset of every partition."""

    offset: int

    @property
    def has_latest(self) -> bool:
        """Whether it is another place later on."""
        return self.offset == LATEST


@dataclass(frozen=True)
class AtOffsets:
    """An offset for each partition, -2 and -1 among them."""

    offsets: Mapping[TopicPartition, int]

    @property
    def has_latest(self) -> bool:
        """Whether it is another place later on."""
        return LATEST in self.offsets.values()


@dataclass(frozen=True)
class AtTime:
    """The first record of every partition that is as new as this, or newer."""

    timestamp_ms: int
    has_latest = False


@dataclass(frozen=True)
class AtTimes:
    """The same with a time for each partition."""

    timestamps_ms: Mapping[TopicPartition, int]
    has_latest = False


Topics = Named | Matching | Assigned
Position = Everywhere | AtOffsets | AtTime | AtTimes
