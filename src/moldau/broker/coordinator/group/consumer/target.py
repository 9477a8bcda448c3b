"""Computes a group's target assignment from its members and topics.

A pure function around the assignor: it translates names and patterns to topic ids, carries the former targets
over (those of a replaced static member to its successor), and says what changed, so that only changes are
written.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from moldau.broker.coordinator.group.assignors import (
    ASSIGNORS,
    EMPTY_ASSIGNMENT,
    Assignment,
    GroupSpec,
    MemberSpec,
)
from moldau.broker.coordinator.group.consumer.member import ConsumerMember
from moldau.broker.coordinator.group.topics import Topics, topic_ids_of

MILLISECONDS_PER_TEN = 1
"""How long a group waits between two assignments, for every ten of its members and partitions; see
docs/decisions/consumer-group-assignment-pace.md."""


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """A group as it will be once this request's records are in.

    members     all members, the one that asks in its new shape
    previous    the targets so far
    successor   member id -> the member id whose target it takes over
    resolved    the topics of each pattern
    """

    members: Mapping[str, ConsumerMember]
    previous: Mapping[str, Assignment]
    successor: Mapping[str, str]
    resolved: Mapping[str, frozenset[str]]
    assignor: str
    image: Topics


def compute_targets(request: TargetRequest) -> dict[str, Assignment]:
    """What each member should have from now on."""
    # Most members of a group share one subscription; the assignors profit from its being one object.
    subscriptions: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id, member in request.members.items():
        key = (member.topic_names, member.topic_regex)
        topic_ids = subscriptions.get(key)
        if topic_ids is None:
            topic_ids = topic_ids_of(member.subscription(request.resolved), request.image)
            subscriptions[key] = topic_ids
        former_id = request.successor.get(member_id, member_id)
        previous = request.previous.get(former_id, EMPTY_ASSIGNMENT)
        specs[member_id] = MemberSpec(topic_ids, previous, member.instance_id)
    names, topics = request.image.topic_names, request.image.topics
    counts = {
        topic_id: len(topics[names[topic_id]].partitions)
        for topic_id in frozenset().union(*subscriptions.values())
    }
    return ASSIGNORS[request.assignor](GroupSpec(specs, counts))


def changed_targets(
    old: Mapping[str, Assignment], new: Mapping[str, Assignment], successor: Mapping[str, str]
) -> dict[str, Assignment]:
    """The targets that have to be written: members without one, and members whose target differs."""
    return {
        member_id: target
        for member_id, target in new.items()
        if (before := old.get(successor.get(member_id, member_id))) is None or before != target
    }


def next_assignment_ms(assigned_at_ms: int, member_count: int, partition_count: int, interval_ms: int) -> int:
    """The earliest moment for the next assignment of a group of this size, as wall-clock milliseconds."""
    return assigned_at_ms + min(interval_ms, (member_count + partition_count) // 10 * MILLISECONDS_PER_TEN)
