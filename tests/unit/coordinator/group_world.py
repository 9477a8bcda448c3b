"""A group coordinator in a world without network, disk and time: what the tests of this folder drive.

`World.call` sends a request as a client would and returns a `Call`, which is answered now, later or never.
The log is a list; `log.hold` keeps appends in flight, `log.fail` makes the next ones fail. `restart` builds a
new coordinator from the log, as after kill -9.
"""

import asyncio
import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pending_append import PendingAppend
from pure_decisions import watch_decisions

from moldau.broker.coordinator.group.service import GroupCoordinator
from moldau.broker.coordinator.group.shard import GroupShard
from moldau.broker.coordinator.machine import EndedTransaction, Loaded, TransactionalRecord
from moldau.broker.coordinator.markers import Marker
from moldau.broker.coordinator.result import Producer
from moldau.broker.metadata.changes import TopicCreated, TopicDeleted, replay
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC, Image, PartitionState
from moldau.common.core.client_state import ClientState
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.common.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.common.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.common.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.common.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.common.settings.broker import BrokerSettings

GROUP = "crew"


@dataclass(frozen=True)
class FakeClient:
    api_version: int = 9
    client_id: str = "app"
    client_host: str = "10.0.0.7"
    sees_topic: Callable[[str], bool] | None = None


class MemoryLog:
    """The offsets topic as a list of records for each partition."""

    def __init__(self) -> None:
        self.records: dict[int, list[Loaded]] = {}
        self.batches: list[int] = []
        self.markers: list[Marker] = []
        self.in_flight: list[PendingAppend] = []
        self.hold = False
        self.fail = 0
        self.batch_records_max = 2**63
        self.leader_epoch: int | None = None
        """If given, appends of another epoch are refused."""

    def append_records(
        self,
        topic: str,
        index: int,
        leader_epoch: int,
        records: Sequence[tuple[bytes, bytes | None]],
        producer: Producer | None = None,
    ) -> PendingAppend:
        assert topic == GROUP_OFFSETS_TOPIC
        if self.leader_epoch not in (None, leader_epoch):
            fenced = PendingAppend(lambda: None)
            fenced.finish(ErrorCode.FENCED_LEADER_EPOCH)
            return fenced
        self.batches.append(len(records))
        if len(records) > self.batch_records_max:
            refused = PendingAppend(lambda: None)
            refused.finish(ErrorCode.MESSAGE_TOO_LARGE)
            return refused
        rows: list[Loaded] = list(records)
        if producer is not None:
            rows = [TransactionalRecord(producer, *record) for record in records]
        return self._append(index, rows)

    def append_marker(self, topic: str, index: int, leader_epoch: int, marker: Marker) -> PendingAppend:
        assert topic == GROUP_OFFSETS_TOPIC
        self.batches.append(0)
        self.markers.append(marker)
        return self._append(index, [EndedTransaction(marker.producer_id, marker.committed)])

    def _append(self, index: int, rows: list[Loaded]) -> PendingAppend:
        pending = PendingAppend(lambda: self.records.setdefault(index, []).extend(rows))
        if self.hold:
            self.in_flight.append(pending)
        else:
            pending.finish(self.fail)
        return pending

    def committed_records(self, topic: str, index: int, leader_epoch: int) -> Iterator[Loaded]:
        return iter(list(self.records.get(index, [])))

    def finish(self, error_code: int = 0, *, lands: bool | None = None) -> None:
        """Complete the oldest append in flight."""
        self.in_flight.pop(0).finish(error_code, lands=lands)


class Call:
    """One request's answer: `response` is None as long as it is parked."""

    def __init__(self, loop: asyncio.AbstractEventLoop, outcome: Any) -> None:
        self._loop = loop
        if inspect.iscoroutine(outcome):
            outcome = loop.create_task(outcome)
        self._outcome = outcome

    @property
    def response(self) -> Any:
        if not isinstance(self._outcome, asyncio.Future):
            return self._outcome
        for _ in range(4):
            self._loop.run_until_complete(asyncio.sleep(0))
        return self._outcome.result() if self._outcome.done() else None

    @property
    def error(self) -> ErrorCode | None:
        return None if self.response is None else ErrorCode(self.response.error_code)


class World:
    """One coordinator, one partition of the offsets topic (or more), two topics that exist: "beer" and
    "wine"."""

    def __init__(self, *, partitions: int = 1, **settings: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.log = MemoryLog()
        defaults = {"group_initial_rebalance_delay_ms": 10, "group_min_session_timeout_ms": 1000}
        self.settings = BrokerSettings(**{**defaults, **settings})
        self.client_state = ClientState(self.settings.moldau_client_state_max_bytes, self.clock)
        self.random = random.Random(7)
        self.image = Image()
        fresh = PartitionState.fresh((0,))
        self._topic(TopicCreated(GROUP_OFFSETS_TOPIC, bytes([9] * 16), (fresh,) * partitions))
        self._topic(TopicCreated("beer", bytes([1] * 16), (fresh,) * 3))
        self._topic(TopicCreated("wine", bytes([2] * 16), (fresh,) * 3))
        self.restart()

    def _topic(self, change: TopicCreated | TopicDeleted) -> None:
        self.image = replay(self.image, self.image.version + 1, [change])

    def close(self) -> None:
        self.loop.close()

    def restart(self) -> None:
        """Kill -9, and start again from what the log holds."""
        self.log.in_flight.clear()
        self.client_state = ClientState(self.settings.moldau_client_state_max_bytes, self.clock)
        self.timers = ManualTimers(self.clock)
        self.coordinator = GroupCoordinator(
            log=self.log,
            image=lambda: self.image,
            settings=lambda: self.settings,
            clock=self.clock,
            timers=self.timers,
            random_source=self.random,
            account=self.client_state.groups,
        )
        watch_decisions(self.coordinator.runtime)
        self.coordinator.start()
        for partition in range(len(self.image.topics[GROUP_OFFSETS_TOPIC].partitions)):
            self.coordinator.elected(partition, 0)
        self.timers.advance(0)

    @property
    def shard(self) -> GroupShard:
        shard = self.coordinator.runtime.state(0)
        assert shard is not None
        return shard

    def delete_topic(self, name: str) -> None:
        old, change = self.image, TopicDeleted(name)
        self._topic(change)
        self.coordinator.metadata_changed(old, self.image, [change])
        self.settle()

    def recreate_topic(self, name: str, topic_id: bytes) -> None:
        """Another topic takes the name, and the coordinator has not heard of the old one's end (it was
        down)."""
        self._topic(TopicDeleted(name))
        self._topic(TopicCreated(name, topic_id, (PartitionState.fresh((0,)),) * 3))

    def call(self, method: str, request: Any, version: int = 9, client_id: str = "app") -> Call:
        async def send() -> Any:
            client = FakeClient(api_version=version, client_id=client_id)
            outcome = getattr(self.coordinator, method)(request, client)
            return (outcome,)

        (outcome,) = self.loop.run_until_complete(send())
        call = Call(self.loop, outcome)
        self.settle()
        return call

    def settle(self) -> None:
        """Let everything that is due now happen."""
        self.timers.advance(0)

    def advance(self, duration_ms: int) -> None:
        self.timers.advance(duration_ms)

    def gather(self) -> None:
        """Let the initial delay pass."""
        self.advance(100)

    # Requests in short.

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        group: str = GROUP,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        protocols: Sequence[tuple[str, bytes]] = (("range", b"meta"),),
        protocol_type: str = "consumer",
        version: int = 9,
        client_id: str = "app",
    ) -> Call:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
        )
        return self.call("join_group", request, version, client_id)

    def enter(self, **options: Any) -> tuple[str, Call]:
        """Join as new clients do: get a member id, then join with it."""
        member_id = self.join(**options).response.member_id
        return member_id, self.join(member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocol_name: str | None = "range",
        protocol_type: str | None = "consumer",
    ) -> Call:
        rows = [
            SyncGroupRequestAssignment(member_id=key, assignment=value)
            for key, value in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_name=protocol_name,
            protocol_type=protocol_type,
            assignments=rows,
        )
        return self.call("sync_group", request, 5)

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode | None:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.call("heartbeat", request, 4).error

    def leave(self, *members: str | tuple[str, str | None]) -> Any:
        identities = [
            MemberIdentity(member_id=member)
            if isinstance(member, str)
            else MemberIdentity(member_id=member[0], group_instance_id=member[1])
            for member in members
        ]
        return self.call("leave_group", LeaveGroupRequest(group_id=GROUP, members=identities), 5).response

    def commit(
        self,
        offset: int,
        *,
        group: str = GROUP,
        topic: str = "beer",
        partition: int = 0,
        member_id: str = "",
        generation: int = -1,
        metadata: str | None = "",
        version: int = 8,
        retention_ms: int = -1,
    ) -> Call:
        row = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            retention_time_ms=retention_ms,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[row])],
        )
        return self.call("offset_commit", request, version)

    def commit_pending(
        self,
        offset: int,
        producer: int = 7,
        *,
        epoch: int = 0,
        group: str = GROUP,
        topic: str = "beer",
        partition: int = 0,
        member_id: str = "",
        instance: str | None = None,
        generation: int = -1,
        metadata: str | None = "",
        version: int = 5,
    ) -> Call:
        """Commit an offset in a producer's transaction."""
        row = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        request = TxnOffsetCommitRequest(
            transactional_id=f"tx-{producer}",
            group_id=group,
            producer_id=producer,
            producer_epoch=epoch,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
        )
        return self.call("txn_offset_commit", request, version)

    def end(self, producer: int = 7, *, committed: bool = True, epoch: int = 0, partition: int = 0) -> Call:
        """A marker comes; the response is the error code."""

        async def send() -> Any:
            outcome = self.coordinator.end_transaction(partition, producer, epoch, 3, committed, 2)
            return (outcome,)

        (outcome,) = self.loop.run_until_complete(send())
        call = Call(self.loop, outcome)
        self.settle()
        return call

    def stable(self, group: str = GROUP, topic: str = "beer", partition: int = 0) -> int | ErrorCode:
        """What a reader of stable offsets is told: an offset, or an error."""
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True
        )
        (found,) = self.call("offset_fetch", request, 8).response.groups
        row = found.topics[0].partitions[0]
        return ErrorCode(row.error_code) if row.error_code else row.committed_offset

    def committed(self, call: Call) -> ErrorCode | None:
        """The outcome of a commit of one partition."""
        response = call.response
        return None if response is None else ErrorCode(response.topics[0].partitions[0].error_code)

    def offsets(self, group: str = GROUP) -> dict[tuple[str, int], int]:
        """What OffsetFetch tells of the group."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        (found,) = self.call("offset_fetch", request, 8).response.groups
        return {
            (topic.name, row.partition_index): row.committed_offset
            for topic in found.topics
            for row in topic.partitions
        }

    def form(self, count: int, **options: Any) -> tuple[list[str], int]:
        """A stable group of `count` members; the first leads and gives each its own id as assignment."""
        entered = [self.enter(**options) for _ in range(count)]
        self.gather()
        kind = options.get("protocol_type", "consumer")
        name = entered[0][1].response.protocol_name
        members = [member_id for member_id, _ in entered]
        generation = entered[0][1].response.generation_id
        leader = entered[0][1].response.leader
        shares = {member: member.encode() for member in members}
        calls = [
            self.sync(member, generation, shares, protocol_name=name, protocol_type=kind)
            for member in sorted(members, key=lambda member: member == leader)
        ]
        assert all(call.error == ErrorCode.NONE for call in calls)
        return [leader, *(member for member in members if member != leader)], generation
