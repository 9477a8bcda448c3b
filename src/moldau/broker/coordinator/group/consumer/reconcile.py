"""Moves one member towards its target assignment, one safe step at a time (KIP-848).

The target assignment is what every member *should* have; a member only gets what no other member still has.
Each heartbeat of a member takes the next step that its state allows:

    STABLE ──newer target──> anything to give up? ──yes──> UNREVOKED: told to revoke, keeps its epoch, waits
                                   │ no                        │ revocation confirmed
                                   ▼                           │
             target epoch, with what is free  <────────────────┘
                    │
                    ├── all of the target is there ──> STABLE
                    └── some is still with others ──> UNRELEASED: asks again with every heartbeat

Invariant: `assigned` and `pending` of all members are disjoint at all times, so no partition has two owners.
Not here: computing targets (target.py), giving up on members that never confirm (group.py,
deadlines).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from moldau.broker.coordinator.group.assignors import Assignment
from moldau.broker.coordinator.group.consumer.member import (
    NO_PARTITIONS,
    ConsumerMember,
    MemberState,
    PartitionEpochs,
    has_any,
)

Owned = Sequence[tuple[bytes, Sequence[int]]]
"""What a member reports as owned: (topic id, partitions) pairs."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a member is to go.

    topic_ids      what the member subscribes to now; it may keep nothing else, whatever the target says
    holder         which member has a partition (assigned or pending), None if none has
    owned          what the member reported with this heartbeat; None means "as before" and confirms nothing
    resubscribed   the member changed its subscription with this heartbeat
    """

    target_epoch: int
    target: Assignment
    topic_ids: frozenset[bytes]
    holder: Callable[[bytes, int], str | None]
    owned: Owned | None
    resubscribed: bool


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member after the next step; the same object if there is none to take."""
    if member.state is MemberState.STABLE and member.member_epoch == goal.target_epoch:
        return _drop_unsubscribed(member, goal) if goal.resubscribed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_holds(member.pending, goal):
        return _drop_unsubscribed(member, goal) if goal.resubscribed else member
    return _step(member, goal)


def _still_holds(partitions: PartitionEpochs, goal: Goal) -> bool:
    """Whether the member may still be consuming any of `partitions`; silence counts as yes."""
    return goal.owned is None or has_any(partitions, goal.owned)


def _step(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Compare what the member has with its target: revoke first, then take what is free."""
    keep: dict[bytes, Mapping[int, int]] = {}
    revoke: dict[bytes, Mapping[int, int]] = {}
    gain: dict[bytes, list[int]] = {}
    unreleased = False
    for topic_id in sorted(goal.target.keys() | member.assigned.keys()):
        wanted = goal.target.get(topic_id, frozenset()) if topic_id in goal.topic_ids else frozenset()
        had = member.assigned.get(topic_id, {})
        kept = {index: epoch for index, epoch in had.items() if index in wanted}
        if kept:
            keep[topic_id] = kept
        if len(kept) < len(had):
            revoke[topic_id] = {index: epoch for index, epoch in had.items() if index not in wanted}
        for index in sorted(wanted - kept.keys()):
            # What this member was to revoke it may have back: no other member can have got it.
            if goal.holder(topic_id, index) in (None, member.member_id):
                gain.setdefault(topic_id, []).append(index)
            else:
                unreleased = True
    if revoke and _still_holds(revoke, goal):
        return member.at_epoch(member.member_epoch, MemberState.UNREVOKED_PARTITIONS, keep, revoke)
    for topic_id, indices in gain.items():
        keep[topic_id] = {**keep.get(topic_id, {}), **dict.fromkeys(indices, goal.target_epoch)}
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.at_epoch(goal.target_epoch, state, keep, NO_PARTITIONS)


def _drop_unsubscribed(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Take away topics that the member has just unsubscribed from, without waiting for a new target."""
    dropped = {
        topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in goal.topic_ids
    }
    if not dropped:
        return member
    keep = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in dropped}
    pending = {
        topic_id: {**member.pending.get(topic_id, {}), **dropped.get(topic_id, {})}
        for topic_id in sorted(member.pending.keys() | dropped.keys())
    }
    if _still_holds(pending, goal):
        return member.at_epoch(member.member_epoch, MemberState.UNREVOKED_PARTITIONS, keep, pending)
    return member.at_epoch(member.member_epoch, member.state, keep, NO_PARTITIONS)
