"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup and DescribeGroups for the classic groups of one shard.

Each method checks the request against the group, and leaves the group's course to classic_rebalance.py. A
join of a group that nobody knows creates it, with an empty record first, so that the group exists after a
crash as well (as Kafka does). Who may join, and as whom, is decided in classic_join.py. Requests to a
consumer group go to consumer_classic.py, which serves its classic members.

Sources: KIP-345 (static members), KIP-559 (protocol type and name checked), KIP-800 (reasons, logged).
"""

import logging
from typing import TYPE_CHECKING

from moldau.coordinator.group import classic_rebalance as rebalance
from moldau.coordinator.group.classic import ClassicGroup
from moldau.coordinator.group.classic_join import Joining, refuse_join
from moldau.coordinator.group.classic_state import ClassicState
from moldau.coordinator.group.consumer_group import ConsumerGroup
from moldau.coordinator.group.group import Client
from moldau.coordinator.records import Record, group_metadata_record
from moldau.coordinator.result import Parked, Result
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.coordinator_records import GroupMetadataKey, GroupMetadataValue
from moldau.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from moldau.coordinator.group.shard import GroupShard

PROTOCOL_NAMED_SINCE = 5  # of SyncGroup (KIP-559)

_log = logging.getLogger(__name__)


class ClassicGroups:
    """The classic groups of one shard."""

    def __init__(self, shard: "GroupShard") -> None:
        self.shard = shard
        self._joining = Joining(shard)
        self._created: dict[str, ClassicGroup] = {}

    def get(self, group_id: str) -> ClassicGroup | None:
        """The classic group of this name, if there is one."""
        group = self.shard.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group of this name, if there is one; classic members may be in it."""
        group = self.shard.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def adopt(self, group: ClassicGroup) -> None:
        """The next record of this group's name makes `group` the group."""
        self._created[group.group_id] = group

    # Replay.

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """A group's record: what it agreed on, or that it is gone."""
        groups = self.shard.groups
        group = self.get(key.group)
        if value is None:
            if group is not None:
                del groups[key.group]
        elif group is not None and self.shard.journal.recording:
            self.shard.journal.assign(group, "persisted", value)
        else:
            created = self._created.pop(key.group, None)
            if created is None:
                created = ClassicGroup.from_value(self.shard, key.group, value)
            created.persisted = value
            self._install(created)

    def ensure(self, group_id: str) -> None:
        """Offsets were committed for a group: if nobody knows it, it is one that only stores offsets."""
        if group_id not in self.shard.groups:
            self._install(ClassicGroup(self.shard, group_id, -1))

    def _install(self, group: ClassicGroup) -> None:
        self.shard.journal.note(lambda: self.shard.orphans.append(group))
        self.shard.groups[group.group_id] = group

    # JoinGroup.

    def join(
        self, request: JoinGroupRequest, client: Client, parked: Parked[JoinGroupResponse], now_ms: int
    ) -> Result[JoinGroupResponse]:
        """A member enters the group, or its next generation; `parked` is answered when the generation
        stands."""
        settings = self.shard.settings()
        if not request.group_id:
            return refuse_join(ErrorCode.INVALID_GROUP_ID, request.member_id)
        low_ms, high_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
        if not low_ms <= request.session_timeout_ms <= high_ms:
            return refuse_join(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        prologue: list[Record] = []
        consumer_group = self._consumer_group(request.group_id)
        if consumer_group is not None:
            if not consumer_group.is_empty():
                return self.shard.consumer.classic_members.join(consumer_group, request, client, now_ms)
            prologue = consumer_group.tombstones()
        group = self.get(request.group_id)
        if group is None:
            if request.member_id:
                return refuse_join(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            group = ClassicGroup(self.shard, request.group_id, now_ms)
            prologue.append(group_metadata_record(group.group_id, group.to_value()))
            result = self._joining.join(group, request, client, parked, now_ms)
            if result.response is None or result.response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.adopt(group)
                result.records[:0] = prologue
            return result
        return self._joining.join(group, request, client, parked, now_ms)

    # SyncGroup, Heartbeat, LeaveGroup.

    def sync(
        self, request: SyncGroupRequest, client: Client, parked: Parked[SyncGroupResponse], now_ms: int
    ) -> Result[SyncGroupResponse]:
        """A member asks for its assignment; the leader brings everybody's."""
        names = (request.protocol_type, request.protocol_name)
        if client.api_version >= PROTOCOL_NAMED_SINCE and None in names:
            return Result(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        consumer_group = self._consumer_group(request.group_id)
        if consumer_group is not None:
            return self.shard.consumer.classic_members.sync(consumer_group, request, now_ms)
        group = self.get(request.group_id)
        error_code = _unknown(request.group_id) if group is None else _check_sync(group, request)
        if group is None or error_code:
            return Result(SyncGroupResponse(error_code=error_code))
        member = group.members[request.member_id]
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            self.shard.deadlines.cancel((group.group_id, "sync", ""))
        if group.state is ClassicState.STABLE:
            return Result(rebalance.sync_response(group, member))
        stale = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        result: Result[SyncGroupResponse] = Result(answers=group.take_sync(member, stale))
        member.parked_sync = parked
        if member.member_id == group.leader_id:
            given = {row.member_id: bytes(row.assignment or b"") for row in request.assignments}
            rebalance.assign(group, given, result, now_ms)
        return result

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Result[HeartbeatResponse]:
        """A member says that it lives; it may be told to join again."""
        consumer_group = self._consumer_group(request.group_id)
        if consumer_group is not None:
            return self.shard.consumer.classic_members.heartbeat(consumer_group, request, now_ms)
        group = self.get(request.group_id)
        if group is None:
            return Result(HeartbeatResponse(error_code=_unknown(request.group_id)))
        error_code = group.check_member(request.member_id, request.group_instance_id)
        if not error_code and request.generation_id != group.generation:
            error_code = ErrorCode.ILLEGAL_GENERATION
        if not error_code:
            group.touch(group.members[request.member_id], now_ms)
            if group.state is ClassicState.PREPARING_REBALANCE:
                error_code = ErrorCode.REBALANCE_IN_PROGRESS
        return Result(HeartbeatResponse(error_code=error_code))

    def leave(self, request: LeaveGroupRequest, now_ms: int) -> Result[LeaveGroupResponse]:
        """Members leave, of themselves or by an administrator's hand; each has its own outcome."""
        if not request.group_id:
            return Result(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        consumer_group = self._consumer_group(request.group_id)
        if consumer_group is not None:
            return self.shard.consumer.classic_members.leave(consumer_group, request, now_ms)
        group = self.get(request.group_id)
        result: Result[LeaveGroupResponse] = Result()
        rows = []
        for identity in request.members:
            error_code = (
                ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._leave(group, identity, result)
            )
            row = MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error_code,
            )
            rows.append(row)
        if group is not None and any(not row.error_code for row in rows):
            rebalance.after_removal(group, result, now_ms)
        result.response = LeaveGroupResponse(members=rows)
        return result

    def _leave(
        self, group: ClassicGroup, identity: MemberIdentity, result: Result[LeaveGroupResponse]
    ) -> int:
        member_id = identity.member_id
        if member_id in group.pending_joins:
            group.remove(member_id)
            self.shard.deadlines.cancel((group.group_id, "session", member_id))
            return ErrorCode.NONE
        if not member_id and identity.group_instance_id is not None:
            # An administrator removes a static member without knowing its id.
            member_id = group.static_members.get(identity.group_instance_id, "")
        error_code = group.check_member(member_id, identity.group_instance_id)
        if not error_code:
            _log.info(
                "group %s: member %s leaves (%s)",
                group.group_id,
                member_id,
                identity.reason or "no reason given",
            )
            rebalance.drop(group, group.members[member_id], result)
        return error_code

    # DescribeGroups.

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        """The group as administrators see it. What members subscribe to is told of a stable group only:
        before that there is no protocol that says which of their metadata counts."""
        group = self.get(group_id)
        if group is None:
            if api_version >= 6:
                what = "a consumer group (KIP-848)" if group_id in self.shard.groups else "unknown"
                message = f"Group {group_id!r} is {what}; only classic groups are described here."
                return DescribedGroup(
                    group_id=group_id,
                    group_state=ClassicState.DEAD.value,
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=message,
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


def _unknown(group_id: str) -> int:
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> int:
    error_code = group.check_member(request.member_id, request.group_instance_id)
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
