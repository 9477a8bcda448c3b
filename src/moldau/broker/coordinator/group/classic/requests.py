"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup and DescribeGroups for the classic groups of one shard.

Each method checks the request against the group and decides on a draft of it (draft.py); what follows
for the group stands in rebalance.py. A join of a group that does not exist creates it, with an empty
record first, so that it exists after a crash as well (as in Kafka). Who may join, and as whom:
join.py. Classic members of consumer groups: migration/classic_members.py; which of both serves a request:
migration/member_requests.py.

Sources: KIP-345 (static members), KIP-559 (protocol type and name checked), KIP-800 (reasons, logged).
"""

import logging
from functools import partial
from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.classic import rebalance
from moldau.broker.coordinator.group.classic.draft import Draft
from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.classic.join import NO_REASON, Joining, refuse_join
from moldau.broker.coordinator.group.classic.membership import Membership
from moldau.broker.coordinator.group.classic.record import value_of
from moldau.broker.coordinator.group.classic.responses import sync_response
from moldau.broker.coordinator.group.classic.states import ClassicState
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.broker.coordinator.group.group import Client, GroupKind
from moldau.broker.coordinator.group.parts import ShardParts
from moldau.broker.coordinator.records import GroupRecord, group_metadata_record
from moldau.broker.coordinator.result import Parked, Result
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.coordinator_records import GroupMetadataKey, GroupMetadataValue
from moldau.common.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.common.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from moldau.common.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    pass

PROTOCOL_NAMED_SINCE = 5  # of SyncGroup (KIP-559)

_log = logging.getLogger("moldau.coordinator.group.classic_requests")


class ClassicGroups:
    """The classic groups of one shard."""

    def __init__(self, parts: ShardParts) -> None:
        self.parts = parts
        self._joining = Joining(parts)
        self._created: dict[str, ClassicGroup] = {}

    def get(self, group_id: str) -> ClassicGroup | None:
        """The classic group of this name, if there is one."""
        group = self.parts.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group of this name, if there is one; classic members may be in it."""
        group = self.parts.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _is_other_kind(self, group_id: str) -> bool:
        """Whether the name belongs to a group that never becomes a classic one."""
        group = self.parts.groups.get(group_id)
        return group is not None and group.kind is GroupKind.SHARE

    def adopt(self, group: ClassicGroup) -> None:
        """The next record of this group's name makes `group` the group."""
        self._created[group.group_id] = group

    def expects_members(self, group_id: str) -> bool:
        """Whether a member id was given out in an empty group, whose owner is about to join."""
        group = self.get(group_id)
        return group is not None and bool(group.membership.pending_joins)

    # Replay.

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """A group's record: what it agreed on, or that it is gone."""
        groups = self.parts.groups
        group = self.get(key.group)
        if value is None:
            if group is not None:
                del groups[key.group]
                self.parts.held.set(key.group, 0)
                self.parts.journal.note(group.count)
        elif group is not None and self.parts.journal.recording:
            self.parts.journal.assign(group, "persisted", value)
        else:
            created = self._created.pop(key.group, None)
            if created is None:
                created = ClassicGroup.from_value(self.parts, key.group, value)
            created.persisted = value
            self._install(created)

    def ensure(self, group_id: str) -> None:
        """Offsets were committed for a group: if it does not exist, it is one that only stores offsets."""
        if group_id not in self.parts.groups:
            self._install(ClassicGroup(self.parts, group_id, Membership(-1)))

    def _install(self, group: ClassicGroup) -> None:
        self.parts.journal.note(lambda: self.parts.orphans.append(group))
        self.parts.groups[group.group_id] = group
        group.count()

    # JoinGroup.

    def check_join(self, request: JoinGroupRequest) -> Result[JoinGroupResponse] | None:
        """The refusal of what no group of members of this protocol takes."""
        settings = self.parts.settings()
        if not request.group_id:
            return refuse_join(ErrorCode.INVALID_GROUP_ID, request.member_id)
        low_ms, high_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
        if not low_ms <= request.session_timeout_ms <= high_ms:
            return refuse_join(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        return None

    def join(
        self, request: JoinGroupRequest, client: Client, parked: Parked[JoinGroupResponse], now_ms: int
    ) -> Result[JoinGroupResponse]:
        """A member enters the group, or its next generation; `parked` is answered when the generation
        stands."""
        refused = self.check_join(request)
        if refused is not None:
            return refused
        prologue: list[GroupRecord] = []
        if self._is_other_kind(request.group_id):
            return refuse_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        consumer_group = self._consumer_group(request.group_id)
        if consumer_group is not None:
            prologue = consumer_group.tombstones()
        group = self.get(request.group_id)
        if group is None:
            if request.member_id:
                return refuse_join(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            group = ClassicGroup(self.parts, request.group_id, Membership(now_ms))
            prologue.append(group_metadata_record(group.group_id, value_of(group.membership)))
            result = self._joining.join(group, request, client, parked, now_ms)
            if result.response is None or result.response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                result.effects.append(partial(self.adopt, group))
                result.records[:0] = prologue
            return result
        return self._joining.join(group, request, client, parked, now_ms)

    # SyncGroup, Heartbeat, LeaveGroup.

    def sync(
        self, request: SyncGroupRequest, client: Client, parked: Parked[SyncGroupResponse], now_ms: int
    ) -> Result[SyncGroupResponse]:
        """A member asks for its assignment; the leader sends all members'."""
        refused = check_sync_names(request, client)
        if refused is not None:
            return refused
        group = self.get(request.group_id)
        error_code = _unknown(request.group_id) if group is None else _check_sync(group, request)
        if group is None or error_code:
            return Result(SyncGroupResponse(error_code=error_code))
        member = group.members[request.member_id]
        draft = Draft(group)
        if member.member_id in group.membership.pending_syncs:
            draft.now.pending_syncs -= {member.member_id}
            if not draft.now.pending_syncs:
                draft.cancel_deadline("sync")
        if group.state is ClassicState.STABLE:
            return draft.result(sync_response(group.membership, member))
        stale = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        member = draft.answer_sync(member, stale)._replace(parked_sync=parked)
        draft.now.put(member)
        if member.member_id != draft.now.leader_id:
            return draft.result()
        given = {row.member_id: bytes(row.assignment or b"") for row in request.assignments}
        unassign = rebalance.assign(draft, given, now_ms)
        result: Result[SyncGroupResponse] = draft.result()
        result.on_failure = unassign
        return result

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Result[HeartbeatResponse]:
        """A member is alive; it may be told to rejoin."""
        group = self.get(request.group_id)
        if group is None:
            return Result(HeartbeatResponse(error_code=_unknown(request.group_id)))
        error_code = group.membership.check_member(request.member_id, request.group_instance_id)
        if not error_code and request.generation_id != group.generation:
            error_code = ErrorCode.ILLEGAL_GENERATION
        if error_code:
            return Result(HeartbeatResponse(error_code=error_code))
        if group.state is ClassicState.PREPARING_REBALANCE:
            error_code = ErrorCode.REBALANCE_IN_PROGRESS
        restart = group.session_restart(group.members[request.member_id], now_ms)
        return Result(HeartbeatResponse(error_code=error_code), effects=[restart])

    def leave(self, request: LeaveGroupRequest, now_ms: int) -> Result[LeaveGroupResponse]:
        """Members leave, or an administrator removes them; each has its own outcome."""
        if not request.group_id:
            return Result(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.get(request.group_id)
        draft = None if group is None else Draft(group)
        rows = []
        for identity in request.members:
            error_code = ErrorCode.UNKNOWN_MEMBER_ID if draft is None else _leave(draft, identity)
            row = MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error_code,
            )
            rows.append(row)
        response = LeaveGroupResponse(members=rows)
        if draft is None:
            return Result(response)
        if any(not row.error_code for row in rows):
            rebalance.after_removal(draft, now_ms)
        return draft.result(response)

    # DescribeGroups.

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        """The group as administrators see it. What members subscribe to is told of a stable group only:
        before that there is no protocol that says which of their metadata counts."""
        group = self.get(group_id)
        if group is None:
            if api_version >= 6:
                what = "is not a classic group" if group_id in self.parts.groups else "not found"
                return DescribedGroup(
                    group_id=group_id,
                    group_state=ClassicState.DEAD.value,
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=f"Group {group_id} {what}.",
                )
            return DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        stable = group.state is ClassicState.STABLE
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type,
            protocol_data=(group.protocol_name or "") if stable else "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(group.protocol_name) if stable else b"",
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )


def _leave(draft: Draft, identity: MemberIdentity) -> int:
    """Remove one member, which asks for it itself, or an administrator does; the error code, or 0."""
    now, member_id = draft.now, identity.member_id
    if member_id in now.pending_joins:
        now.remove(member_id)
        draft.cancel_deadline("session", member_id)
        return ErrorCode.NONE
    if not member_id and identity.group_instance_id is not None:
        # An administrator removes a static member without knowing its id.
        member_id = now.static_members.get(identity.group_instance_id, "")
    error_code = now.check_member(member_id, identity.group_instance_id)
    if not error_code:
        reason = identity.reason or NO_REASON
        _log.info("group %s: member %s leaves (%s)", draft.group.group_id, member_id, reason)
        rebalance.remove(draft, now.members[member_id])
    return error_code


def _unknown(group_id: str) -> int:
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> int:
    error_code = group.membership.check_member(request.member_id, request.group_instance_id)
    if error_code:
        return error_code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    for asked, agreed in (
        (request.protocol_type, group.protocol_type or None),
        (request.protocol_name, group.protocol_name),
    ):
        if asked is not None and agreed is not None and asked != agreed:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def check_sync_names(request: SyncGroupRequest, client: Client) -> Result[SyncGroupResponse] | None:
    """The refusal of a request that does not name the protocol, in a version that must (KIP-559)."""
    names = (request.protocol_type, request.protocol_name)
    if client.api_version >= PROTOCOL_NAMED_SINCE and None in names:
        return Result(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    return None
