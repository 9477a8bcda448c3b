"""Converts a classic group in use to a consumer group (KIP-848), when a member of the consumer protocol
joins.

The members stay, with what they hold, and go on using the classic protocol; each becomes a classic member of
the consumer group (classic_members.py):

    generation               ->  group epoch, assignment epoch, every member's epoch
    a member's assignment    ->  its target, and what it has
    its subscription         ->  its topics and rack; the bytes are kept, the group may become classic again

The join that follows raises the group epoch, so every member is soon told to rejoin. Requests parked in
the classic rebalance are answered so at once (`Draft.refuse_all`, by the caller).

A cooperative member (KIP-429) may have more than it is assigned: in the middle of a rebalance, whose outcome
is not known yet, or when it has not been told yet to give something up. What it reported when it joined
counts, else another member would get what it still consumes. Kafka goes by the assignment alone. In a stable
group the rest counts as to be revoked; in one that is being rebalanced the member may keep it until the new
target is computed, which a metadata hash that matches no topics enforces.

Refused, with a line in the log: `group.consumer.migration.policy` does not allow it; the members are no
consumers, or too many, or their records are too large for one batch; what they sent cannot be read; an
assignor of the user's own left data with the assignments, which would be lost. The group then stays as it is.

Records: the classic group's tombstone, the members, the group epoch, the targets, their epoch, and what each
member has, in Kafka's order. Not here: the way back (downgrade.py), groups without members
(consumer/service.py).
"""

import logging
from collections.abc import Mapping
from typing import Any

from moldau.broker.coordinator.append_errors import CLIENT_ERRORS
from moldau.broker.coordinator.group.assignors import Assignment
from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.classic.member import ClassicMember
from moldau.broker.coordinator.group.classic.membership import CONSUMER
from moldau.broker.coordinator.group.classic.states import ClassicState
from moldau.broker.coordinator.group.consumer import records
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup, all_topic_names
from moldau.broker.coordinator.group.consumer.member import ClassicSide, ConsumerMember, MemberState
from moldau.broker.coordinator.group.consumer.requests import Rejected
from moldau.broker.coordinator.group.migration.embedded_protocol import (
    Malformed,
    Subscription,
    read_assignment,
    read_subscription,
    with_topic_ids,
)
from moldau.broker.coordinator.group.topics import Topics, metadata_hash
from moldau.broker.coordinator.journal import Journal
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings

UPGRADE_POLICIES = ("bidirectional", "upgrade")

CLIENTS_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Assignors that every client has. The data that they leave with an assignment notes who had what, and may be
lost: librdkafka's cooperative-sticky does that. (Kafka refuses such a group, which ends the joining
client.)"""

_MALFORMED = "the embedded consumer protocol is malformed"
_CUSTOM = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
    "assignor before re-attempting the upgrade"
)

_log = logging.getLogger("moldau.coordinator.group.upgrade")


class _Unfit(Exception):
    """The group cannot be upgraded; the text says why, in Kafka's words where Kafka has the case, for tools
    compare them. `details` are for the log."""

    def __init__(self, reason: str, details: str) -> None:
        super().__init__(reason)
        self.details = details


def may_upgrade(policy: str) -> bool:
    """Whether `group.consumer.migration.policy` lets classic groups in use become consumer groups."""
    return policy.lower() in UPGRADE_POLICIES


def upgrade(
    classic: ClassicGroup, settings: BrokerSettings, image: Topics
) -> tuple[ConsumerGroup, list[Any]] | Rejected:
    """The group as it will be, and the records that make it so. Changes nothing."""
    group_id = classic.group_id
    try:
        _check(classic, settings)
        group = _converted(classic, image)
    except _Unfit as unfit:
        _log.warning("group %s stays a classic group: %s", group_id, unfit.details)
        return Rejected(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group_id} to consumer group because {unfit}.",
        )
    members = group.members
    written: list[Any] = [
        *classic.tombstones(),
        *[records.member_record(group_id, member) for member in members.values()],
        records.group_record(group_id, group.group_epoch, group.metadata_hash),
        *[records.target_record(group_id, member_id, group.target(member_id)) for member_id in members],
        records.assignment_epoch_record(group_id, group.assignment_epoch, group.assigned_at_ms),
        *[records.current_record(group_id, member) for member in members.values()],
    ]
    return group, written


def subscription_bytes(classic: ClassicGroup) -> int:
    """The size of all members' subscriptions; the records are larger."""
    return sum(len(data) for member in classic.members.values() for _, data in member.protocols)


def note_failure(classic: ClassicGroup, size_bytes: int, error_code: int) -> None:
    """An upgrade with so many bytes of subscriptions could not be written. If it was too large, it is not
    tried again before there are fewer: it is much work, and the member retries."""
    if error_code == CLIENT_ERRORS[ErrorCode.MESSAGE_TOO_LARGE]:
        classic.upgrade_bytes_max = size_bytes - 1


def _check(classic: ClassicGroup, settings: BrokerSettings) -> None:
    policy = settings.group_consumer_migration_policy
    if not may_upgrade(policy):
        raise _Unfit("online upgrade is disabled", f"group.consumer.migration.policy is {policy!r}")
    if classic.protocol_type != CONSUMER:
        raise _Unfit(
            "the group does not use the consumer embedded protocol",
            f"its members are not consumers, their protocol type is {classic.protocol_type!r}",
        )
    size_bytes = subscription_bytes(classic)
    if size_bytes > min(settings.message_max_bytes, classic.upgrade_bytes_max):
        reason = f"its members' subscriptions, {size_bytes} bytes, are more than a batch of records takes"
        raise _Unfit(reason, reason)
    if len(classic.members) > settings.group_consumer_max_size:
        raise _Unfit(
            "the group size exceeds the consumer group maximum size",
            f"it has {len(classic.members)} members, group.consumer.max.size allows"
            f" {settings.group_consumer_max_size}",
        )


def _converted(classic: ClassicGroup, image: Topics) -> ConsumerGroup:
    generation = classic.generation
    stable = classic.state is ClassicState.STABLE
    group = ConsumerGroup(classic.group_id, Journal())
    group.set_assignment_epoch(generation, 0)
    subscriptions = {member.member_id: _subscription(classic, member) for member in classic.members.values()}
    assigned, kept = _possessions(classic, subscriptions, image)
    for member in classic.members.values():
        member_id, subscription = member.member_id, subscriptions[member.member_id]
        has, revokes = assigned[member_id], kept[member_id]
        if not stable:
            has, revokes = _together(has, revokes), {}
        group.targets[member_id] = has
        group.put_member(
            ConsumerMember(
                member_id,
                instance_id=member.instance_id,
                rack_id=subscription.rack_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                topic_names=subscription.topics,
                classic=ClassicSide(member.session_timeout_ms, member.protocols),
                member_epoch=generation,
                previous_member_epoch=generation,
                state=MemberState.UNREVOKED_PARTITIONS if revokes else MemberState.STABLE,
                assigned=_since(generation, has),
                pending=_since(generation, revokes),
            )
        )
    digest = metadata_hash(all_topic_names(group.members.values(), {}), image)
    group.set_epoch(generation, digest if stable else ~digest)
    return group


def _subscription(classic: ClassicGroup, member: ClassicMember) -> Subscription:
    # All protocols of a member carry the same subscription. There is none under the group's protocol before
    # the first generation, and of members that joined without it, since the next one will be another.
    try:
        return read_subscription(member.metadata(classic.protocol_name) or member.protocols[0][1])
    except Malformed as error:
        raise _Unfit(
            _MALFORMED, f"the subscription of member {member.member_id} cannot be read, {error}"
        ) from None


def _possessions(
    classic: ClassicGroup, subscriptions: Mapping[str, Subscription], image: Topics
) -> tuple[dict[str, Assignment], dict[str, Assignment]]:
    """For each member, what it is assigned, and what it reported when it joined and no other member has got
    since.

    No partition is in it twice. A leader may, wrongly, have assigned one to two members; and members may
    claim the same one, of whom the one with the later generation is right.
    """
    taken: set[tuple[bytes, int]] = set()
    assigned = {
        member.member_id: _take(_assignment_of(member, classic.protocol_name, image), taken)
        for member in classic.members.values()
    }
    kept = {}
    for member_id in sorted(subscriptions, key=lambda member_id: -subscriptions[member_id].generation):
        kept[member_id] = _take(with_topic_ids(subscriptions[member_id].owned, image), taken)
    return assigned, kept


def _assignment_of(member: ClassicMember, protocol_name: str | None, image: Topics) -> Assignment:
    """What the member is assigned; nothing if the leader has yet to assign."""
    if not member.assignment:
        return {}
    try:
        partitions, has_user_data = read_assignment(member.assignment)
    except Malformed as error:
        raise _Unfit(
            _MALFORMED, f"the assignment of member {member.member_id} cannot be read, {error}"
        ) from None
    if has_user_data and protocol_name not in CLIENTS_ASSIGNORS:
        raise _Unfit(_CUSTOM, f"its assignor {protocol_name!r} keeps data of its own in the assignments")
    return with_topic_ids(partitions, image)


def _take(partitions: Assignment, taken: set[tuple[bytes, int]]) -> Assignment:
    """Those of `partitions` that are not in `taken` yet, and adds them to it."""
    free = {
        topic_id: frozenset(index for index in indices if (topic_id, index) not in taken)
        for topic_id, indices in partitions.items()
    }
    taken.update((topic_id, index) for topic_id, indices in free.items() for index in indices)
    return {topic_id: indices for topic_id, indices in free.items() if indices}


def _together(some: Assignment, others: Assignment) -> Assignment:
    empty: frozenset[int] = frozenset()
    return {
        topic_id: some.get(topic_id, empty) | others.get(topic_id, empty)
        for topic_id in [*some, *(topic_id for topic_id in others if topic_id not in some)]
    }


def _since(epoch: int, partitions: Assignment) -> dict[bytes, dict[int, int]]:
    return {topic_id: dict.fromkeys(sorted(indices), epoch) for topic_id, indices in partitions.items()}
