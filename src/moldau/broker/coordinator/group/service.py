"""The group coordinator as the handlers see it: one method an API, taking the decoded request and its client.

A method finds the shard of the group, lets it decide, and returns the response, or an awaitable of it where
it has to wait. Requests about several groups are spread over their shards, and the responses combined.

Not here: what a request means (group/shard.py and what it holds), how records get written (shard.py, one
folder up), topic creation (groups/find_coordinator.py).
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from moldau.broker.coordinator.coordinator import partition_of
from moldau.broker.coordinator.group.group import Client, Group
from moldau.broker.coordinator.group.offsets.commit_refusal import refuse_transactional_commit
from moldau.broker.coordinator.group.offsets.committed import refuse_commit
from moldau.broker.coordinator.group.offsets.transactional import CommitGuard
from moldau.broker.coordinator.group.removals import Removals
from moldau.broker.coordinator.group.shard import GroupShard
from moldau.broker.coordinator.group.share.admin import EndOffsets, ShareAdministration
from moldau.broker.coordinator.group.share.service import ShareGroups, nobody_asks
from moldau.broker.coordinator.machine import CoordinatorLog
from moldau.broker.coordinator.markers import Marker
from moldau.broker.coordinator.result import Parked, Result
from moldau.broker.coordinator.runtime import CoordinatorRuntime
from moldau.broker.coordinator.share.states import ShareStates
from moldau.broker.coordinator.stall_guard import never
from moldau.broker.metadata.changes import Change, PartitionsAdded, TopicCreated, TopicDeleted
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC, Image
from moldau.common.core.client_state import Account, Holdings
from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.core.waiting import Answer, settled, together
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from moldau.common.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from moldau.common.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.common.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from moldau.common.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.common.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from moldau.common.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.common.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from moldau.common.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from moldau.common.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from moldau.common.protocol.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from moldau.common.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from moldau.common.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from moldau.common.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from moldau.common.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from moldau.common.settings.broker import BrokerSettings

_MARKER_ERRORS: dict[int, ErrorCode] = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""A marker is written for a transaction coordinator, which would take these codes for its own; this one makes
it look for the partition's leader again."""

R = TypeVar("R")

INITIALIZE_WAIT_MS = 2000
"""How long a heartbeat waits for the share coordinator."""


async def no_end_offsets(_: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Where nobody knows where partitions end."""
    return {}


class CommittedOffset(NamedTuple):
    """One committed offset, for lag export."""

    group_id: str
    topic: str
    partition: int
    offset: int
    metadata: str


class GroupCoordinator:
    """Coordinates the groups whose shards this broker leads: a `Coordinator`."""

    topic = GROUP_OFFSETS_TOPIC

    def __init__(
        self,
        *,
        log: CoordinatorLog,
        image: Callable[[], Image],
        settings: Callable[[], BrokerSettings],
        clock: Clock,
        timers: Timers,
        random_source: random.Random,
        stalled: Callable[[], bool] = never,
        account: Account | None = None,
        share_states: ShareStates | None = None,
        end_offsets: EndOffsets = no_end_offsets,
    ) -> None:
        """What groups hold is counted in `account`; without one it is not limited. `share_states`: the share
        coordinators, for share groups."""
        self._image = image
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._expiry: TimerHandle | None = None
        self._removals = Removals(timers)
        self.share = (
            None if share_states is None else ShareAdministration(self, share_states, image, end_offsets)
        )
        asks = nobody_asks if self.share is None else self.share.initialize
        deletes = nobody_asks if self.share is None else self.share.delete_states

        def make_state(_index: int, _leader_epoch: int) -> GroupShard:
            return GroupShard(
                settings=settings,
                image=image,
                random_source=random_source,
                removals=self._removals,
                held=Holdings(account),
                share_groups=lambda parts: ShareGroups(parts, asks, deletes),
            )

        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            GROUP_OFFSETS_TOPIC,
            log=log,
            make_state=make_state,
            clock=clock,
            timers=timers,
            commit_timeout_ms=lambda: settings().offsets_commit_timeout_ms,
            stalled=stalled,
        )

    # Life.

    def start(self) -> None:
        """Begin to look for expired offsets periodically. Shards are loaded by `elected`."""
        interval_ms = self._settings().offsets_retention_check_interval_ms
        self._expiry = self._timers.call_later(interval_ms, self._expire)

    def stop(self) -> None:
        """Give up all shards; everyone who waits is answered COORDINATOR_NOT_AVAILABLE."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._removals.stop()
        if self.share is not None:
            self.share.stop()
        self.runtime.stop()

    def elected(self, index: int, leader_epoch: int) -> None:
        self.runtime.elected(index, leader_epoch)

    def resigned(self, index: int) -> None:
        self.runtime.resigned(index)

    def metadata_changed(self, old_image: Image, new_image: Image, changes: Sequence[Change]) -> None:
        """Topics may have come, changed or gone. Subscribe this to the metadata."""
        if not any(isinstance(change, (TopicCreated, TopicDeleted, PartitionsAdded)) for change in changes):
            return
        deleted = frozenset(change.name for change in changes if isinstance(change, TopicDeleted))

        def operation(shard: GroupShard, now_ms: int) -> Result[None]:
            return shard.metadata_changed(old_image, new_image, deleted, now_ms)

        for partition, _ in self.runtime.states():
            self.runtime.submit(partition, operation)

    def partition_for(self, key: str) -> int:
        """The partition of __consumer_offsets that holds the group `key`."""
        return partition_of(key, self.topic, self._image(), self._settings().offsets_topic_num_partitions)

    # The classic protocol.

    def join_group(self, request: JoinGroupRequest, client: Client) -> Answer[JoinGroupResponse]:
        """JoinGroup; the answer waits for the other members."""
        parked: Parked[JoinGroupResponse] = Parked()
        return self._decide(
            request.group_id,
            lambda shard, now_ms: shard.members.join(request, client, parked, now_ms),
            lambda error_code: JoinGroupResponse(error_code=error_code, member_id=request.member_id),
            parked,
        )

    def sync_group(self, request: SyncGroupRequest, client: Client) -> Answer[SyncGroupResponse]:
        """SyncGroup; the answer waits for the leader's assignment."""
        parked: Parked[SyncGroupResponse] = Parked()
        return self._decide(
            request.group_id,
            lambda shard, now_ms: shard.members.sync(request, client, parked, now_ms),
            lambda error_code: SyncGroupResponse(error_code=error_code),
            parked,
        )

    def heartbeat(self, request: HeartbeatRequest, client: Client) -> Answer[HeartbeatResponse]:
        """Heartbeat. Answered with success while the shard loads: the member could only retry at once."""

        def refuse(error_code: int) -> HeartbeatResponse:
            loading = error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if loading else error_code)

        return self._decide(
            request.group_id, lambda shard, now_ms: shard.members.heartbeat(request, now_ms), refuse
        )

    def leave_group(self, request: LeaveGroupRequest, client: Client) -> Answer[LeaveGroupResponse]:
        """LeaveGroup."""
        return self._decide(
            request.group_id,
            lambda shard, now_ms: shard.members.leave(request, now_ms),
            lambda error_code: LeaveGroupResponse(error_code=error_code),
        )

    # The consumer protocol (KIP-848).

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> Answer[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat."""
        return self._decide(
            request.group_id,
            lambda shard, now_ms: shard.consumer.heartbeat(request, client, now_ms),
            lambda error_code: ConsumerGroupHeartbeatResponse(error_code=error_code),
        )

    def consumer_group_describe(
        self, request: ConsumerGroupDescribeRequest, client: Client
    ) -> Answer[ConsumerGroupDescribeResponse]:
        """ConsumerGroupDescribe."""
        outcomes = [self._describe_consumer(group_id) for group_id in request.group_ids]
        return together(outcomes, lambda groups: ConsumerGroupDescribeResponse(groups=groups))

    def _describe_consumer(self, group_id: str) -> Answer[DescribedConsumerGroup]:
        return self._decide(
            group_id,
            lambda shard, now_ms: Result(shard.consumer.describe(group_id, now_ms)),
            lambda error_code: DescribedConsumerGroup(group_id=group_id, error_code=error_code),
        )

    # Share groups (KIP-932).

    async def share_group_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client
    ) -> ShareGroupHeartbeatResponse:
        """ShareGroupHeartbeat. A member that has nothing yet, because its share-partitions are only just
        being initialized, waits for that for a moment, and gets them with this answer."""
        response = await settled(self._share_heartbeat(request, client))
        under_way = None if self.share is None else self.share.initializing(request.group_id)
        rows = None if response.assignment is None else response.assignment.topic_partitions
        if under_way is None or response.error_code or rows or response.member_epoch <= 0:
            return response
        await asyncio.wait([under_way], timeout=INITIALIZE_WAIT_MS / 1000)
        again = ShareGroupHeartbeatRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            member_epoch=response.member_epoch,
            rack_id=request.rack_id,
            subscribed_topic_names=request.subscribed_topic_names,
        )
        later = await settled(self._share_heartbeat(again, client))
        return response if later.error_code else later

    def _share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client
    ) -> Answer[ShareGroupHeartbeatResponse]:
        return self._decide(
            request.group_id,
            lambda shard, now_ms: shard.share.heartbeat(request, client, now_ms),
            lambda error_code: ShareGroupHeartbeatResponse(error_code=error_code),
        )

    def share_group_describe(
        self, request: ShareGroupDescribeRequest, client: Client
    ) -> Answer[ShareGroupDescribeResponse]:
        """ShareGroupDescribe."""
        outcomes = [self._describe_share(group_id) for group_id in request.group_ids]
        return together(outcomes, lambda groups: ShareGroupDescribeResponse(groups=groups))

    def _describe_share(self, group_id: str) -> Answer[DescribedShareGroup]:
        return self._decide(
            group_id,
            lambda shard, now_ms: Result(shard.share.describe(group_id)),
            lambda error_code: DescribedShareGroup(group_id=group_id, error_code=error_code),
        )

    def decide_for(
        self,
        group_id: str,
        operation: Callable[[GroupShard, int], Result[R]],
        refuse: Callable[[int], R],
    ) -> Answer[R]:
        """Run an operation in the group's shard."""
        return self._decide(group_id, operation, refuse)

    def submit_for(self, group_id: str, operation: Callable[[GroupShard, int], Result[None]]) -> None:
        """Run an operation in the group's shard for which nobody waits."""
        self.runtime.submit(self.partition_for(group_id), operation)

    def shard_of(self, group_id: str) -> GroupShard | None:
        """The group's shard, if it serves here."""
        return self.runtime.state(self.partition_for(group_id))

    # Offsets.

    def offset_commit(self, request: OffsetCommitRequest, client: Client) -> Answer[OffsetCommitResponse]:
        """OffsetCommit."""
        return self._decide(
            request.group_id,
            lambda shard, now_ms: shard.offsets.commit(request, client, now_ms),
            lambda error_code: refuse_commit(request, error_code),
        )

    def offset_fetch(self, request: OffsetFetchRequest, client: Client) -> Answer[OffsetFetchResponse]:
        """OffsetFetch, as versions 8 and up have it: `request.groups` in, `response.groups` out."""
        stable = request.require_stable
        outcomes = [self._fetch(group, client.api_version, stable) for group in request.groups]
        return together(outcomes, lambda groups: OffsetFetchResponse(groups=groups))

    def _fetch(
        self, group: OffsetFetchRequestGroup, api_version: int, require_stable: bool
    ) -> Answer[OffsetFetchResponseGroup]:
        return self._decide(
            group.group_id,
            lambda shard, now_ms: Result(shard.offsets.fetch(group, api_version, require_stable)),
            lambda error_code: OffsetFetchResponseGroup(group_id=group.group_id, error_code=error_code),
        )

    # Offsets in transactions.

    def needs_verification(self, group_id: str, producer_id: int, producer_epoch: int) -> bool:
        """Whether the transaction's coordinator is to be asked before this producer's offsets are taken: not
        if there are some already, in the same epoch, because then the transaction is open here."""
        shard = self.runtime.state(self.partition_for(group_id))
        return shard is None or not shard.offsets.pending.is_open(producer_id, producer_epoch)

    def guard_commit(self, group_id: str, producer_id: int) -> CommitGuard | None:
        """Take a guard before asking the transaction's coordinator, for `txn_offset_commit`; release it with
        `release_guard`. None if the shard is not here; the commit will then be refused.
        """
        shard = self.runtime.state(self.partition_for(group_id))
        return None if shard is None else shard.transactional.take_guard(producer_id)

    def release_guard(self, guard: CommitGuard) -> None:
        """Release the guard."""
        guard.owner.release_guard(guard)

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, client: Client, guard: CommitGuard | None = None
    ) -> Answer[TxnOffsetCommitResponse]:
        """TxnOffsetCommit, of a transaction that is known to be open. INVALID_TXN_STATE if the guard, taken
        before that was asked, is broken."""
        return self._decide(
            request.group_id,
            lambda shard, now_ms: shard.transactional.commit(request, guard, now_ms),
            lambda error_code: refuse_transactional_commit(request, error_code),
        )

    def end_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        transaction_version: int,
    ) -> Answer[int]:
        """Append a marker to `partition` of __consumer_offsets, in order with its records, and apply or drop
        what the producer has pending there. The answer is an error code."""
        topic = self._image().topics.get(GROUP_OFFSETS_TOPIC)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        marker = Marker(producer_id, producer_epoch, coordinator_epoch, committed, transaction_version)
        return self.runtime.decide(
            partition,
            lambda shard, now_ms: Result(int(ErrorCode.NONE), marker=marker),
            lambda error_code: int(_MARKER_ERRORS.get(error_code, error_code)),
        )

    def offset_delete(self, request: OffsetDeleteRequest, client: Client) -> Answer[OffsetDeleteResponse]:
        """OffsetDelete."""
        return self._decide(
            request.group_id,
            lambda shard, now_ms: shard.offsets.delete(request),
            lambda error_code: OffsetDeleteResponse(error_code=error_code),
        )

    # Groups of both kinds.

    def describe_groups(
        self, request: DescribeGroupsRequest, client: Client
    ) -> Answer[DescribeGroupsResponse]:
        """DescribeGroups: classic groups only."""
        outcomes = [self._describe_classic(group_id, client.api_version) for group_id in request.groups]
        return together(outcomes, lambda groups: DescribeGroupsResponse(groups=groups))

    def _describe_classic(self, group_id: str, api_version: int) -> Answer[DescribedGroup]:
        return self._decide(
            group_id,
            lambda shard, now_ms: Result(shard.classic.describe(group_id, api_version)),
            lambda error_code: DescribedGroup(group_id=group_id, error_code=error_code),
        )

    def list_groups(
        self, request: ListGroupsRequest, client: Client, partitions: Collection[int] | None = None
    ) -> Answer[ListGroupsResponse]:
        """ListGroups: the groups of all shards here, or of those of `partitions`. While one of them loads,
        the list would be incomplete: COORDINATOR_LOAD_IN_PROGRESS makes the client retry."""
        states = frozenset(state.lower() for state in request.states_filter)
        types = frozenset(kind.lower() for kind in request.types_filter)
        if self.runtime.loading():
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        outcomes = [
            self.runtime.decide(
                partition,
                lambda shard, now_ms: Result(shard.list_groups(states, types)),
                lambda error_code: [],
            )
            for partition, _ in self.runtime.states()
            if partitions is None or partition in partitions
        ]
        return together(
            outcomes, lambda lists: ListGroupsResponse(groups=[group for groups in lists for group in groups])
        )

    def delete_groups(self, request: DeleteGroupsRequest, client: Client) -> Answer[DeleteGroupsResponse]:
        """DeleteGroups: empty groups, with their offsets."""
        outcomes = [self._delete_group(group_id) for group_id in request.groups_names]
        return together(outcomes, lambda results: DeleteGroupsResponse(results=results))

    def _delete_group(self, group_id: str) -> Answer[DeletableGroupResult]:
        shard = self.shard_of(group_id)
        if self.share is not None and shard is not None and shard.share.get(group_id) is not None:
            return self.share.delete_group(group_id)
        return self._decide(
            group_id,
            lambda shard, now_ms: shard.delete_group(group_id),
            lambda error_code: DeletableGroupResult(group_id=group_id, error_code=error_code),
        )

    # For metrics and the monitor.

    def group_counts_by_partition(self) -> dict[int, int]:
        """How many groups each shard here has."""
        return {partition: len(shard.groups) for partition, shard in self.runtime.states()}

    def groups(self) -> Iterator[Group]:
        """Every group here, of both kinds."""
        return (group for _, shard in self.runtime.states() for group in list(shard.groups.values()))

    def group_counts(self) -> Counter[tuple[str, str]]:
        """How many groups there are, by (kind, state), such as ("classic", "Stable")."""
        return Counter((group.kind.value, group.state_name()) for group in self.groups())

    def member_count(self) -> int:
        """How many members all groups here have together."""
        return sum(group.member_count() for group in self.groups())

    def committed_offsets(self) -> Iterator[CommittedOffset]:
        """Every committed offset here."""
        return (CommittedOffset(*row) for _, shard in self.runtime.states() for row in list(shard.offsets))

    # Inside.

    def _decide(
        self,
        group_id: str,
        operation: Callable[[GroupShard, int], Result[R]],
        refuse: Callable[[int], R],
        parked: Parked[R] | None = None,
    ) -> Answer[R]:
        return self.runtime.decide(self.partition_for(group_id), operation, refuse, parked)

    def _expire(self) -> None:
        """Drop what has expired: one shard a turn of the loop, one group a result, to keep batches small."""
        self.start()
        for order, (partition, _) in enumerate(self.runtime.states()):
            self._timers.call_later(order, partial(self._expire_shard, partition))

    def _expire_shard(self, partition: int) -> None:
        shard = self.runtime.state(partition)
        for group_id in [] if shard is None else list(shard.groups):
            self.runtime.submit(partition, partial(_expire_group, group_id))


def _expire_group(group_id: str, shard: GroupShard, now_ms: int) -> Result[None]:
    records: list[Any] = [*shard.offsets.expire(group_id, now_ms)] if group_id in shard.groups else []
    return Result(records=records)
