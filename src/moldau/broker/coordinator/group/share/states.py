"""Which share-partitions of a group have state at the share coordinator (record 15 of `__consumer_offsets`).

    initializing   asked for; asked for again until the share coordinator has confirmed
    initialized    members may be assigned them
    deleting       topics whose state is being deleted

Written before the share coordinator is asked, so that a group coordinator that comes after this one knows
what may exist there. Immutable.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from moldau.broker.coordinator.group.topics import Topics


class StateTopic(NamedTuple):
    """Partitions of a topic, with the name that it had."""

    name: str
    partitions: frozenset[int] = frozenset()


StateTopics = Mapping[bytes, StateTopic]
"""By topic id."""
NONE: StateTopics = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SharePartitionStates:
    """See the module."""

    initializing: StateTopics = field(default_factory=lambda: NONE)
    initialized: StateTopics = field(default_factory=lambda: NONE)
    deleting: StateTopics = field(default_factory=lambda: NONE)

    def assignable(self, topics: Topics) -> dict[bytes, frozenset[int]]:
        """What members may get of topics that exist."""
        return {
            topic_id: each.partitions
            for topic_id, each in self.initialized.items()
            if topic_id in topics.topic_names
        }

    def missing(self, names: Iterable[str], topics: Topics) -> dict[bytes, StateTopic]:
        """What must be initialized before members can have all of these topics."""
        found = {}
        for name in sorted(names):
            topic = topics.topics.get(name)
            if topic is None or topic.topic_id in self.deleting:
                continue
            known = self.initialized.get(topic.topic_id)
            partitions = frozenset(range(len(topic.partitions)))
            if known is not None:
                partitions -= known.partitions
            if partitions:
                found[topic.topic_id] = StateTopic(name, partitions)
        return found

    def asking(self, topics: StateTopics) -> "SharePartitionStates":
        """These are being initialized."""
        return replace(
            self,
            initializing=_with(self.initializing, topics),
            initialized=_without(self.initialized, topics),
        )

    def confirmed(self, topics: StateTopics) -> "SharePartitionStates":
        """These are initialized."""
        known = {
            topic_id: each._replace(partitions=each.partitions & self.initializing[topic_id].partitions)
            for topic_id, each in topics.items()
            if topic_id in self.initializing
        }
        return replace(
            self,
            initializing=_without(self.initializing, known),
            initialized=_with(self.initialized, known),
        )

    def leaving(self, topic_ids: Iterable[bytes]) -> "SharePartitionStates":
        """The state of these topics is being deleted."""
        gone = {}
        for topic_id in topic_ids:
            both = [each[topic_id] for each in (self.initializing, self.initialized) if topic_id in each]
            if both:
                partitions = frozenset().union(*(each.partitions for each in both))
                gone[topic_id] = StateTopic(both[0].name, partitions)
        return SharePartitionStates(
            {key: each for key, each in self.initializing.items() if key not in gone},
            {key: each for key, each in self.initialized.items() if key not in gone},
            _with(self.deleting, gone),
        )

    def left(self, topic_ids: Iterable[bytes]) -> "SharePartitionStates":
        """The state of these topics is deleted."""
        gone = frozenset(topic_ids)
        return replace(self, deleting={key: each for key, each in self.deleting.items() if key not in gone})

    def still_initializing(self, topics: StateTopics) -> dict[bytes, StateTopic]:
        """Those of these that are not confirmed yet, nor deleted."""
        found = {}
        for topic_id, each in topics.items():
            known = self.initializing.get(topic_id)
            partitions = frozenset() if known is None else each.partitions & known.partitions
            if partitions:
                found[topic_id] = each._replace(partitions=partitions)
        return found

    def known(self) -> dict[bytes, StateTopic]:
        """All that may have state."""
        return dict(_with(_with(self.initialized, self.initializing), self.deleting))


def _with(topics: StateTopics, more: StateTopics) -> StateTopics:
    together = dict(topics)
    for topic_id, each in more.items():
        before = together.get(topic_id)
        together[topic_id] = (
            each if before is None else StateTopic(each.name, each.partitions | before.partitions)
        )
    return together


def _without(topics: StateTopics, gone: StateTopics) -> StateTopics:
    left = dict(topics)
    for topic_id, each in gone.items():
        if topic_id in left:
            rest = left[topic_id].partitions - each.partitions
            if rest:
                left[topic_id] = StateTopic(left[topic_id].name, rest)
            else:
                del left[topic_id]
    return left
