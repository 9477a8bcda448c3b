"""The share groups (KIP-932) of one shard: their requests, deadlines and changes of metadata.

What has to be asked of the share coordinator is handed to `asks`, once the records that say so are committed
(admin.py). Not here: what a heartbeat decides (heartbeat.py).
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from moldau.broker.coordinator.deadlines import DeadlineChanges
from moldau.broker.coordinator.group.group import Client
from moldau.broker.coordinator.group.share import records
from moldau.broker.coordinator.group.share.describe import describe
from moldau.broker.coordinator.group.share.group import ShareGroup
from moldau.broker.coordinator.group.share.heartbeat import (
    INITIALIZE_RETRY_MS,
    ShareLimits,
    Surroundings,
    confirmed,
    decide_heartbeat,
    removed,
)
from moldau.broker.coordinator.group.share.limits import ShareLimitsCache
from moldau.broker.coordinator.group.share.member import JOIN_EPOCH, LEAVE_EPOCH, ShareMember
from moldau.broker.coordinator.group.share.replay import ShareReplay, held_by_subscription
from moldau.broker.coordinator.group.share.requests import Rejected, admit, check_request, unknown_member
from moldau.broker.coordinator.group.share.states import StateTopic
from moldau.broker.coordinator.group.topics import LatestChange
from moldau.broker.coordinator.journal import Journal
from moldau.broker.coordinator.result import Result
from moldau.broker.metadata.image import Image
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.share_group_describe import DescribedGroup
from moldau.common.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.parts import ShardParts

SESSION = "session"
_MEMBER_SHARE_MAX = 1 / 16  # of the memory for what clients make the broker keep, for one member

_log = logging.getLogger("moldau.coordinator.group.share")
_latest_change = LatestChange()

Asks = Callable[[str, int, Mapping[bytes, StateTopic]], None]
"""Called with a group, its epoch and share-partitions: have them initialized."""
Deletes = Callable[[str, Mapping[bytes, StateTopic]], None]
"""Called with a group and share-partitions: have their states deleted."""


def nobody_asks(*_: object) -> None:
    """Where there is no share coordinator."""


class ShareGroups:
    """See the module."""

    def __init__(self, shard: "ShardParts", asks: Asks = nobody_asks, deletes: Deletes = nobody_asks) -> None:
        self.shard = shard
        self._asks = asks
        self._deletes = deletes
        self._limits = ShareLimitsCache()
        self._replay = ShareReplay(shard.groups, shard.journal, self, shard.held)

    def replays(self) -> dict[type, Callable[[Any, Any], None]]:
        """The function that replays each type of record."""
        return self._replay.table()

    def limits_of(self, group_id: str) -> ShareLimits:
        """The settings that a group runs by."""
        return self._limits.of(group_id, self.shard.settings(), self.shard.image())

    def get(self, group_id: str) -> ShareGroup | None:
        """The share group of this name, if there is one."""
        group = self.shard.groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def around(self, group_id: str, now_ms: int) -> Surroundings:
        """What a decision about a group sees besides it."""
        return Surroundings(self.shard.image(), self.limits_of(group_id), now_ms)

    # Requests

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Result[ShareGroupHeartbeatResponse]:
        """Check, decide, set the timer. All errors are in the response."""
        refused = check_request(request)
        if refused is not None:
            return Result(refused.response())
        found = self._group_for(request)
        if isinstance(found, Rejected):
            return Result(found.response())
        if request.member_epoch == LEAVE_EPOCH:
            return self._leave(found, request, now_ms)
        joins = request.member_epoch == JOIN_EPOCH
        admitted = (self._full(found, request) if joins else None) or admit(found, request)
        if isinstance(admitted, Rejected):
            return Result(admitted.response())
        if not self._has_memory(request):
            return Result(ShareGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return self._decided(found, admitted, request, client, now_ms)

    def _decided(
        self,
        group: ShareGroup,
        member: ShareMember,
        request: ShareGroupHeartbeatRequest,
        client: Client,
        now_ms: int,
    ) -> Result[ShareGroupHeartbeatResponse]:
        group_id = group.group_id
        around = self.around(group_id, now_ms)
        decision = decide_heartbeat(group, member, request, client, around)
        changes = DeadlineChanges(self.shard.deadlines)
        changes.set((group_id, SESSION, request.member_id), now_ms + around.limits.session_timeout_ms)
        effects: list[Callable[[], None]] = [changes.apply]
        asks, group_epoch = decision.asks, decision.group_epoch

        def note() -> None:
            kept = self.get(group_id)
            if kept is None:
                return
            if decision.looked_at_topics:
                kept.topics_changed = False
            if asks:
                kept.asked_at_ms = now_ms
            if kept.states.deleting:
                self._retry_deletion(kept, now_ms)

        def ask() -> None:
            if asks:
                self._asks(group_id, group_epoch, asks)

        def made() -> None:
            note()
            ask()

        if request.member_epoch == JOIN_EPOCH and request.member_id not in group.members:
            _log.info("share group %s: member %s joins", group_id, request.member_id)
        result = Result(
            decision.response, decision.records, on_failure=self._repair(group_id, now_ms), effects=effects
        )
        if group_id in self.shard.groups:
            effects.append(note)
            result.on_commit = ask if asks else None
        else:  # the group is made by the records
            result.on_commit = made
        return result

    def _group_for(self, request: ShareGroupHeartbeatRequest) -> ShareGroup | Rejected:
        group_id = request.group_id
        group = self.shard.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is None and request.member_epoch == JOIN_EPOCH:
            return ShareGroup(group_id, Journal())
        reason = "not found" if group is None else "is not a share group"
        return Rejected(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")

    def _full(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> Rejected | None:
        size_max = self.limits_of(group.group_id).size_max
        if len(group.members) < size_max or request.member_id in group.members:
            return None
        return Rejected(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {size_max} members.",
        )

    def _has_memory(self, request: ShareGroupHeartbeatRequest) -> bool:
        names = request.subscribed_topic_names
        if request.member_epoch != JOIN_EPOCH and names is None:
            return True
        name = (request.group_id, request.member_id)
        added_bytes = held_by_subscription(names or []) - self.shard.held.get(name)
        return self.shard.held.admits(name, added_bytes, _MEMBER_SHARE_MAX)

    def _leave(
        self, group: ShareGroup, request: ShareGroupHeartbeatRequest, now_ms: int
    ) -> Result[ShareGroupHeartbeatResponse]:
        member_id = request.member_id
        if member_id not in group.members:
            return Result(unknown_member(group, member_id).response())
        _log.info("share group %s: member %s leaves", group.group_id, member_id)
        response = ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=LEAVE_EPOCH)
        changes = DeadlineChanges(self.shard.deadlines)
        changes.cancel((group.group_id, SESSION, member_id))
        return Result(
            response,
            removed(group, member_id, self.shard.image()),
            on_failure=self._repair(group.group_id, now_ms),
            effects=[changes.apply],
        )

    def describe(self, group_id: str) -> DescribedGroup:
        """One row of ShareGroupDescribe; GROUP_ID_NOT_FOUND for what is not a share group."""
        group = self.shard.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return describe(group, self.shard.image())
        reason = "not found" if group is None else "is not a share group"
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {reason}.",
        )

    # What the share coordinator has done

    def confirm(self, group_id: str, topics: Mapping[bytes, StateTopic], now_ms: int) -> Result[None]:
        """These share-partitions are initialized."""
        group = self.get(group_id)
        if group is None:
            return Result()
        changed = confirmed(group, topics, self.around(group_id, now_ms))
        return Result(records=changed, on_failure=self._repair(group_id, now_ms))

    def not_confirmed(self, group_id: str) -> None:
        """The share coordinator could not be asked: the next heartbeat tries again."""
        group = self.get(group_id)
        if group is not None:
            group.asked_at_ms = None
            group.topics_changed = True

    def begin_deletion(self, group_id: str, topic_ids: list[bytes]) -> Result[None]:
        """The states of these topics are going to be deleted."""
        group = self.get(group_id)
        if group is None:
            return Result()
        states = group.states.leaving(topic_ids)
        return Result(records=[] if states == group.states else [records.states_record(group_id, states)])

    def end_deletion(self, group_id: str, topic_ids: list[bytes]) -> Result[None]:
        """The states of these topics are deleted; members that still read them need new ones."""
        group = self.get(group_id)
        if group is None:
            return Result()
        states = group.states.left(topic_ids)
        group.topics_changed = True
        return Result(records=[] if states == group.states else [records.states_record(group_id, states)])

    # Time

    def start_timers(self, group: ShareGroup, now_ms: int) -> None:
        """Give every member the timer that it should have and does not."""
        timeout_ms = self.limits_of(group.group_id).session_timeout_ms
        for member_id in group.members:
            key = (group.group_id, SESSION, member_id)
            if self.shard.deadlines.get(key) is None:
                self.shard.deadlines.set(key, now_ms + timeout_ms)

    def resume(self, group: ShareGroup) -> None:
        """The shard was loaded: go on with what the coordinator before had begun to delete."""
        topics = self.shard.image().topics
        deleting = {
            topic_id: StateTopic(each.name, frozenset(range(len(topics[each.name].partitions))))
            for topic_id, each in group.states.deleting.items()
            if each.name in topics and topics[each.name].topic_id == topic_id
        }
        if group.states.deleting:
            self._deletes(group.group_id, {**group.states.deleting, **deleting})

    def _retry_deletion(self, group: ShareGroup, now_ms: int) -> None:
        """States that are still being deleted keep members from their topics: go on with it now and then."""
        asked_at_ms = group.deletes_asked_at_ms
        if asked_at_ms is None or not 0 <= now_ms - asked_at_ms < INITIALIZE_RETRY_MS:
            group.deletes_asked_at_ms = now_ms
            self.resume(group)

    def on_deadline(self, group: ShareGroup, name: str, member_id: str, now_ms: int) -> Result[None]:
        """A member missed a deadline."""
        member = group.members.get(member_id)
        if member is None or name != SESSION:
            return Result()
        timeout_ms = self.limits_of(group.group_id).session_timeout_ms
        cause = f"was silent for {timeout_ms} ms (session timeout)"
        tell = partial(self.shard.removals.removed, group.group_id, member_id, member.client_host, cause)
        return Result(
            records=removed(group, member_id, self.shard.image()),
            on_failure=self._repair(group.group_id, now_ms),
            effects=[tell],
        )

    def _repair(self, group_id: str, now_ms: int) -> Callable[[int], None]:
        def repair(error_code: int) -> None:
            group = self.get(group_id)
            if group is not None:
                group.topics_changed = True
                group.asked_at_ms = None
                self.start_timers(group, now_ms)

        return repair

    # Metadata

    def metadata_changed(self, old_image: Image, new_image: Image, now_ms: int) -> Result[None]:
        """Groups whose topics may have changed compare them again with their next heartbeat; the states of
        topics that are gone are forgotten (the share coordinator does the same)."""
        groups = [group for group in self.shard.groups.values() if isinstance(group, ShareGroup)]
        changed = _latest_change.between(old_image, new_image) if groups else frozenset()
        result: Result[None] = Result()
        if not changed:
            return result
        for group in groups:
            gone = [topic_id for topic_id in group.states.known() if topic_id not in new_image.topic_names]
            if gone:
                states = group.states.leaving(gone).left(gone)
                result.records.append(records.states_record(group.group_id, states))
        stale = [group for group in groups if group.reads_any(changed)]

        def mark() -> None:
            for group in stale:
                group.topics_changed = True

        result.effects.append(mark)
        return result
