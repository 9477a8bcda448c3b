"""Applies the records of share groups to their state: the only way in which it changes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from moldau.broker.coordinator.group.assignors import EMPTY_ASSIGNMENT
from moldau.broker.coordinator.group.group import Group
from moldau.broker.coordinator.group.share import records
from moldau.broker.coordinator.group.share.group import Service, ShareGroup
from moldau.broker.coordinator.group.share.member import LEAVE_EPOCH, ShareMember
from moldau.broker.coordinator.group.share.states import SharePartitionStates
from moldau.broker.coordinator.journal import Journal
from moldau.common.core.client_state import Holdings
from moldau.common.protocol.messages import coordinator_records as formats

_MEMBER_BYTES = 2048  # of a member's objects
_NAME_BYTES = 160  # of a topic's name, without its characters


class ShareReplay:
    """Replays records into `groups` (the shard's, of all kinds)."""

    def __init__(self, groups: dict[str, Group], journal: Journal, service: Service, held: Holdings) -> None:
        self._groups = groups
        self._journal = journal
        self._service = service
        self._held = held

    def table(self) -> dict[type, Callable[[Any, Any], None]]:
        """The function for each type of key."""
        return {
            formats.ShareGroupMetadataKey: self._group,
            formats.ShareGroupMemberMetadataKey: self._member,
            formats.ShareGroupTargetAssignmentMetadataKey: self._assignment_epoch,
            formats.ShareGroupTargetAssignmentMemberKey: self._target,
            formats.ShareGroupCurrentMemberAssignmentKey: self._current,
            formats.ShareGroupStatePartitionMetadataKey: self._states,
        }

    def _existing(self, group_id: str) -> ShareGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def _made(self, group_id: str) -> ShareGroup:
        group = self._existing(group_id)
        if group is None:
            group = self._groups[group_id] = ShareGroup(group_id, self._journal, self._service)
        return group

    def _group(
        self, key: formats.ShareGroupMetadataKey, value: formats.ShareGroupMetadataValue | None
    ) -> None:
        if value is not None:
            self._made(key.group_id).set_epoch(value.epoch, value.metadata_hash)
        elif self._existing(key.group_id) is not None:
            del self._groups[key.group_id]

    def _member(
        self, key: formats.ShareGroupMemberMetadataKey, value: formats.ShareGroupMemberMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._made(key.group_id)
            member = group.members.get(key.member_id) or ShareMember(key.member_id)
            group.members[key.member_id] = replace(
                member,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                topic_names=frozenset(value.subscribed_topic_names),
            )
            self._count(key, held_by_subscription(value.subscribed_topic_names))
        elif (existing := self._existing(key.group_id)) is not None:
            existing.members.pop(key.member_id, None)
            self._count(key, 0)

    def _count(self, key: formats.ShareGroupMemberMetadataKey, size_bytes: int) -> None:
        name = (key.group_id, key.member_id)
        before_bytes = self._held.get(name)
        self._held.set(name, size_bytes)
        self._journal.note(lambda: self._held.set(name, before_bytes))

    def _assignment_epoch(
        self,
        key: formats.ShareGroupTargetAssignmentMetadataKey,
        value: formats.ShareGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        if value is not None:
            self._made(key.group_id).set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
        elif (existing := self._existing(key.group_id)) is not None:
            existing.set_assignment_epoch(0, 0)

    def _target(
        self,
        key: formats.ShareGroupTargetAssignmentMemberKey,
        value: formats.ShareGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is not None:
            group = self._made(key.group_id)
            group.targets[key.member_id] = records.assignment_from(value.topic_partitions)
        elif (existing := self._existing(key.group_id)) is not None:
            existing.targets.pop(key.member_id, None)

    def _current(
        self,
        key: formats.ShareGroupCurrentMemberAssignmentKey,
        value: formats.ShareGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        existing = self._existing(key.group_id)
        if value is not None:
            group = self._made(key.group_id)
            member = group.members.get(key.member_id) or ShareMember(key.member_id)
            group.members[key.member_id] = replace(
                member,
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                assigned=records.assignment_from(value.assigned_partitions),
            )
        elif existing is not None and key.member_id in existing.members:
            member = existing.members[key.member_id]
            existing.members[key.member_id] = replace(
                member, member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, assigned=EMPTY_ASSIGNMENT
            )

    def _states(
        self,
        key: formats.ShareGroupStatePartitionMetadataKey,
        value: formats.ShareGroupStatePartitionMetadataValue | None,
    ) -> None:
        if value is not None:
            self._made(key.group_id).set_states(records.states_from(value))
        elif (existing := self._existing(key.group_id)) is not None:
            existing.set_states(SharePartitionStates())


def held_by_subscription(names: "list[str] | frozenset[str]") -> int:
    """What the process holds for a member that subscribes to these, about."""
    return _MEMBER_BYTES + sum(_NAME_BYTES + len(name) for name in names)
