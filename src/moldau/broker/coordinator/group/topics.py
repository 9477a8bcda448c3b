"""What consumer groups need of the cluster's metadata: which topics exist, and whether a group's topics
changed.

A group remembers a *metadata hash* of the topics it reads (KIP-1101): id, name and number of partitions of
each. When the hash of today differs, the target assignment is out of date and the group epoch goes up. The
algorithm is our own (BLAKE2b, cut to 64 bits; Kafka's is XXH3), so a log taken over from Kafka costs each
group one more epoch, and nothing else. Racks are not part of it, because neither assignor looks at them.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Protocol

_NUMBERS = struct.Struct(">HI")


class Topic(Protocol):
    """One topic of the metadata image."""

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Sequence[Any]: ...


class Topics(Protocol):
    """The topics of a metadata image, both ways round."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    @property
    def topic_names(self) -> Mapping[bytes, str]: ...


def topic_ids_of(names: Iterable[str], image: Topics) -> frozenset[bytes]:
    """The ids of those named topics that exist."""
    topics = image.topics
    return frozenset([topic.topic_id for name in names if (topic := topics.get(name)) is not None])


def metadata_hash(names: Iterable[str], image: Topics) -> int:
    """A signed 64-bit digest of the named topics; 0 if none of them exists."""
    digest = blake2b(digest_size=8)
    found = False
    topics = image.topics
    for name in sorted([name for name in names if name in topics]):  # clients name many that do not exist
        topic = topics[name]
        found = True
        text = name.encode()
        digest.update(topic.topic_id + _NUMBERS.pack(len(text), len(topic.partitions)) + text)
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


class LatestChange:
    """`changed_topics` for many shards that all learn of the same change: only the first has to compare."""

    __slots__ = ("_changed", "_new", "_old")

    def __init__(self) -> None:
        self._old: object = None
        self._new: object = None
        self._changed: frozenset[str] = frozenset()

    def between(self, old: Topics, new: Topics) -> frozenset[str]:
        """The names that changed from one image to the next."""
        if old.topics is not self._old or new.topics is not self._new:
            self._old, self._new, self._changed = old.topics, new.topics, changed_topics(old, new)
        return self._changed


def changed_topics(old: Topics, new: Topics) -> frozenset[str]:
    """Names of topics that appeared, vanished, were replaced, or have another number of partitions."""
    if old.topics is new.topics:
        return frozenset()
    changed = set(old.topics.keys() ^ new.topics.keys())
    for name, topic in new.topics.items():
        before = old.topics.get(name, topic)
        if before is not topic and _essence(before) != _essence(topic):
            changed.add(name)
    return frozenset(changed)


def _essence(topic: Topic) -> tuple[bytes, int]:
    return topic.topic_id, len(topic.partitions)
