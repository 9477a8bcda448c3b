"""What a heartbeat of a share group's member changes (KIP-932): a pure function.

    1  the member      created, or updated by what the request carries
    2  the group epoch goes up if subscriptions or the topics themselves changed
    3  the target      computed if the group epoch is ahead of it, and the assignment interval is over
    4  the member      has its target at once
    5  the states      share-partitions of the group's topics without state are to be initialized; members get
                       them when the share coordinator has confirmed that (`confirmed`)

If nothing changed, no record is written and the answer holds no assignment. Not here: checking the request
(requests.py), asking the share coordinator (admin.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from moldau.broker.coordinator.group.assignors import Assignment
from moldau.broker.coordinator.group.assignors.simple import assign_simply
from moldau.broker.coordinator.group.group import Client, host_text
from moldau.broker.coordinator.group.share import records
from moldau.broker.coordinator.group.share.group import ShareGroup, topic_names_read
from moldau.broker.coordinator.group.share.member import JOIN_EPOCH, ShareMember
from moldau.broker.coordinator.group.share.states import SharePartitionStates, StateTopic
from moldau.broker.coordinator.group.topics import Topics, metadata_hash, topic_ids_of
from moldau.common.protocol.messages.share_group_heartbeat import Assignment as WireAssignment
from moldau.common.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

INITIALIZE_RETRY_MS = 30_000
"""After so long without an answer the share coordinator is asked again."""
MILLISECONDS_PER_TEN = 1
"""How long a group waits between two assignments, for every ten of its members and partitions."""


class ShareLimits(NamedTuple):
    """One group's settings."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    size_max: int
    assignment_interval_ms: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The inputs of a decision besides the group."""

    image: Topics
    limits: ShareLimits
    now_ms: int


@dataclass(slots=True)
class Decision:
    """What becomes of the group. `asks` are the share-partitions to be initialized."""

    member: ShareMember
    response: ShareGroupHeartbeatResponse
    records: list[Any] = field(default_factory=list)
    asks: dict[bytes, StateTopic] = field(default_factory=dict)
    group_epoch: int = 0
    looked_at_topics: bool = False


def decide_heartbeat(
    group: ShareGroup,
    before: ShareMember,
    request: ShareGroupHeartbeatRequest,
    client: Client,
    around: Surroundings,
) -> Decision:
    """Take an admitted member's heartbeat through the five steps."""
    after = _updated(before, request, client)
    members = {**group.members, after.member_id: after}
    written: list[Any] = []
    if after.member_id not in group.members or after != before:
        written.append(records.member_record(group.group_id, after))
    resubscribed = after.topic_names != before.topic_names or after.member_id not in group.members
    group_epoch, looked = group.group_epoch, False
    if resubscribed or group.topics_changed or not group.group_epoch:
        looked = True
        digest = metadata_hash(topic_names_read(members.values(), around.image), around.image)
        if resubscribed or digest != group.metadata_hash or not group.group_epoch:
            group_epoch += 1
            written.append(records.group_record(group.group_id, group_epoch, digest))
    target_epoch, target = group.assignment_epoch, group.target(after.member_id)
    if group_epoch > group.assignment_epoch and _assignment_due(group, len(members), around):
        target_epoch = group_epoch
        targets = _assign(group, members, group.states, around.image)
        written += _target_records(group, targets, target_epoch, around.now_ms)
        target = targets[after.member_id]
    reached = after
    if (after.member_epoch, after.assigned) != (target_epoch, target) or after.member_id not in group.members:
        reached = after.at_epoch(target_epoch, target)
        written.append(records.current_record(group.group_id, reached))
    decision = Decision(reached, _response(before, reached, request, around.limits), written)
    decision.group_epoch, decision.looked_at_topics = group_epoch, looked
    _ask_for_states(group, members, decision, around)
    return decision


def _updated(member: ShareMember, request: ShareGroupHeartbeatRequest, client: Client) -> ShareMember:
    """The member with what the request carries; null means "as before"."""
    names = request.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=host_text(client),
        topic_names=member.topic_names if names is None else frozenset(names),
    )


def _assignment_due(group: ShareGroup, member_count: int, around: Surroundings) -> bool:
    if group.assignment_epoch <= 0 or around.now_ms < group.assigned_at_ms:
        return True
    size = member_count + group.held_partition_count()
    pause_ms = min(around.limits.assignment_interval_ms, size // 10 * MILLISECONDS_PER_TEN)
    return around.now_ms >= group.assigned_at_ms + pause_ms


def _assign(
    group: ShareGroup, members: Mapping[str, ShareMember], states: SharePartitionStates, image: Topics
) -> dict[str, Assignment]:
    assignable = states.assignable(image)
    names_of = image.topic_names
    by_names: dict[frozenset[str], frozenset[bytes]] = {}
    for member in members.values():
        names = member.topic_names
        if names not in by_names:
            few = len(assignable) < len(names)
            by_names[names] = (
                frozenset([topic_id for topic_id in assignable if names_of[topic_id] in names])
                if few
                else topic_ids_of(names, image)
            )
    subscriptions = {member_id: by_names[member.topic_names] for member_id, member in members.items()}
    return assign_simply(subscriptions, assignable, group.targets)


def _target_records(
    group: ShareGroup, targets: Mapping[str, Assignment], target_epoch: int, now_ms: int
) -> list[Any]:
    changed = [
        records.target_record(group.group_id, member_id, target)
        for member_id, target in targets.items()
        if member_id not in group.targets or group.targets[member_id] != target
    ]
    return [*changed, records.assignment_epoch_record(group.group_id, target_epoch, now_ms)]


def _ask_for_states(
    group: ShareGroup, members: Mapping[str, ShareMember], decision: Decision, around: Surroundings
) -> None:
    if not decision.looked_at_topics and not group.states.initializing:
        return
    missing = group.states.missing(topic_names_read(members.values(), around.image), around.image)
    asked_at_ms = group.asked_at_ms
    waits = asked_at_ms is not None and 0 <= around.now_ms - asked_at_ms < INITIALIZE_RETRY_MS
    if waits:
        known = group.states.initializing
        missing = {
            topic_id: StateTopic(each.name, rest)
            for topic_id, each in missing.items()
            if (rest := each.partitions - known.get(topic_id, StateTopic("")).partitions)
        }
    if missing:
        states = group.states.asking(missing)
        decision.asks = missing
        if states != group.states:
            decision.records.append(records.states_record(group.group_id, states))


def confirmed(group: ShareGroup, topics: Mapping[bytes, StateTopic], around: Surroundings) -> list[Any]:
    """The share coordinator has initialized these: members may have them now."""
    states = group.states.confirmed(topics)
    if states == group.states:
        return []
    group_epoch = group.group_epoch + 1
    targets = _assign(group, group.members, states, around.image)
    return [
        records.states_record(group.group_id, states),
        records.group_record(group.group_id, group_epoch, group.metadata_hash),
        *_target_records(group, targets, group_epoch, around.now_ms),
    ]


def removed(group: ShareGroup, member_id: str, image: Topics) -> list[Any]:
    """The member leaves, or its session has ended."""
    remaining = [member for known_id, member in group.members.items() if known_id != member_id]
    digest = metadata_hash(topic_names_read(remaining, image), image)
    return [
        *records.member_tombstones(group.group_id, member_id),
        records.group_record(group.group_id, group.group_epoch + 1, digest),
    ]


def _response(
    before: ShareMember, after: ShareMember, request: ShareGroupHeartbeatRequest, limits: ShareLimits
) -> ShareGroupHeartbeatResponse:
    """The answer. It holds the assignment when the member joins, sends everything (after an error of its own,
    say), or has got another one."""
    response = ShareGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=limits.heartbeat_interval_ms,
    )
    sends_all = request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names is not None
    if sends_all or after.assigned != before.assigned or request.member_epoch != before.member_epoch:
        response.assignment = WireAssignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(after.assigned[topic_id]))
                for topic_id in sorted(after.assigned)
            ]
        )
    return response
