"""Who may join a classic group, and as whom.

    no member id          a new member gets an id to come again with (KIP-394); old clients enter at once
    the same, instance    a static member is back (KIP-345): it takes the place of its former self
    an id                 a pending member comes in; others join again, a rebalance if something changed

Sources: KIP-62 (rebalance timeout), KIP-389 (largest size), KIP-814 (skip assignment), KIP-800 (reasons).
Not here: what a group does about it (classic_rebalance.py).
"""

import logging
import uuid
from typing import TYPE_CHECKING

from moldau.coordinator.group import classic_rebalance as rebalance
from moldau.coordinator.group.classic import ClassicGroup
from moldau.coordinator.group.classic_member import ClassicMember, protocols_of
from moldau.coordinator.group.classic_state import ClassicState
from moldau.coordinator.group.group import Client, host_text
from moldau.coordinator.records import group_metadata_record
from moldau.coordinator.result import Parked, Result
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from moldau.coordinator.group.shard import GroupShard

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9
REBALANCE_TIMEOUT_SINCE = 1

_log = logging.getLogger(__name__)


class Joining:
    """JoinGroup on a group that exists."""

    def __init__(self, shard: "GroupShard") -> None:
        self.shard = shard

    def join(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        client: Client,
        parked: Parked[JoinGroupResponse],
        now_ms: int,
    ) -> Result[JoinGroupResponse]:
        member_id = request.member_id
        if not self._has_room(group, member_id):
            result: Result[JoinGroupResponse] = refuse_join(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
            member = group.members.get(member_id)
            if member is not None:
                rebalance.drop(group, member, result)
            group.remove(member_id)
            rebalance.maybe_complete_join(group, result, now_ms)
            return result
        if not group.supports(request.protocol_type, (protocol.name for protocol in request.protocols)):
            return refuse_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if not member_id:
            return self._join_new(group, request, client, parked, now_ms)
        if member_id in group.pending_joins and request.group_instance_id is None:
            return self._add_member(group, member_id, request, client, parked, now_ms)
        error_code = group.check_member(member_id, request.group_instance_id)
        if error_code:
            return refuse_join(error_code, member_id)
        return self._rejoin(group, group.members[member_id], request, parked, now_ms)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Known members keep their places; while a rebalance is on, those who come back last lose theirs."""
        size_max = self.shard.settings().group_max_size
        if group.state is ClassicState.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is ClassicState.PREPARING_REBALANCE:
            return (
                member is not None and member.parked_join is not None
            ) or group.parked_join_count < size_max
        return member is not None or len(group.members) < size_max

    def _join_new(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        client: Client,
        parked: Parked[JoinGroupResponse],
        now_ms: int,
    ) -> Result[JoinGroupResponse]:
        instance_id = request.group_instance_id
        unique = uuid.UUID(int=self.shard.random.getrandbits(128), version=4)
        member_id = f"{instance_id if instance_id is not None else client.client_id}-{unique}"
        if instance_id is not None and instance_id in group.static_members:
            return self._replace_static(group, member_id, request, client, parked, now_ms)
        if instance_id is None and client.api_version >= MEMBER_ID_REQUIRED_SINCE:
            group.pending_joins.add(member_id)
            key = (group.group_id, "session", member_id)
            self.shard.deadlines.set(key, now_ms + request.session_timeout_ms)
            return refuse_join(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return self._add_member(group, member_id, request, client, parked, now_ms)

    def _add_member(
        self,
        group: ClassicGroup,
        member_id: str,
        request: JoinGroupRequest,
        client: Client,
        parked: Parked[JoinGroupResponse],
        now_ms: int,
    ) -> Result[JoinGroupResponse]:
        _log.info(
            "group %s: member %s joins (%s)", group.group_id, member_id, request.reason or "no reason given"
        )
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            client.client_id,
            host_text(client),
            _rebalance_timeout_ms(request, client),
            request.session_timeout_ms,
            protocols_of(request.protocols),
        )
        member.is_new = True
        member.parked_join = parked
        if group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is ClassicState.EMPTY:
            group.new_member_added = True
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(member)
        key = (group.group_id, "session", member_id)
        self.shard.deadlines.set(key, now_ms + rebalance.NEW_MEMBER_JOIN_TIMEOUT_MS)
        result: Result[JoinGroupResponse] = Result()
        rebalance.rebalance_or_complete(group, result, now_ms)
        return result

    def _rejoin(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        request: JoinGroupRequest,
        parked: Parked[JoinGroupResponse],
        now_ms: int,
    ) -> Result[JoinGroupResponse]:
        """A member joins again. If nothing changed and no rebalance is on, it only asks for the present
        generation; the leader's join always means that it wants to assign anew (it saw a topic change)."""
        if group.state is ClassicState.EMPTY:
            return refuse_join(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id)
        unchanged = member.protocols == protocols_of(request.protocols)
        leads = member.member_id == group.leader_id
        if unchanged and (
            group.state is ClassicState.COMPLETING_REBALANCE
            or (group.state is ClassicState.STABLE and not leads)
        ):
            return Result(group.join_response(member.member_id))
        _log.info(
            "group %s: member %s rejoins (%s)",
            group.group_id,
            member.member_id,
            request.reason or "no reason given",
        )
        result: Result[JoinGroupResponse] = Result()
        self._update(group, member, request, parked, result)
        rebalance.rebalance_or_complete(group, result, now_ms)
        return result

    def _update(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        request: JoinGroupRequest,
        parked: Parked[JoinGroupResponse] | None,
        result: Result[JoinGroupResponse],
    ) -> None:
        """Take over what the member now says of itself; a join that it parked earlier is given up by its
        client."""
        group.set_protocols(member, protocols_of(request.protocols))
        if request.rebalance_timeout_ms >= 0:
            member.rebalance_timeout_ms = request.rebalance_timeout_ms
        else:
            member.rebalance_timeout_ms = request.session_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        stale = JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        result.answers += group.take_join(member, stale)
        if parked is not None:
            member.parked_join = parked
            group.parked_join_count += 1

    def _replace_static(
        self,
        group: ClassicGroup,
        new_id: str,
        request: JoinGroupRequest,
        client: Client,
        parked: Parked[JoinGroupResponse],
        now_ms: int,
    ) -> Result[JoinGroupResponse]:
        """A static member is back under a new id. The old id is fenced. A stable group goes on without a
        rebalance, if the member's protocols still lead to the same choice: only the new id is written."""
        old_id = group.static_members[request.group_instance_id or ""]
        old_leader_id = group.leader_id
        member = group.members[old_id]
        old_protocols = member.protocols
        old_timeouts = (member.rebalance_timeout_ms, member.session_timeout_ms)
        result: Result[JoinGroupResponse] = Result()
        fenced = JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, member_id=old_id)
        result.answers += group.take_join(member, fenced)
        result.answers += group.take_sync(member, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        group.rename(old_id, new_id)
        self.shard.deadlines.cancel((group.group_id, "session", old_id))
        self._update(group, member, request, None, result)
        group.touch(member, now_ms)
        keeps_choice = group.state is ClassicState.STABLE and group.select_protocol() == group.protocol_name
        if not keeps_choice:
            member.parked_join = parked
            group.parked_join_count += 1
            rebalance.rebalance_or_complete(group, result, now_ms)
            return result
        group.refresh_topics()
        if client.api_version >= SKIP_ASSIGNMENT_SINCE:
            result.response = group.join_response(new_id, skip_assignment=new_id == group.leader_id)
        else:
            # A client that cannot be told to skip the assignment must not think that it leads: its assignment
            # would silently replace the group's. So it is told the leader's old id.
            result.response = group.join_response(new_id)
            result.response.leader = old_leader_id or ""
            result.response.members = []
        result.records.append(group_metadata_record(group.group_id, group.to_value()))

        def restore(error_code: int) -> None:
            if group.members.get(new_id) is member:
                group.rename(new_id, old_id)
                group.set_protocols(member, old_protocols)
                member.rebalance_timeout_ms, member.session_timeout_ms = old_timeouts
                group.touch(member, now_ms)

        result.on_failure = restore
        return result


def refuse_join(error_code: int, member_id: str) -> Result[JoinGroupResponse]:
    return Result(JoinGroupResponse(error_code=error_code, member_id=member_id))


def _rebalance_timeout_ms(request: JoinGroupRequest, client: Client) -> int:
    """Version 0 had one timeout for both."""
    if client.api_version < REBALANCE_TIMEOUT_SINCE or request.rebalance_timeout_ms < 0:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms
