"""What a heartbeat of a consumer group's member changes (KIP-848): a pure function. A classic member's
JoinGroup (migration/classic_members.py) takes the same steps.

    1  the member      created, replaced (a static one that came back), or updated by what the request carries
    2  the group epoch goes up if subscriptions, matched topics or the topics themselves changed
    3  the target      computed if the group epoch is ahead of it, and the assignment interval is over
    4  the member      takes its next step towards its target (reconcile.py)

If nothing changed, as with almost every heartbeat, no record is written and the answer holds no assignment.
Not here: checking the request (requests.py), leaving and fencing (leave.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from moldau.broker.coordinator.group.assignors import Assignment
from moldau.broker.coordinator.group.consumer import records
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup, all_topic_names, preferred_assignor
from moldau.broker.coordinator.group.consumer.limits import ConsumerLimits
from moldau.broker.coordinator.group.consumer.member import JOIN_EPOCH, ConsumerMember
from moldau.broker.coordinator.group.consumer.reconcile import Goal, Owned, reconcile
from moldau.broker.coordinator.group.consumer.regex import TopicMatcher
from moldau.broker.coordinator.group.consumer.requests import Admitted, owned_partitions
from moldau.broker.coordinator.group.consumer.target import (
    TargetRequest,
    changed_targets,
    compute_targets,
    next_assignment_ms,
)
from moldau.broker.coordinator.group.group import Client
from moldau.broker.coordinator.group.topics import metadata_hash, topic_ids_of
from moldau.broker.metadata.image import Image
from moldau.common.protocol.messages.consumer_group_heartbeat import Assignment as WireAssignment
from moldau.common.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.common.protocol.messages.consumer_group_heartbeat import TopicPartitions as WirePartitions

FIRST_GROUP_EPOCH = 2
"""A new group begins here, as Kafka's do since 4.3; epoch 1 stands for "no assignment yet" there."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The inputs of a decision besides the group: the cluster's topics, the settings, the time, and which
    topics the member that asks may see."""

    image: Image
    limits: ConsumerLimits
    matcher: TopicMatcher
    now_ms: int
    sees_topic: Callable[[str], bool] | None = None


@dataclass(slots=True)
class Decision:
    """The group as it will be when `records` are in; filled step by step.

    before        the member as it was, `member` as it will be
    successor     member id -> the member id (of a static member) whose place and target it takes over
    resubscribed  the member reads other topics than before
    group_epoch   the one that holds from now on
    """

    group: ConsumerGroup
    around: Surroundings
    before: ConsumerMember
    member: ConsumerMember
    members: Mapping[str, ConsumerMember]
    resolved: Mapping[str, frozenset[str]]
    successor: Mapping[str, str]
    resubscribed: bool = False
    group_epoch: int = 0
    records: list[Any] = field(default_factory=list)
    looked_at_topics: bool = False


def decide_heartbeat(
    group: ConsumerGroup,
    admitted: Admitted,
    member_id: str,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    around: Surroundings,
) -> tuple[Decision, ConsumerGroupHeartbeatResponse]:
    """Take an admitted member's heartbeat through the four steps."""
    decision = begin(group, admitted, member_id, lambda before: _updated(before, request, client), around)
    pursue(decision, owned_partitions(request))
    return decision, _response(decision.before, decision.member, request, around.limits)


def begin(
    group: ConsumerGroup,
    admitted: Admitted,
    member_id: str,
    update: Callable[[ConsumerMember], ConsumerMember],
    around: Surroundings,
) -> Decision:
    """Steps 1 and 2; `update` puts into the member what its request carries."""
    before, former = admitted.member, admitted.replaces
    successor: Mapping[str, str] = {}
    if former is not None:
        before = replace(
            before, member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH
        )
        successor = {member_id: former.member_id}
    after = update(before)
    members = group.members
    if after is not members.get(member_id):
        gone = None if former is None else former.member_id
        members = {known_id: known for known_id, known in members.items() if known_id != gone}
        members[member_id] = after
    decision = Decision(group, around, before, after, members, group.resolved_topics(), successor)
    if former is not None:
        decision.records += records.member_tombstones(group.group_id, former.member_id)
        former_target = group.target(former.member_id)
        decision.records.append(records.target_record(group.group_id, member_id, former_target))
    if former is not None or member_id not in group.members or after != before:
        decision.records.append(records.member_record(group.group_id, after))
    subscription, former_subscription = (
        (member.topic_names, member.topic_regex) for member in (after, before)
    )
    decision.resubscribed = subscription != former_subscription
    decision.group_epoch = _raise_epoch(decision)
    return decision


def pursue(decision: Decision, owned: Owned | None) -> None:
    """Steps 3 and 4; `owned` is what the member says it holds."""
    target_epoch, target = _aim(decision)
    reached = _reconcile(decision, target_epoch, target, owned)
    if decision.successor or reached != decision.member:
        decision.records.append(records.current_record(decision.group.group_id, reached))
    decision.member = reached


def settle_on_present_target(decision: Decision, owned: Owned | None) -> None:
    """Step 4 alone, towards the target as it is: for a group that is about to be another one."""
    group = decision.group
    target = group.target(_former_id(decision))
    decision.member = _reconcile(decision, group.assignment_epoch, target, owned)


def _former_id(decision: Decision) -> str:
    member_id = decision.member.member_id
    return decision.successor.get(member_id, member_id)


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: Client
) -> ConsumerMember:
    """The member with what the request carries; null means "as before". The same object if nothing
    changed."""
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    changes: dict[str, Any] = {
        "client_id": client.client_id,
        "client_host": host_text(client.client_host),
        "classic": None,
    }
    if request.instance_id is not None:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        changes["assignor"] = request.server_assignor
    if names is not None:
        changes["topic_names"] = frozenset(names)
    if pattern is not None:
        changes["topic_regex"] = pattern
    if all(getattr(member, name) == value for name, value in changes.items()):
        return member
    return replace(member, **changes)


def host_text(client_host: str) -> str:
    """A client's address as Kafka writes it: `/10.0.0.1`."""
    return client_host if client_host.startswith("/") else f"/{client_host}"


def _raise_epoch(decision: Decision) -> int:
    """Step 2. Looks at the topics only if there is a reason to; returns the group epoch that holds from now
    on."""
    group, around = decision.group, decision.around
    patterns_due = bool(group.regexes) and (
        around.now_ms - group.regexes_checked_at_ms >= around.limits.regex_refresh_interval_ms
    )
    raise_it = decision.resubscribed or group.group_epoch == 0
    if not raise_it and not group.topics_changed and not patterns_due:
        return group.group_epoch
    decision.looked_at_topics = True
    raise_it = _resolve_patterns(decision) or raise_it
    names = all_topic_names(decision.members.values(), decision.resolved)
    digest = metadata_hash(names, around.image)
    if not raise_it and digest == group.metadata_hash:
        return group.group_epoch
    group_epoch = max(group.group_epoch + 1, FIRST_GROUP_EPOCH)
    decision.records.append(records.group_record(group.group_id, group_epoch, digest))
    return group_epoch


def _resolve_patterns(decision: Decision) -> bool:
    """Match every pattern in use against the present topics; drop those no longer used. True if a match
    changed.

    Topics that the asking member may not see match nothing. As in Kafka, a pattern's topics are the group's:
    who asked last has decided for all members with the pattern.
    """
    group, around = decision.group, decision.around
    used = {member.topic_regex for member in decision.members.values()} - {""}
    changed = False
    resolved: dict[str, frozenset[str]] = {}
    for pattern in sorted(used):
        topics = around.matcher.resolve(pattern, around.image.topics)
        if around.sees_topic is not None:
            topics = frozenset(filter(around.sees_topic, sorted(topics)))
        resolved[pattern] = topics
        known = group.regexes.get(pattern)
        if known is None or known.topics != topics:
            changed = True
            version = around.image.version
            decision.records.append(
                records.regex_record(group.group_id, pattern, topics, version, around.now_ms)
            )
    decision.records += [records.regex_tombstone(group.group_id, p) for p in group.regexes if p not in used]
    decision.resolved = resolved
    return changed


def _aim(decision: Decision) -> tuple[int, Assignment]:
    """Step 3: the target to pursue, with its epoch."""
    group, around, group_epoch = decision.group, decision.around, decision.group_epoch
    if group_epoch <= group.assignment_epoch or not _assignment_due(decision):
        return group.assignment_epoch, group.target(_former_id(decision))
    targets = compute_targets(
        TargetRequest(
            decision.members,
            group.targets,
            decision.successor,
            decision.resolved,
            preferred_assignor(decision.members.values(), around.limits.assignors),
            around.image,
        )
    )
    for changed_id, target in changed_targets(group.targets, targets, decision.successor).items():
        decision.records.append(records.target_record(group.group_id, changed_id, target))
    decision.records.append(records.assignment_epoch_record(group.group_id, group_epoch, around.now_ms))
    return group_epoch, targets[decision.member.member_id]


def _assignment_due(decision: Decision) -> bool:
    group, now_ms = decision.group, decision.around.now_ms
    if group.assignment_epoch <= 0 or now_ms < group.assigned_at_ms:
        return True
    interval_ms = decision.around.limits.assignment_interval_ms
    members, partitions = len(decision.members), group.held_partition_count()
    return now_ms >= next_assignment_ms(group.assigned_at_ms, members, partitions, interval_ms)


def _reconcile(
    decision: Decision,
    target_epoch: int,
    target: Assignment,
    owned: Owned | None,
) -> ConsumerMember:
    """Step 4."""
    member, group = decision.member, decision.group
    if member.is_reconciled_to(target_epoch) and not decision.resubscribed:
        return member
    former_id = _former_id(decision)

    def holder(topic_id: bytes, index: int) -> str | None:
        holder_id = group.holder(topic_id, index)
        return member.member_id if holder_id == former_id else holder_id

    goal = Goal(
        target_epoch,
        target,
        topic_ids_of(member.subscription(decision.resolved), decision.around.image),
        holder,
        owned,
        decision.resubscribed,
    )
    return reconcile(member, goal)


def _response(
    before: ConsumerMember,
    after: ConsumerMember,
    request: ConsumerGroupHeartbeatRequest,
    limits: ConsumerLimits,
) -> ConsumerGroupHeartbeatResponse:
    """The answer. It holds the assignment when the member joins, sends everything (after an error of its own,
    say), or has got another one."""
    response = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=limits.heartbeat_interval_ms,
    )
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    is_full = subscribes and request.rebalance_timeout_ms != -1 and request.topic_partitions is not None
    if request.member_epoch == JOIN_EPOCH or is_full or after.assigned != before.assigned:
        rows = [
            WirePartitions(topic_id=topic_id, partitions=sorted(after.assigned[topic_id]))
            for topic_id in sorted(after.assigned)
        ]
        response.assignment = WireAssignment(topic_partitions=rows)
    return response
