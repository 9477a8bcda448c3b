"""Converts a consumer group to a classic group, when its last member of the consumer protocol is gone.

It left, expired, or was a static member whose place a classic one takes. What the classic members have
becomes their assignment, and the group epoch becomes the generation:

    a member left         the classic group begins a rebalance at once
    a static member       the group stays stable without a rebalance, unless the target was out of date or a
    was replaced          member has not reached it; the new member leads

Not done, with a line in the log: `group.consumer.migration.policy` does not allow it, there are more members
than `group.max.size`, or the records were too large for one batch (`note_failure`): else a departed member
could never be removed. The group then stays a consumer group with classic members only.

A rebalance is in memory only. If a crash lost it, no member would own what the departed member
had; so the record names the next generation already, the members find theirs outdated, and join again. Kafka
writes the present generation there, and as assignment what members were to have, which another may still
consume if the group is upgraded again before they have it. The records (all the consumer group's tombstones,
then the classic group) and their order are Kafka's.

Not here: the way there (upgrade.py).
"""

import logging
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from moldau.broker.coordinator.append_errors import CLIENT_ERRORS
from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.classic.member import ClassicMember
from moldau.broker.coordinator.group.classic.membership import CONSUMER, Membership
from moldau.broker.coordinator.group.classic.record import value_of
from moldau.broker.coordinator.group.classic.states import ClassicState
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.broker.coordinator.group.consumer.member import ConsumerMember
from moldau.broker.coordinator.group.migration.embedded_protocol import subscription_version, write_assignment
from moldau.broker.coordinator.group.parts import ShardParts
from moldau.broker.coordinator.records import group_metadata_record
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings

if TYPE_CHECKING:
    pass

DOWNGRADE_POLICIES = ("bidirectional", "downgrade")

_log = logging.getLogger("moldau.coordinator.group.downgrade")


def may_downgrade(group: ConsumerGroup, leaving: Container[str], size: int, settings: BrokerSettings) -> bool:
    """Whether the group becomes a classic one when the members `leaving` are gone and `size` are left."""
    if size <= 0 or not group.all_classic(leaving):
        return False
    policy = settings.group_consumer_migration_policy
    if policy.lower() not in DOWNGRADE_POLICIES:
        refusal = f"group.consumer.migration.policy is {policy!r}"
    elif size > settings.group_max_size:
        refusal = f"it has {size} members, group.max.size allows {settings.group_max_size}"
    elif size > group.downgrade_size_max:
        refusal = f"with {size} members its records are larger than __consumer_offsets takes at once"
    else:
        return True
    _log.info("group %s stays a consumer group with classic members only: %s", group.group_id, refusal)
    return False


def note_failure(group: ConsumerGroup, size: int, error_code: int) -> None:
    """A downgrade with `size` members could not be written. If it was too large, the group stays as it is
    until half of them have gone."""
    if error_code == CLIENT_ERRORS[ErrorCode.MESSAGE_TOO_LARGE]:
        group.downgrade_size_max = size // 2


def classic_group(
    parts: ShardParts,
    group: ConsumerGroup,
    leaving: Container[str],
    now_ms: int,
    *,
    joining: ConsumerMember | None = None,
    replaced_id: str | None = None,
) -> ClassicGroup:
    """The classic group that `group` becomes without the members `leaving`: stable, with what its members
    were to have. `joining` takes the place of the static member `replaced_id`."""
    membership = Membership(now_ms)
    membership.generation = group.group_epoch
    membership.protocol_type = CONSUMER
    members = [
        member
        for member_id, member in group.members.items()
        if member_id not in leaving and member_id != replaced_id
    ]
    if joining is not None:
        members.append(joining)
    for member in members:
        membership.put(_classic_member(member, parts))
    membership.protocol_name = membership.select_protocol()
    membership.state = ClassicState.STABLE
    membership.refresh_topics()
    return ClassicGroup(parts, group.group_id, membership)


def records_of(group: ConsumerGroup, classic: ClassicGroup, *, rebalances: bool) -> list[Any]:
    """The records that make `group` the classic group."""
    value = value_of(classic.membership)
    if rebalances:
        value.generation += 1
    return [*group.tombstones(), group_metadata_record(group.group_id, value)]


def _classic_member(member: ConsumerMember, parts: ShardParts) -> ClassicMember:
    side = member.classic
    if side is None:
        raise AssertionError(f"member {member.member_id!r} does not speak the classic protocol")
    has: dict[bytes, frozenset[int]] = {}
    for partitions in (member.assigned, member.pending):
        for topic_id, epochs in partitions.items():
            has[topic_id] = has.get(topic_id, frozenset()) | frozenset(epochs)
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        side.session_timeout_ms,
        side.protocols,
        write_assignment(has, parts.image(), subscription_version(side.subscription)),
    )
