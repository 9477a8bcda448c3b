"""Partitions that a follower is not in sync for are fetched over a connection of their own, and come back."""

import asyncio
import random
from types import SimpleNamespace
from typing import Any

from moldau.broker.peers.call import RawResponse
from moldau.broker.replication.following.follower_session import FetchLimits
from moldau.broker.replication.following.leader_fetch import FetchCounts
from moldau.broker.replication.following.replica_fetcher import ReplicaFetcher
from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.core.clock import ManualClock
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.messages.fetch import FetchResponse

HERE, LEADER = 1, 2


class FakePeers:
    """Keeps every request until the test answers it."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, asyncio.Future[RawResponse]]] = []

    def send_raw(self, node_id: int, request: Any, **_: Any) -> "asyncio.Future[RawResponse]":
        future: asyncio.Future[RawResponse] = asyncio.get_running_loop().create_future()
        self.waiting.append((request, future))
        return future

    def give_back(self, node_id: int, response: RawResponse) -> None:
        """The frame is the test's own."""

    def close(self) -> None:
        """There is no connection."""

    def asked(self) -> set[int]:
        """The partitions that the last request names."""
        request, _ = self.waiting[-1]
        return {row.partition for topic in request.topics for row in topic.partitions}

    def answer_nothing(self) -> None:
        version = 17
        body = FetchResponse(session_id=7, responses=[]).encode(version)
        self.waiting[-1][1].set_result(RawResponse(memoryview(body), 0, version))


class FakePartition(SimpleNamespace):
    """One of a kind, as partitions are."""

    __hash__ = object.__hash__


class World:
    def __init__(self) -> None:
        self.clock = clock = ManualClock()
        host = SimpleNamespace(
            timers=ManualTimers(clock), loop=asyncio.get_running_loop(), random=random.Random(1)
        )
        parts: Any = SimpleNamespace(
            node_id=HERE,
            host=host,
            clock=clock,
            lane=SlowLane(now_seconds=lambda: 0.0),
            limits=lambda: FetchLimits(500, 1, 1 << 20, 1 << 20),
            timeout_ms=lambda: 30_000,
            pause_ms_max=lambda: 1000,
            broker_epoch=lambda: 5,
            counts=FetchCounts(),
            quota=None,
        )
        self.peers: dict[str, FakePeers] = {}
        make: Any = lambda name: self.peers.setdefault(name, FakePeers())  # noqa: E731
        self.fetcher = ReplicaFetcher(parts, make, lambda: 1)

    @staticmethod
    def partition(index: int, *isr: int) -> Any:
        log = SimpleNamespace(latest_leader_epoch=0, log_start_offset=0, log_end_offset=0)
        return FakePartition(
            topic="t",
            topic_id=bytes(16),
            index=index,
            isr=isr,
            follower_throttled=False,
            log=log,
            log_start_saved=None,
        )


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_who_catches_up_is_fetched_apart_and_comes_back_with_its_next_records() -> None:
    async def scenario() -> None:
        world = World()
        behind, in_sync = world.partition(0, LEADER), world.partition(1, LEADER, HERE)
        for each in (behind, in_sync):
            world.fetcher.fetch_from(each, FetchFrom(LEADER, 0, 0))
        await turns()
        assert world.peers["fetcher-0-catching-up"].asked() == {0}
        assert world.peers["fetcher-0"].asked() == {1}
        world.clock.advance(100)
        world.peers["fetcher-0"].answer_nothing()  # nobody came for a while: the next request waits long
        await turns()
        behind.isr = (LEADER, HERE)
        world.fetcher.fetch_from(behind, FetchFrom(LEADER, 0, 10))  # after its records were appended
        await turns()
        # The others' request waits at the leader: the newcomer does not wait with it.
        assert world.peers["fetcher-0-early"].asked() == {0}
        world.peers["fetcher-0"].answer_nothing()
        await turns()
        world.peers["fetcher-0-early"].answer_nothing()
        await turns()
        in_sync.isr = (LEADER,)
        world.fetcher.fetch_from(in_sync, FetchFrom(LEADER, 0, 3))
        world.peers["fetcher-0-catching-up"].answer_nothing()
        await turns()
        assert world.peers["fetcher-0-catching-up"].asked() == {1}
        world.fetcher.close()

    asyncio.run(scenario())


def test_who_is_in_sync_and_gets_nothing_comes_back_when_nothing_comes() -> None:
    async def scenario() -> None:
        world = World()
        joined, behind = world.partition(0, LEADER), world.partition(1, LEADER)
        for each in (joined, behind):
            world.fetcher.fetch_from(each, FetchFrom(LEADER, 0, 0))
        await turns()
        assert world.peers["fetcher-0-catching-up"].asked() == {0, 1}
        joined.isr = (LEADER, HERE)
        world.peers["fetcher-0-catching-up"].answer_nothing()
        await turns()
        assert world.peers["fetcher-0"].asked() == {0}
        request, _ = world.peers["fetcher-0-catching-up"].waiting[-1]
        assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
        world.fetcher.close()

    asyncio.run(scenario())
