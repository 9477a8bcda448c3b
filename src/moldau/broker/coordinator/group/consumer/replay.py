"""Applies a consumer group's records to the state: the only way in which it changes.

A loaded log holds only the last value of each key, in the order of the last writes. So a record may come
before the one that "creates" its group or member, and every record can create both; a tombstone of something
unknown is ignored.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from moldau.broker.coordinator.group.consumer import records
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex, Service
from moldau.broker.coordinator.group.consumer.member import (
    LEAVE_EPOCH,
    NO_PARTITIONS,
    ConsumerMember,
    MemberState,
)
from moldau.broker.coordinator.group.group import Group
from moldau.broker.coordinator.journal import Journal
from moldau.common.core.client_state import Holdings
from moldau.common.protocol.messages import coordinator_records as formats

_MEMBER_BYTES = 4096  # of a member's objects, its record's value not counted
_NAME_BYTES = 160  # of a topic's name in the subscription and among the group's, without its characters


class ConsumerReplay:
    """Replays records into `groups` (the shard's, of both kinds)."""

    def __init__(
        self, groups: dict[str, Group], journal: Journal, service: Service, held: Holdings | None = None
    ) -> None:
        self._groups = groups
        self._journal = journal
        self._service = service
        self._held = held or Holdings()

    def table(self) -> dict[type, Callable[[Any, Any], None]]:
        """The function for each type of key."""
        return {
            formats.ConsumerGroupMetadataKey: self._group,
            formats.ConsumerGroupMemberMetadataKey: self._member,
            formats.ConsumerGroupTargetAssignmentMetadataKey: self._assignment_epoch,
            formats.ConsumerGroupTargetAssignmentMemberKey: self._target,
            formats.ConsumerGroupCurrentMemberAssignmentKey: self._current,
            formats.ConsumerGroupRegularExpressionKey: self._regex,
            formats.ConsumerGroupPartitionMetadataKey: self._ignore,
        }

    def _existing(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _made(self, group_id: str) -> ConsumerGroup:
        """The group, created if need be. A classic group of that name can only be one that only stores
        offsets: a group is never of both kinds, and a conversion writes the old kind's tombstones first."""
        group = self._existing(group_id)
        if group is None:
            group = self._groups[group_id] = ConsumerGroup(group_id, self._journal, self._service)
        return group

    def _group(
        self, key: formats.ConsumerGroupMetadataKey, value: formats.ConsumerGroupMetadataValue | None
    ) -> None:
        if value is not None:
            self._made(key.group_id).set_epoch(value.epoch, value.metadata_hash)
        elif self._existing(key.group_id) is not None:
            del self._groups[key.group_id]

    def _member(
        self,
        key: formats.ConsumerGroupMemberMetadataKey,
        value: formats.ConsumerGroupMemberMetadataValue | None,
    ) -> None:
        if value is not None:
            group = self._made(key.group_id)
            member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            group.put_member(replace(member, **records.member_fields(value)))
            self._count(key, _bytes_of(value))
        elif (group_or_none := self._existing(key.group_id)) is not None:
            group_or_none.remove_member(key.member_id)
            self._count(key, 0)

    def _count(self, key: formats.ConsumerGroupMemberMetadataKey, size_bytes: int) -> None:
        name = (key.group_id, key.member_id)
        before_bytes = self._held.get(name)
        self._held.set(name, size_bytes)
        self._journal.note(lambda: self._held.set(name, before_bytes))

    def _assignment_epoch(
        self,
        key: formats.ConsumerGroupTargetAssignmentMetadataKey,
        value: formats.ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        if value is not None:
            group = self._made(key.group_id)
            group.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
        elif (group_or_none := self._existing(key.group_id)) is not None:
            group_or_none.set_assignment_epoch(-1, 0)

    def _target(
        self,
        key: formats.ConsumerGroupTargetAssignmentMemberKey,
        value: formats.ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is not None:
            self._made(key.group_id).targets[key.member_id] = records.target_from(value)
        elif (group := self._existing(key.group_id)) is not None:
            group.targets.pop(key.member_id, None)

    def _current(
        self,
        key: formats.ConsumerGroupCurrentMemberAssignmentKey,
        value: formats.ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        if value is not None:
            group = self._made(key.group_id)
            member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            group.put_member(
                replace(
                    member,
                    member_epoch=value.member_epoch,
                    previous_member_epoch=value.previous_member_epoch,
                    state=MemberState(value.state),
                    assigned=records.partitions_from(value.assigned_partitions, value.member_epoch),
                    pending=records.partitions_from(value.partitions_pending_revocation, value.member_epoch),
                )
            )
            return
        existing = self._existing(key.group_id)
        if existing is not None and key.member_id in existing.members:
            existing.put_member(
                replace(
                    existing.members[key.member_id],
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    state=MemberState.STABLE,
                    assigned=NO_PARTITIONS,
                    pending=NO_PARTITIONS,
                )
            )

    def _regex(
        self,
        key: formats.ConsumerGroupRegularExpressionKey,
        value: formats.ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if value is not None:
            group = self._made(key.group_id)
            group.regexes[key.regular_expression] = ResolvedRegex(
                frozenset(value.topics), value.version, value.timestamp
            )
        elif (existing := self._existing(key.group_id)) is not None:
            existing.regexes.pop(key.regular_expression, None)

    def _ignore(self, key: object, value: object) -> None:
        """Records that change nothing here."""


def held_by_subscription(names: Iterable[str], pattern: str | None) -> int:
    """What the process holds for a member that subscribes to these, about."""
    return _MEMBER_BYTES + sum(_NAME_BYTES + len(name) for name in names) + 4 * len(pattern or "")


def _bytes_of(value: formats.ConsumerGroupMemberMetadataValue) -> int:
    """What the process holds for a member, about."""
    classic = value.classic_member_metadata
    protocols = () if classic is None else classic.supported_protocols
    return held_by_subscription(value.subscribed_topic_names, value.subscribed_topic_regex) + sum(
        _NAME_BYTES + len(each.name) + len(each.metadata) for each in protocols
    )
