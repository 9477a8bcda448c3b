"""Decides JoinGroup for a classic group: who may join, with which member id.

    no member id             a new member gets an id to rejoin with (KIP-394); old clients enter at once
    no id, known instance    a static member has restarted (KIP-345): it replaces its former self
    an id                    a pending member enters; a member rejoins, a rebalance if something changed

Sources: KIP-62 (rebalance timeout), KIP-389 (largest size), KIP-814 (skip assignment), KIP-800 (reasons).
Not here: what a group does about it (rebalance.py).
"""

import logging
import uuid
from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.classic import rebalance
from moldau.broker.coordinator.group.classic.draft import Draft, Drafted
from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.classic.member import (
    MEMBER_BYTES,
    ClassicMember,
    protocols_bytes,
    protocols_of,
)
from moldau.broker.coordinator.group.classic.record import value_of
from moldau.broker.coordinator.group.classic.responses import join_response
from moldau.broker.coordinator.group.classic.states import ClassicState
from moldau.broker.coordinator.group.group import Client, host_text
from moldau.broker.coordinator.group.parts import ShardParts
from moldau.broker.coordinator.records import group_metadata_record
from moldau.broker.coordinator.result import Parked, Result
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.common.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    pass

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9
REBALANCE_TIMEOUT_SINCE = 1

_GROUP_SHARE_MAX = 1 / 16  # of the memory for what clients make the broker keep, for one group

NO_REASON = "no reason given"

_log = logging.getLogger("moldau.coordinator.group.classic_join")


class Joining:
    """JoinGroup on a group that exists, or is about to."""

    def __init__(self, parts: ShardParts) -> None:
        self.parts = parts

    def join(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        client: Client,
        parked: Parked[JoinGroupResponse],
        now_ms: int,
    ) -> Result[JoinGroupResponse]:
        """Decide; `parked` is answered when the next generation stands."""
        draft = Draft(group)
        now, member_id = draft.now, request.member_id
        if not self._has_room(draft, member_id):
            member = now.members.get(member_id)
            if member is not None:
                rebalance.remove(draft, member)
            now.remove(member_id)
            rebalance.maybe_complete_join(draft, now_ms)
            return draft.result(_refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
        if not now.supports(request.protocol_type, (protocol.name for protocol in request.protocols)):
            return refuse_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if not self._has_memory(draft, request, client):
            return refuse_join(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
        if not member_id:
            return self._join_new(draft, request, client, parked, now_ms)
        if member_id in now.pending_joins and request.group_instance_id is None:
            return self._add_member(draft, member_id, request, client, parked, now_ms)
        error_code = now.check_member(member_id, request.group_instance_id)
        if error_code:
            return refuse_join(error_code, member_id)
        return self._rejoin(draft, now.members[member_id], request, parked, now_ms)

    def _has_room(self, draft: Draft, member_id: str) -> bool:
        """Known members keep their places; during a rebalance, those who rejoin last lose theirs."""
        size_max = self.parts.settings().group_max_size
        now = draft.now
        if now.state is ClassicState.EMPTY:
            return True
        member = now.members.get(member_id)
        if now.state is ClassicState.PREPARING_REBALANCE:
            has_joined = member is not None and member.parked_join is not None
            return has_joined or now.parked_join_count < size_max
        return member is not None or len(now.members) < size_max

    def _has_memory(self, draft: Draft, request: JoinGroupRequest, client: Client) -> bool:
        """Whether what the request adds to the group fits (core/client_state.py)."""
        now = draft.now
        member_id = request.member_id or now.static_members.get(request.group_instance_id or "", "")
        known = now.members.get(member_id)
        protocols = ((each.name, each.metadata or b"") for each in request.protocols)
        added_bytes = protocols_bytes(protocols) - (0 if known is None else protocols_bytes(known.protocols))
        if known is None:
            added_bytes += MEMBER_BYTES + 4 * len(client.client_id)
        return self.parts.held.admits(draft.group.group_id, added_bytes, _GROUP_SHARE_MAX)

    def _join_new(
        self,
        draft: Draft,
        request: JoinGroupRequest,
        client: Client,
        parked: Parked[JoinGroupResponse],
        now_ms: int,
    ) -> Result[JoinGroupResponse]:
        instance_id = request.group_instance_id
        unique = uuid.UUID(int=self.parts.random.getrandbits(128), version=4)
        member_id = f"{instance_id if instance_id is not None else client.client_id}-{unique}"
        if instance_id is not None and instance_id in draft.now.static_members:
            return self._replace_static(draft, member_id, request, client, parked, now_ms)
        if instance_id is None and client.api_version >= MEMBER_ID_REQUIRED_SINCE:
            draft.now.pending_joins.add(member_id)
            draft.set_deadline("session", now_ms + request.session_timeout_ms, member_id)
            return draft.result(_refusal(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return self._add_member(draft, member_id, request, client, parked, now_ms)

    def _add_member(
        self,
        draft: Draft,
        member_id: str,
        request: JoinGroupRequest,
        client: Client,
        parked: Parked[JoinGroupResponse],
        now_ms: int,
    ) -> Result[JoinGroupResponse]:
        _log.info(
            "group %s: member %s joins (%s)", draft.group.group_id, member_id, request.reason or NO_REASON
        )
        now = draft.now
        if now.state is ClassicState.PREPARING_REBALANCE and now.previous_state is ClassicState.EMPTY:
            now.new_member_added = True
        if not now.members:
            now.protocol_type = request.protocol_type
        now.put(
            ClassicMember(
                member_id,
                request.group_instance_id,
                client.client_id,
                host_text(client),
                _rebalance_timeout_ms(request, client),
                request.session_timeout_ms,
                protocols_of(request.protocols),
                parked_join=parked,
                is_new=True,
            )
        )
        draft.set_deadline("session", now_ms + rebalance.NEW_MEMBER_JOIN_TIMEOUT_MS, member_id)
        rebalance.rebalance_or_complete(draft, now_ms)
        return draft.result()

    def _rejoin(
        self,
        draft: Draft,
        member: ClassicMember,
        request: JoinGroupRequest,
        parked: Parked[JoinGroupResponse],
        now_ms: int,
    ) -> Result[JoinGroupResponse]:
        """A member rejoins. If nothing changed and there is no rebalance, it only asks for the present
        generation; the leader's join always means that it wants to assign again (it saw a topic change)."""
        now, member_id = draft.now, member.member_id
        if now.state is ClassicState.EMPTY:
            return refuse_join(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
        unchanged = member.protocols == protocols_of(request.protocols)
        leads = member_id == now.leader_id
        if unchanged and (
            now.state is ClassicState.COMPLETING_REBALANCE or (now.state is ClassicState.STABLE and not leads)
        ):
            return Result(join_response(now, member_id))
        _log.info(
            "group %s: member %s rejoins (%s)", draft.group.group_id, member_id, request.reason or NO_REASON
        )
        member = _updated(draft, member, request)
        now.put(member._replace(parked_join=parked))
        rebalance.rebalance_or_complete(draft, now_ms)
        return draft.result()

    def _replace_static(
        self,
        draft: Draft,
        new_id: str,
        request: JoinGroupRequest,
        client: Client,
        parked: Parked[JoinGroupResponse],
        now_ms: int,
    ) -> Result[JoinGroupResponse]:
        """A static member has restarted and gets a new id; the old one is fenced. A stable group goes on
        without a rebalance if the member's protocols lead to the same choice: only the new id is written."""
        now, group = draft.now, draft.group
        old_id = now.static_members[request.group_instance_id or ""]
        old_leader_id = now.leader_id
        old = now.members[old_id]
        fenced = JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, member_id=old_id)
        member = draft.answer_join(old, fenced)
        draft.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        now.rename(old_id, new_id)
        draft.cancel_deadline("session", old_id)
        member = _updated(draft, now.members[new_id], request)
        draft.touch(member, now_ms)
        if now.state is not ClassicState.STABLE or now.select_protocol() != now.protocol_name:
            now.put(member._replace(parked_join=parked))
            rebalance.rebalance_or_complete(draft, now_ms)
            return draft.result()
        now.refresh_topics()
        if client.api_version >= SKIP_ASSIGNMENT_SINCE:
            response = join_response(now, new_id, skip_assignment=new_id == now.leader_id)
        else:
            # A client that cannot be told to skip the assignment must not think that it leads: its assignment
            # would silently replace the group's. So it is told the leader's old id.
            response = join_response(now, new_id)
            response.leader = old_leader_id or ""
            response.members = []
        draft.records.append(group_metadata_record(group.group_id, value_of(now)))
        result = draft.result(response)
        result.on_failure = lambda _error_code: _take_back(group, new_id, old, now_ms)
        return result


def refuse_join(error_code: int, member_id: str) -> Result[JoinGroupResponse]:
    """The join is refused and changes nothing."""
    return Result(_refusal(error_code, member_id))


def _refusal(error_code: int, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error_code, member_id=member_id)


def _updated(draft: Draft, member: ClassicMember, request: JoinGroupRequest) -> ClassicMember:
    """The member with what the request says. A join that it parked earlier was abandoned by its client."""
    stale = JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
    timeout_ms = request.rebalance_timeout_ms
    member = draft.answer_join(member, stale)._replace(
        protocols=protocols_of(request.protocols),
        rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else request.session_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
    )
    draft.now.put(member)
    return member


def _take_back(group: Drafted, new_id: str, old: ClassicMember, now_ms: int) -> None:
    """The new id of a static member could not be written: it has the old one again, and its session."""
    member = group.members.get(new_id)
    if member is None:
        return
    draft = Draft(group)
    draft.now.rename(new_id, old.member_id)
    member = draft.now.members[old.member_id]._replace(
        protocols=old.protocols,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        session_timeout_ms=old.session_timeout_ms,
    )
    draft.now.put(member)
    draft.touch(member, now_ms)
    draft.apply()


def _rebalance_timeout_ms(request: JoinGroupRequest, client: Client) -> int:
    """Version 0 had one timeout for both."""
    if client.api_version < REBALANCE_TIMEOUT_SINCE or request.rebalance_timeout_ms < 0:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms
