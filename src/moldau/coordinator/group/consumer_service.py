"""The consumer groups (KIP-848) of one shard: requests, deadlines and changes of metadata come in here.

    session     a member must be heard of within the session timeout
    rebalance   a member that is told to revoke partitions must confirm it within its own rebalance timeout

A deadline that passes fences its member. Deadlines live in memory only: they are set with each heartbeat,
again when the shard is loaded, and again when a failed append took back the decision that had cancelled them.
"""

import logging
from collections.abc import Callable
from typing import Any, Protocol

from moldau.coordinator.deadlines import Deadlines
from moldau.coordinator.group.consumer_describe import describe
from moldau.coordinator.group.consumer_group import ConsumerGroup
from moldau.coordinator.group.consumer_heartbeat import Decision, Surroundings, decide_heartbeat
from moldau.coordinator.group.consumer_leave import fence, find_leaver, leave_for_a_moment
from moldau.coordinator.group.consumer_limits import ConsumerLimits, LimitsCache
from moldau.coordinator.group.consumer_member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
)
from moldau.coordinator.group.consumer_replay import ConsumerReplay
from moldau.coordinator.group.consumer_requests import Refused, admit, check_request
from moldau.coordinator.group.consumer_topics import LatestChange
from moldau.coordinator.group.group import Client, Group
from moldau.coordinator.group.regex import InvalidPattern, TopicMatcher, compile_pattern
from moldau.coordinator.group.removals import Removals
from moldau.coordinator.journal import Journal
from moldau.coordinator.result import Result
from moldau.core.ids import random_uuid, uuid_to_text
from moldau.core.settings.broker import BrokerSettings
from moldau.metadata.image import Image
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.consumer_group_describe import DescribedGroup
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

SESSION, REBALANCE = "session", "rebalance"

_log = logging.getLogger(__name__)
_latest_change = LatestChange()


class Shard(Protocol):
    """What is needed of the shard (group/shard.py)."""

    groups: dict[str, Group]
    journal: Journal
    deadlines: Deadlines
    random: Any
    settings: Callable[[], BrokerSettings]
    image: Callable[[], Image]
    removals: Removals

    def expects_members(self, group_id: str) -> bool: ...


class ConsumerGroups:
    """See the module."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._matcher = TopicMatcher()
        self._limits = LimitsCache()
        self._replay = ConsumerReplay(shard.groups, shard.journal, self)

    def replays(self) -> dict[type, Callable[[Any, Any], None]]:
        """The function that replays each type of record."""
        return self._replay.table()

    def _limits_of(self, group_id: str) -> ConsumerLimits:
        return self._limits.of(group_id, self._shard.settings(), self._shard.image())

    # Requests.

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        """Judge, decide, set the timers. All errors are in the response."""
        limits = self._limits_of(request.group_id)
        refused = check_request(request, client.api_version, limits.assignors)
        if refused is not None:
            return Result(refused.response())
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(request, now_ms)
        found = self._group_for(request)
        if isinstance(found, Refused):
            return Result(found.response())
        group, conversion = found
        member_id = request.member_id or uuid_to_text(random_uuid(self._shard.random))
        admitted = (
            _full(group, limits, request) or _pattern_refused(request) or admit(group, request, member_id)
        )
        if isinstance(admitted, Refused):
            return Result(admitted.response())
        around = Surroundings(self._shard.image(), limits, self._matcher, now_ms)
        decision, response = decide_heartbeat(group, admitted, member_id, request, client, around)
        if admitted.replaces is not None and admitted.replaces.member_id != member_id:
            self._cancel(group.group_id, admitted.replaces.member_id)
        self._set_timers(decision)
        if decision.looked_at_topics:
            group.topics_changed, group.regexes_checked_at_ms = False, now_ms
        if not decision.records:
            return Result(response)
        if request.member_epoch == JOIN_EPOCH:
            _log.info("group %s: member %s joins", group.group_id, member_id)
        return Result(
            response, [*conversion, *decision.records], on_failure=self._mender(group.group_id, now_ms)
        )

    def _group_for(self, request: ConsumerGroupHeartbeatRequest) -> tuple[ConsumerGroup, list[Any]] | Refused:
        """The group, with the records that turn an empty classic group of this name into a consumer group."""
        group_id, joins = request.group_id, request.member_epoch == JOIN_EPOCH
        group = self._shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group, []
        if group is None:
            if not joins:
                kind = "Consumer group" if request.member_epoch > JOIN_EPOCH else "Group"
                return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
            return ConsumerGroup(group_id, Journal()), []
        if not joins or not group.is_empty() or self._shard.expects_members(group_id):
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return ConsumerGroup(group_id, Journal()), group.tombstones()

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        found = self._group_for(request)
        if isinstance(found, Refused):
            return Result(found.response())
        group, _ = found
        member = find_leaver(group, request)
        if isinstance(member, Refused):
            return Result(member.response())
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            self._shard.deadlines.cancel((group.group_id, REBALANCE, member.member_id))
            records = leave_for_a_moment(group, member)
            return Result(response, records, on_failure=self._mender(group.group_id, now_ms))
        _log.info("group %s: member %s leaves", group.group_id, member.member_id)
        return Result(response, self._fence(group, member), on_failure=self._mender(group.group_id, now_ms))

    def describe(self, group_id: str, now_ms: int) -> DescribedGroup:
        """One row of ConsumerGroupDescribe; GROUP_ID_NOT_FOUND for what is not a consumer group."""
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            reason = "not found" if group is None else "is not a consumer group"
            return DescribedGroup(
                group_id=group_id,
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} {reason}.",
            )
        return describe(group, self._limits_of(group_id).assignors, self._shard.image())

    # Timers.

    def _set_timers(self, decision: Decision) -> None:
        """A heartbeat prolongs the session; being told to revoke starts the rebalance timer."""
        group_id, member = decision.group.group_id, decision.member
        deadlines, now_ms = self._shard.deadlines, decision.around.now_ms
        deadlines.set(
            (group_id, SESSION, member.member_id), now_ms + decision.around.limits.session_timeout_ms
        )
        known = decision.group.members.get(member.member_id)
        if known is not None and known.state is member.state and known.pending == member.pending:
            return
        key = (group_id, REBALANCE, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            deadlines.set(key, now_ms + member.rebalance_timeout_ms)
        else:
            deadlines.cancel(key)

    def _cancel(self, group_id: str, member_id: str) -> None:
        for name in (SESSION, REBALANCE):
            self._shard.deadlines.cancel((group_id, name, member_id))

    def start_timers(self, group: ConsumerGroup, now_ms: int) -> None:
        """Give every member the timers that it should have and does not."""
        limits, deadlines = self._limits_of(group.group_id), self._shard.deadlines
        for member_id, member in group.members.items():
            if deadlines.get((group.group_id, SESSION, member_id)) is None:
                deadlines.set((group.group_id, SESSION, member_id), now_ms + limits.session_timeout_ms)
            key = (group.group_id, REBALANCE, member_id)
            revokes = member.state is MemberState.UNREVOKED_PARTITIONS and member.member_epoch >= JOIN_EPOCH
            if revokes and deadlines.get(key) is None:
                deadlines.set(key, now_ms + member.rebalance_timeout_ms)

    def on_deadline(self, group: ConsumerGroup, name: str, member_id: str, now_ms: int) -> Result[None]:
        """A member was silent or slow for too long."""
        member = group.members.get(member_id)
        if member is None:
            return Result()
        if name == REBALANCE:
            if member.state is not MemberState.UNREVOKED_PARTITIONS or member.member_epoch < JOIN_EPOCH:
                return Result()
            cause = (
                f"did not revoke its partitions within {member.rebalance_timeout_ms} ms (rebalance timeout)"
            )
        else:
            timeout_ms = self._limits_of(group.group_id).session_timeout_ms
            cause = f"was silent for {timeout_ms} ms (session timeout)"
        self._shard.removals.removed(group.group_id, member.member_id, member.client_host, cause)
        return Result(None, self._fence(group, member), on_failure=self._mender(group.group_id, now_ms))

    def _fence(self, group: ConsumerGroup, member: ConsumerMember) -> list[Any]:
        self._cancel(group.group_id, member.member_id)
        return fence(group, member, self._shard.image())

    def _mender(self, group_id: str, now_ms: int) -> Callable[[int], None]:
        """What to do when the records of a decision could not be written: bring the volatile part back in
        line."""

        def mend(error_code: int) -> None:
            group = self._shard.groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                group.topics_changed = True
                self.start_timers(group, now_ms)

        return mend

    # Metadata.

    def metadata_changed(self, old_image: Image, new_image: Image, now_ms: int) -> Result[None]:
        """Let groups whose topics may have changed look again with their next heartbeat."""
        groups = [group for group in self._shard.groups.values() if isinstance(group, ConsumerGroup)]
        changed = _latest_change.between(old_image, new_image) if groups else frozenset()
        for group in groups if changed else []:
            if not group.topics_changed:
                group.topics_changed = bool(group.regexes) or group.reads_any(changed)
        return Result()


def _full(
    group: ConsumerGroup, limits: ConsumerLimits, request: ConsumerGroupHeartbeatRequest
) -> Refused | None:
    """A full group takes nobody new; a static member that comes back is not new."""
    if len(group.members) < limits.size_max or request.member_id in group.members:
        return None
    if request.instance_id is not None and request.instance_id in group.static_members:
        return None
    return Refused(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The consumer group has reached its maximum capacity of {limits.size_max} members.",
    )


def _pattern_refused(request: ConsumerGroupHeartbeatRequest) -> Refused | None:
    pattern = request.subscribed_topic_regex
    if not pattern:
        return None
    try:
        compile_pattern(pattern)
    except InvalidPattern as error:
        return Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        )
    return None
