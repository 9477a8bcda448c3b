"""A replica fetcher whose leader is the test: it keeps each request until the test answers it."""

import asyncio
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from moldau.broker.log.appending.follower_append import FollowerAppended
from moldau.broker.peers.call import RawResponse
from moldau.broker.replication.following.catch_up_pace import CatchUpPace
from moldau.broker.replication.following.fetch_parts import FetchCounts
from moldau.broker.replication.following.follower_session import FetchLimits
from moldau.broker.replication.following.replica_fetcher import ReplicaFetcher
from moldau.common.core.clock import ManualClock
from moldau.common.core.slow_lane import SLICE_SECONDS, SlowLane
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from moldau.common.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

HERE, LEADER = 1, 2
TOPIC_ID = bytes(16)
VERSION = 17


class FakePeers:
    """Keeps every request until the test answers it."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, asyncio.Future[RawResponse]]] = []

    def send_raw(self, node_id: int, request: Any, **_: Any) -> "asyncio.Future[RawResponse]":
        future: asyncio.Future[RawResponse] = asyncio.get_running_loop().create_future()
        # As a leader reads it.
        self.waiting.append((FetchRequest.decode(request.encode(VERSION), VERSION), future))
        return future

    async def send(self, node_id: int, request: Any, **_: Any) -> ListOffsetsResponse:
        """A leader whose logs begin and end at offset 100."""
        found = ListOffsetsPartitionResponse(offset=100)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])

    def give_back(self, node_id: int, response: RawResponse) -> None:
        """The frame is the test's own."""

    def close(self) -> None:
        """There is no connection."""

    def asked(self) -> set[int]:
        """The partitions that the last request names."""
        request, _ = self.waiting[-1]
        return {row.partition for topic in request.topics for row in topic.partitions}

    def offsets(self) -> dict[int, int]:
        """Where the last request begins in the partitions that it names."""
        request, _ = self.waiting[-1]
        return {row.partition: row.fetch_offset for topic in request.topics for row in topic.partitions}

    def starts(self) -> dict[int, int]:
        """Where the logs of those partitions begin, as the last request says."""
        request, _ = self.waiting[-1]
        return {row.partition: row.log_start_offset for topic in request.topics for row in topic.partitions}

    def left_out(self) -> set[int]:
        """The partitions that the last request leaves out from now on."""
        request, _ = self.waiting[-1]
        return {index for topic in request.forgotten_topics_data for index in topic.partitions}

    @property
    def wait_ms(self) -> int:
        """How long the last request may wait at the leader."""
        request, _ = self.waiting[-1]
        return int(request.max_wait_ms)

    def answer_nothing(self) -> None:
        self.answer()

    def answer(self, *rows: PartitionData) -> None:
        """Answer the last request with these rows of the topic."""
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(rows))] if rows else []
        body = FetchResponse(session_id=7, responses=topics).encode(VERSION)
        self.waiting[-1][1].set_result(RawResponse(memoryview(body), 0, VERSION))


class FakePartition(SimpleNamespace):
    """One of a kind, as partitions are. What it appends becomes safe when the test says so."""

    __hash__ = object.__hash__

    def append_as_follower(
        self, batches: memoryview, leader_epoch: int, high_watermark: int, now_ms: int, start_offset: int
    ) -> FollowerAppended:
        self.log.log_start_offset = max(self.log.log_start_offset, start_offset)
        self.log.log_end_offset += len(batches)
        error_code = ErrorCode.CORRUPT_MESSAGE if self.corrupt else 0
        return FollowerAppended(error_code, None, self.log.log_end_offset, len(batches), 0)


class World:
    def __init__(self, slice_seconds: float = SLICE_SECONDS) -> None:
        """Time for slices stands still: with 0 seconds each row is one."""
        self.clock = clock = ManualClock()
        self.timers = ManualTimers(clock)
        host = SimpleNamespace(timers=self.timers, loop=asyncio.get_running_loop(), random=random.Random(1))
        self.saving: list[Callable[[bool], None]] = []  # each is called when a log's start is written down
        parts: Any = SimpleNamespace(
            node_id=HERE,
            host=host,
            clock=clock,
            lane=SlowLane(slice_seconds, now_seconds=lambda: 0.0),
            limits=lambda: FetchLimits(500, 1, 1 << 20, 1 << 20),
            timeout_ms=lambda: 30_000,
            pause_ms_max=lambda: 1000,
            broker_epoch=lambda: 5,
            counts=FetchCounts(),
            quota=None,
            pace=CatchUpPace(),
            save_log_start=lambda log, done: self.saving.append(done),
        )
        self.peers: dict[str, FakePeers] = {}
        make: Any = lambda name: self.peers.setdefault(name, FakePeers())  # noqa: E731
        self.fetcher = ReplicaFetcher(parts, make, lambda: 1)

    @staticmethod
    def partition(index: int, *isr: int) -> Any:
        log = SimpleNamespace(latest_leader_epoch=0, log_start_offset=0, log_end_offset=0)
        return FakePartition(
            topic="t",
            topic_id=TOPIC_ID,
            index=index,
            isr=isr,
            follower_throttled=False,
            log=log,
            corrupt=False,
            log_start_saved=None,
            stats=SimpleNamespace(replication_bytes_in=0),
        )


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
