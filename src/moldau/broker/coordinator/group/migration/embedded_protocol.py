"""Reads and writes the consumer protocol embedded in the classic one: subscriptions and assignments.

The classic protocol carries bytes that only its members understand. Consumers all use one form for them, and
the coordinator has to read and write it where members of both protocols share a group:

    subscription   | version 2 | topics | user data |v1: owned partitions |v2: generation |v3: rack |
    assignment     | version 2 | (topic, partitions) ... | user data |

New versions only add fields at the end, so a newer one is read as the newest known, and what follows is left
alone, as Kafka does. Everything is checked against what the bytes hold before it is read, and what names too
much counts as unreadable.

Not here: the topics alone, of any version (classic/subscription.py, which asks for less and accepts more).
"""

import struct
from typing import NamedTuple

from moldau.broker.coordinator.group.assignors import Assignment
from moldau.broker.coordinator.group.topics import Topics
from moldau.common.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)

VERSION_MAX = 3
TOPICS_MAX = 10_000
PARTITIONS_MAX = 100_000
"""A member is decided on in one turn of the loop, so what it names is bounded, by the limits that heartbeats
of the consumer protocol have."""
OWNED_SINCE, GENERATION_SINCE, RACK_SINCE = 1, 2, 3

_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")

TopicPartitions = tuple[tuple[str, tuple[int, ...]], ...]


class Malformed(Exception):
    """The bytes are not what consumers send."""


class Subscription(NamedTuple):
    """What a consumer sent when it joined. `owned` is what it had then, since `generation`; it is empty below
    version 1, which knows only members that give up everything before they join."""

    version: int
    topics: frozenset[str]
    owned: TopicPartitions
    generation: int
    rack_id: str | None


def read_subscription(data: bytes) -> Subscription:
    """The subscription in `data`. Raises `Malformed`."""
    reader = _Reader(data)
    version = reader.version()
    topics = frozenset(reader.string() for _ in range(reader.count(_SHORT.size, TOPICS_MAX)))
    reader.skip_bytes()
    owned: TopicPartitions = reader.topic_partitions() if version >= OWNED_SINCE else ()
    generation = reader.number(_INT) if version >= GENERATION_SINCE else -1
    rack_id = reader.nullable_string() if version >= RACK_SINCE else None
    return Subscription(version, topics, owned, generation, rack_id or None)


def subscription_version(data: bytes) -> int:
    """The version in which a member sent its subscription, and expects its assignment; 0 if that cannot be
    read."""
    try:
        return _Reader(data).version()
    except Malformed:
        return 0


def read_assignment(data: bytes) -> tuple[TopicPartitions, bool]:
    """The partitions in `data`, and whether an assignor of the user's own left data with them. Raises
    `Malformed`."""
    reader = _Reader(data)
    reader.version()
    partitions = reader.topic_partitions()
    return partitions, reader.skip_bytes() > 0


def write_assignment(assignment: Assignment, image: Topics, version: int) -> bytes:
    """The bytes of an assignment; topics that exist no longer have no name, and are left out."""
    version = min(version, VERSION_MAX)
    names = image.topic_names
    rows = [
        TopicPartition(topic=names[topic_id], partitions=sorted(indices))
        for topic_id, indices in assignment.items()
        if topic_id in names
    ]
    rows.sort(key=lambda row: row.topic)
    return _SHORT.pack(version) + ConsumerProtocolAssignment(assigned_partitions=rows).encode(version)


def with_topic_ids(partitions: TopicPartitions, image: Topics) -> dict[bytes, frozenset[int]]:
    """Partitions by topic id; those that do not exist are left out, so that there are never more of them
    than the cluster has."""
    found: dict[bytes, set[int]] = {}
    for name, indices in partitions:
        topic = image.topics.get(name)
        if topic is not None:
            count = len(topic.partitions)
            found.setdefault(topic.topic_id, set()).update(index for index in indices if 0 <= index < count)
    return {topic_id: frozenset(some) for topic_id, some in found.items() if some}


class _Reader:
    """Reads fields one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self, form: struct.Struct) -> int:
        try:
            (value,) = form.unpack_from(self._data, self._position)
        except struct.error:
            raise Malformed("it ends too early") from None
        self._position += form.size
        return int(value)

    def version(self) -> int:
        version = self.number(_SHORT)
        if version < 0:
            raise Malformed(f"version {version} does not exist")
        return min(version, VERSION_MAX)

    def count(self, element_size_bytes: int, count_max: int) -> int:
        """How many elements follow, each of at least that size."""
        count = self.number(_INT)
        if not 0 <= count <= (len(self._data) - self._position) // element_size_bytes:
            raise Malformed(f"it cannot hold {count} elements")
        if count > count_max:
            raise Malformed(f"it names {count} topics or partitions, more than {count_max}")
        return count

    def _take(self, size_bytes: int) -> bytes:
        piece = self._data[self._position : self._position + size_bytes]
        if len(piece) != size_bytes:
            raise Malformed("it ends too early")
        self._position += size_bytes
        return piece

    def nullable_string(self) -> str | None:
        size_bytes = self.number(_SHORT)
        if size_bytes < 0:
            return None
        try:
            return self._take(size_bytes).decode()
        except UnicodeDecodeError:
            raise Malformed("a name is not UTF-8") from None

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise Malformed("a name is missing")
        return text

    def skip_bytes(self) -> int:
        """Step over bytes that may be null; returns how many there were."""
        size_bytes = self.number(_INT)
        if size_bytes > 0:
            self._take(size_bytes)
        return max(size_bytes, 0)

    def topic_partitions(self) -> TopicPartitions:
        rows = []
        left = PARTITIONS_MAX
        for _ in range(self.count(_SHORT.size + _INT.size, TOPICS_MAX)):
            name = self.string()
            count = self.count(_INT.size, left)
            left -= count
            indices = struct.unpack(f">{count}i", self._take(count * _INT.size))
            rows.append((name, indices))
        return tuple(rows)
