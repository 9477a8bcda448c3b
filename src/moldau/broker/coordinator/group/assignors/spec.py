"""The input and the result of an assignor.

A `GroupSpec` lists the members, each with the topics it reads and the partitions it was last told to have;
the partition counts say what there is to assign. A topic without a count does not exist (any more) and is
left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id. Shared freely, so never changed in place; a topic without partitions is not in
it."""

EMPTY_ASSIGNMENT: Assignment = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: which topics it reads, and the target assignment it has so far (what stickiness wants to
    keep)."""

    topic_ids: frozenset[bytes]
    previous: Assignment = field(default_factory=lambda: EMPTY_ASSIGNMENT)
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A whole group: the members by id, and how many partitions each existing topic has."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]


def ordered_members(spec: GroupSpec) -> list[str]:
    """Member ids in the order in which they are served: by instance id where there is one, so that a static
    member that comes back under a new member id keeps its place."""
    members = spec.members
    return sorted(members, key=lambda member_id: (members[member_id].instance_id or member_id, member_id))


def subscribers_by_topic(spec: GroupSpec, member_order: list[str]) -> dict[bytes, tuple[int, ...]]:
    """For each existing topic, the ranks (indices into `member_order`) of the members that read it,
    ascending.

    Topics with the same readers share one tuple object, because groups in which all members read the same
    thousands of topics are the common case.
    """
    by_subscription: dict[frozenset[bytes], list[int]] = {}
    for rank, member_id in enumerate(member_order):
        by_subscription.setdefault(spec.members[member_id].topic_ids, []).append(rank)
    subscriptions = list(by_subscription)
    ranks_of_subscriptions: dict[tuple[int, ...], tuple[int, ...]] = {}
    subscriptions_of_topic: dict[bytes, list[int]] = {}
    for number, topic_ids in enumerate(subscriptions):
        for topic_id in topic_ids:
            if topic_id in spec.partition_counts:
                subscriptions_of_topic.setdefault(topic_id, []).append(number)
    result: dict[bytes, tuple[int, ...]] = {}
    for topic_id in sorted(subscriptions_of_topic):
        key = tuple(subscriptions_of_topic[topic_id])
        ranks = ranks_of_subscriptions.get(key)
        if ranks is None:
            ranks = tuple(sorted(rank for number in key for rank in by_subscription[subscriptions[number]]))
            ranks_of_subscriptions[key] = ranks
        result[topic_id] = ranks
    return result
