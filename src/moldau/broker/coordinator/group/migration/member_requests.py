"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members that speak the classic protocol, whether in a
classic group or in a consumer group (KIP-848).

An empty consumer group becomes a classic one by the first who joins (classic/requests.py).
"""

from moldau.broker.coordinator.group.classic.requests import ClassicGroups, check_sync_names
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.broker.coordinator.group.group import Client
from moldau.broker.coordinator.group.migration.classic_members import ClassicMembers
from moldau.broker.coordinator.group.parts import ShardParts
from moldau.broker.coordinator.result import Parked, Result
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.common.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from moldau.common.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class MemberRequests:
    """The requests of members that speak the classic protocol."""

    def __init__(self, parts: ShardParts, classic: ClassicGroups, mixed: ClassicMembers) -> None:
        self._parts = parts
        self._classic = classic
        self._mixed = mixed

    def _consumer_group(self, group_id: str) -> ConsumerGroup | None:
        group = self._parts.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def join(
        self, request: JoinGroupRequest, client: Client, parked: Parked[JoinGroupResponse], now_ms: int
    ) -> Result[JoinGroupResponse]:
        """A member enters the group, or its next generation; `parked` is answered when the generation
        stands."""
        group = self._consumer_group(request.group_id)
        if group is None or group.is_empty():
            return self._classic.join(request, client, parked, now_ms)
        refused = self._classic.check_join(request)
        return self._mixed.join(group, request, client, now_ms) if refused is None else refused

    def sync(
        self, request: SyncGroupRequest, client: Client, parked: Parked[SyncGroupResponse], now_ms: int
    ) -> Result[SyncGroupResponse]:
        """A member asks for its assignment; the leader of a classic group sends all members'."""
        group = self._consumer_group(request.group_id)
        if group is None:
            return self._classic.sync(request, client, parked, now_ms)
        refused = check_sync_names(request, client)
        return self._mixed.sync(group, request, now_ms) if refused is None else refused

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Result[HeartbeatResponse]:
        """A member is alive; it may have to rejoin."""
        group = self._consumer_group(request.group_id)
        if group is None:
            return self._classic.heartbeat(request, now_ms)
        return self._mixed.heartbeat(group, request, now_ms)

    def leave(self, request: LeaveGroupRequest, now_ms: int) -> Result[LeaveGroupResponse]:
        """Members leave, or an administrator removes them; each has its own outcome."""
        group = self._consumer_group(request.group_id)
        if group is None:
            return self._classic.leave(request, now_ms)
        return self._mixed.leave(group, request, now_ms)
