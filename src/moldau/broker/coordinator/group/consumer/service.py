"""The consumer groups (KIP-848) of one shard: their requests, deadlines and changes of metadata.

A group in use may change its protocol: the first member of the consumer protocol makes a classic group a
consumer group (migration/upgrade.py), the last one to leave makes it classic again (migration/downgrade.py).

Not here: what a heartbeat decides (heartbeat.py), members that speak the classic protocol
(migration/classic_members.py), the timers themselves (timers.py).
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.broker.coordinator.deadlines import DeadlineChanges
from moldau.broker.coordinator.group.classic import rebalance as classic_rebalance
from moldau.broker.coordinator.group.classic.draft import Draft
from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.classic.membership import CONSUMER
from moldau.broker.coordinator.group.classic.requests import ClassicGroups
from moldau.broker.coordinator.group.consumer.describe import describe
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.broker.coordinator.group.consumer.heartbeat import Decision, Surroundings, decide_heartbeat
from moldau.broker.coordinator.group.consumer.leave import fence, find_leaver, leave_for_a_moment
from moldau.broker.coordinator.group.consumer.limits import ConsumerLimits, LimitsCache
from moldau.broker.coordinator.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
)
from moldau.broker.coordinator.group.consumer.regex import InvalidPattern, TopicMatcher, compile_pattern
from moldau.broker.coordinator.group.consumer.replay import ConsumerReplay, held_by_subscription
from moldau.broker.coordinator.group.consumer.requests import Rejected, admit, check_request
from moldau.broker.coordinator.group.consumer.timers import MemberTimers, why_removed
from moldau.broker.coordinator.group.group import Client
from moldau.broker.coordinator.group.migration import downgrade
from moldau.broker.coordinator.group.migration.upgrade import (
    may_upgrade,
    note_failure,
    subscription_bytes,
    upgrade,
)
from moldau.broker.coordinator.group.parts import ShardParts
from moldau.broker.coordinator.group.topics import LatestChange
from moldau.broker.coordinator.journal import Journal
from moldau.broker.coordinator.result import Result
from moldau.broker.metadata.image import Image
from moldau.common.core.ids import random_uuid, uuid_to_text
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_describe import DescribedGroup
from moldau.common.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    pass

R = TypeVar("R")

_log = logging.getLogger("moldau.coordinator.group.consumer_service")

_MEMBER_SHARE_MAX = 1 / 16  # of the memory for what clients make the broker keep, for one member
_latest_change = LatestChange()


class ConsumerGroups:
    """See the module."""

    def __init__(self, parts: ShardParts, classic: ClassicGroups) -> None:
        self.parts = parts
        self._classic = classic
        self.timers = MemberTimers(parts.deadlines)
        self._matcher = TopicMatcher()
        self._limits = LimitsCache()
        self._replay = ConsumerReplay(parts.groups, parts.journal, self, parts.held)

    def replays(self) -> dict[type, Callable[[Any, Any], None]]:
        """The function that replays each type of record."""
        return self._replay.table()

    def limits_of(self, group_id: str) -> ConsumerLimits:
        """The settings that a group runs by."""
        return self._limits.of(group_id, self.parts.settings(), self.parts.image())

    def around(self, group_id: str, client: Client, now_ms: int) -> Surroundings:
        """What a decision about a group sees besides it."""
        limits = self.limits_of(group_id)
        return Surroundings(self.parts.image(), limits, self._matcher, now_ms, client.sees_topic)

    # Requests.

    def _has_memory(self, request: ConsumerGroupHeartbeatRequest, member_id: str) -> bool:
        """Whether what the member adds fits (core/client_state.py); one that subscribes to nothing new adds
        nothing."""
        names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
        if request.member_epoch != JOIN_EPOCH and names is None and pattern is None:
            return True
        name = (request.group_id, member_id)
        added_bytes = held_by_subscription(names or (), pattern) - self.parts.held.get(name)
        return self.parts.held.admits(name, added_bytes, _MEMBER_SHARE_MAX)

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        """Check, decide, set the timers. All errors are in the response."""
        limits = self.limits_of(request.group_id)
        refused = check_request(request, client.api_version, limits.assignors)
        if refused is not None:
            return Result(refused.response())
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(request, now_ms)
        found = self._group_for(request)
        if isinstance(found, Rejected):
            return Result(found.response())
        group, conversion = found
        member_id = request.member_id or uuid_to_text(random_uuid(self.parts.random))
        admitted = self._full(group, request) or _pattern_refused(request) or admit(group, request, member_id)
        if isinstance(admitted, Rejected):
            return Result(admitted.response())
        if not self._has_memory(request, member_id):
            return Result(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        around = self.around(group.group_id, client, now_ms)
        decision, response = decide_heartbeat(group, admitted, member_id, request, client, around)
        changes = DeadlineChanges(self.parts.deadlines)
        timers = MemberTimers(changes)
        if admitted.replaces is not None and admitted.replaces.member_id != member_id:
            timers.cancel(group, admitted.replaces.member_id)
        timers.restart_session(group, decision.member, limits, now_ms)
        timers.stepped(group, decision.member, now_ms)
        effects: list[Callable[[], None]] = [changes.apply, partial(self.looked_at_topics, decision, now_ms)]
        if not decision.records:
            return Result(response, effects=effects)
        if request.member_epoch == JOIN_EPOCH:
            _log.info("group %s: member %s joins", group.group_id, member_id)
        result = Result(
            response,
            [*conversion, *decision.records],
            on_failure=self.repair_after_failure(group.group_id, now_ms),
            effects=effects,
        )
        if conversion:
            self._converted(group, result, timers, limits, now_ms)
        return result

    def _group_for(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> tuple[ConsumerGroup, list[Any]] | Rejected:
        """The group, with the records that turn a classic group of this name into a consumer group."""
        group_id, joins = request.group_id, request.member_epoch == JOIN_EPOCH
        group = self.parts.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group, []
        if group is None and joins:
            return ConsumerGroup(group_id, Journal()), []
        if not isinstance(group, ClassicGroup):
            kind = "Consumer group" if request.member_epoch > JOIN_EPOCH else "Group"
            return Rejected(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        if not joins:
            return self._no_consumer_group(group, request)
        if group.is_empty():
            return ConsumerGroup(group_id, Journal()), group.tombstones()
        return upgrade(group, self.parts.settings(), self.parts.image())

    def _no_consumer_group(self, group: ClassicGroup, request: ConsumerGroupHeartbeatRequest) -> Rejected:
        """The group is a classic one. A member that was removed when it became so may come back: it is told
        that it is unknown, so that it joins again. Kafka's answer, GROUP_ID_NOT_FOUND, ends most clients."""
        policy = self.parts.settings().group_consumer_migration_policy
        may_join = group.is_empty() or (group.protocol_type == CONSUMER and may_upgrade(policy))
        if request.member_epoch > JOIN_EPOCH and may_join:
            sentence = f"Member {request.member_id} is not a member of group {group.group_id}."
            return Rejected(ErrorCode.UNKNOWN_MEMBER_ID, sentence)
        return Rejected(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")

    def _converted(
        self,
        group: ConsumerGroup,
        result: Result[Any],
        timers: MemberTimers,
        limits: ConsumerLimits,
        now_ms: int,
    ) -> None:
        """The classic group of this name becomes `group` with this result: its members' sessions go on, and
        those who wait for its rebalance are told to join again."""
        _log.info(
            "group %s: the classic group becomes a consumer group, with %d classic members",
            group.group_id,
            len(group.members),
        )
        classic = self._classic.get(group.group_id)
        if classic is not None:
            draft = Draft(classic)
            draft.refuse_all(ErrorCode.REBALANCE_IN_PROGRESS)
            resume = classic_rebalance.suspend_deadlines(draft)
            draft.result().add_to(result)
            size_bytes = subscription_bytes(classic)

            def repair(error_code: int) -> None:
                note_failure(classic, size_bytes, error_code)
                resume(error_code)

            result.on_failure = repair
        for member in group.members.values():
            timers.restart_session(group, member, limits, now_ms)

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        found = self._group_for(request)
        if isinstance(found, Rejected):
            return Result(found.response())
        group, _ = found
        member = find_leaver(group, request)
        if isinstance(member, Rejected):
            return Result(member.response())
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            changes = DeadlineChanges(self.parts.deadlines)
            MemberTimers(changes).away(group, member.member_id)
            return Result(
                response,
                leave_for_a_moment(group, member),
                on_failure=self.repair_after_failure(group.group_id, now_ms),
                effects=[changes.apply],
            )
        _log.info("group %s: member %s leaves", group.group_id, member.member_id)
        return self.remove(group, {member.member_id: member}, response, now_ms)

    def describe(self, group_id: str, now_ms: int) -> DescribedGroup:
        """One row of ConsumerGroupDescribe; GROUP_ID_NOT_FOUND for what is not a consumer group."""
        group = self.parts.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            reason = "not found" if group is None else "is not a consumer group"
            return DescribedGroup(
                group_id=group_id,
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} {reason}.",
            )
        return describe(group, self.limits_of(group_id).assignors, self.parts.image())

    def is_full(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> bool:
        """Whether there is no room for this member; a static member that comes back is not new."""
        if len(group.members) < self.limits_of(group.group_id).size_max or member_id in group.members:
            return False
        return instance_id is None or instance_id not in group.static_members

    def _full(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> Rejected | None:
        if not self.is_full(group, request.member_id, request.instance_id):
            return None
        size_max = self.limits_of(group.group_id).size_max
        return Rejected(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )

    def looked_at_topics(self, decision: Decision, now_ms: int) -> None:
        """Take note of when the group's topics were last compared with those that exist."""
        if decision.looked_at_topics:
            decision.group.topics_changed, decision.group.regexes_checked_at_ms = False, now_ms

    # Removing members.

    def remove(
        self, group: ConsumerGroup, leaving: Mapping[str, ConsumerMember], response: R, now_ms: int
    ) -> Result[R]:
        """Remove members for good. If only classic ones are left, the group becomes classic."""
        result: Result[R] = Result(response)
        size = len(group.members) - len(leaving)
        if downgrade.may_downgrade(group, leaving, size, self.parts.settings()):
            classic = downgrade.classic_group(self.parts, group, leaving, now_ms)
            self.become_classic(group, classic, result, now_ms, rebalances=True)
            return result
        result.effects.append(self._cancelled(group, leaving))
        result.records = fence(group, leaving, self.parts.image())
        result.on_failure = self.repair_after_failure(group.group_id, now_ms)
        return result

    def become_classic(
        self,
        group: ConsumerGroup,
        classic: ClassicGroup,
        result: Result[Any],
        now_ms: int,
        *,
        rebalances: bool,
    ) -> None:
        """Put into `result` what makes `group` the classic group `classic`, which may begin a rebalance at
        once."""
        _log.info(
            "group %s: the consumer group becomes a classic group, with %d members",
            group.group_id,
            len(classic.members),
        )
        taken = self.timers.taken(group.group_id, group.members)
        repair_group = self.repair_after_failure(group.group_id, now_ms)

        def repair(error_code: int) -> None:
            downgrade.note_failure(group, len(classic.members), error_code)
            self.timers.put_back(taken)
            repair_group(error_code)

        result.records += downgrade.records_of(group, classic, rebalances=rebalances)
        result.on_failure = repair
        result.effects.append(lambda: self._classic.adopt(classic))
        result.effects.append(self._cancelled(group, group.members))
        draft = Draft(classic)
        for member in classic.members.values():
            draft.touch(member, now_ms)
        if rebalances:
            classic_rebalance.prepare_rebalance(draft, now_ms)
        draft.result().add_to(result)

    def _cancelled(self, group: ConsumerGroup, member_ids: Iterable[str]) -> Callable[[], None]:
        """The effect that cancels all timers of these members."""
        changes = DeadlineChanges(self.parts.deadlines)
        for member_id in member_ids:
            MemberTimers(changes).cancel(group, member_id)
        return changes.apply

    # Time.

    def start_timers(self, group: ConsumerGroup, now_ms: int) -> None:
        """Give every member the timers that it should have and does not."""
        self.timers.start(group, self.limits_of(group.group_id), now_ms)

    def on_deadline(self, group: ConsumerGroup, name: str, member_id: str, now_ms: int) -> Result[None]:
        """A member missed a deadline."""
        member = group.members.get(member_id)
        limits = self.limits_of(group.group_id)
        cause = None if member is None else why_removed(member, name, limits)
        if member is None or cause is None:
            return Result()
        result: Result[None] = self.remove(group, {member_id: member}, None, now_ms)
        removed = self.parts.removals.removed
        result.effects.append(partial(removed, group.group_id, member_id, member.client_host, cause))
        return result

    def repair_after_failure(self, group_id: str, now_ms: int) -> Callable[[int], None]:
        """What to do when the records of a decision could not be written: make what is in memory only fit the
        state again."""

        def repair(error_code: int) -> None:
            group = self.parts.groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                group.topics_changed = True
                self.start_timers(group, now_ms)

        return repair

    # Metadata.

    def metadata_changed(self, old_image: Image, new_image: Image, now_ms: int) -> Result[None]:
        """Groups whose topics may have changed compare them again with their next heartbeat."""
        groups = [group for group in self.parts.groups.values() if isinstance(group, ConsumerGroup)]
        changed = _latest_change.between(old_image, new_image) if groups else frozenset()
        stale = [
            group
            for group in groups
            if changed and not group.topics_changed and (group.regexes or group.reads_any(changed))
        ]

        def mark() -> None:
            for group in stale:
                group.topics_changed = True

        return Result(effects=[mark])


def _pattern_refused(request: ConsumerGroupHeartbeatRequest) -> Rejected | None:
    pattern = request.subscribed_topic_regex
    if not pattern:
        return None
    try:
        compile_pattern(pattern)
    except InvalidPattern as error:
        return Rejected(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        )
    return None
