"""The interface of the group and the transaction coordinator: shards of one internal topic that come and go
with leadership.

The partition of an id (a group, a transactional id) is Kafka's: abs(hash) mod the topic's partitions, with
the hash of Java's `String`, so that all brokers and both implementations agree on it.
"""

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from typing import Protocol

from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.image import Image

_POWERS = tuple(pow(31, exponent, 1 << 32) for exponent in range(256))
_POWERS_OF_LENGTH = (*_POWERS, pow(31, 256, 1 << 32))
_CACHED_LENGTH_MAX = 200
"""Longer ids are not cached, to bound memory."""


class Coordinator(Protocol):
    """A coordinator on one broker."""

    @property
    def topic(self) -> str:
        """The internal topic whose partitions are its shards."""

    def start(self) -> None:
        """Begin the periodic work. Shards come with `elected`."""

    def stop(self) -> None:
        """Drop all shards; everyone who waits is answered COORDINATOR_NOT_AVAILABLE."""

    def elected(self, index: int, leader_epoch: int) -> None:
        """This broker leads partition `index` of the topic in `leader_epoch`: load its shard. Nothing
        happens if it is here in this epoch already; in a later one it is loaded again."""

    def resigned(self, index: int) -> None:
        """This broker leads partition `index` no longer: drop its shard; everyone who waits is answered
        NOT_COORDINATOR.
        """

    def metadata_changed(self, old_image: Image, new_image: Image, changes: Sequence[Change]) -> None:
        """Called after every change of the metadata."""

    def partition_for(self, key: str) -> int:
        """The partition of the topic that holds this id."""


def partition_of(key: str, topic_name: str, image: Image, planned_count: int) -> int:
    """The partition of an internal topic that holds `key`; with `planned_count` partitions if the topic does
    not exist yet."""
    topic = image.topics.get(topic_name)
    count = planned_count if topic is None else len(topic.partitions)
    value = java_hash(key)
    return (0 if value == -0x80000000 else abs(value)) % count


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, in 32 bits with sign."""
    return _cached_hash(text) if len(text) <= _CACHED_LENGTH_MAX else _java_hash(text)


def _java_hash(text: str) -> int:
    units = array("H")
    units.frombytes(text.encode(f"utf-16-{sys.byteorder[0]}e", "surrogatepass"))
    value = 0
    for start in range(0, len(units), len(_POWERS)):
        piece = units[start : start + len(_POWERS)]
        value *= _POWERS_OF_LENGTH[len(piece)]
        value = (value + sum(map(mul, reversed(piece), _POWERS))) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


_cached_hash = lru_cache(maxsize=16384)(_java_hash)
