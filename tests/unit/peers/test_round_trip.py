"""Round trips for the health verdict: what is asked of which broker, and what counts as a failure."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker.monitor.round_trip_probe import round_trips
from moldau.broker.peers.peers import PeerError
from moldau.broker.peers.round_trip import TOPIC, RoundTrips
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from moldau.common.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.common.records.batch import place

INTERVAL_MS = 1000


@dataclass
class Leader:
    """Answers Produce and Fetch as a broker with one partition does."""

    asked: list[int] = field(default_factory=list)
    end_offset: int = 7
    stored: bytes = b""
    produce_error: int = 0
    fetch_error: int = 0
    spoil: Callable[[bytes], bytes] = bytes
    away: bool = False

    async def send(self, node_id: int, request: Any, **_: Any) -> Any:
        self.asked.append(node_id)
        if self.away:
            raise PeerError(f"broker {node_id}: connection refused")
        if isinstance(request, ProduceRequest):
            (data,) = request.topic_data
            (partition,) = data.partition_data
            assert (request.acks, data.name) == (-1, TOPIC)
            batch = bytearray(partition.records)
            place(batch, self.end_offset, 0)
            self.stored = bytes(batch)
            answer = PartitionProduceResponse(
                index=partition.index, error_code=self.produce_error, base_offset=self.end_offset
            )
            self.end_offset += 1
            return ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=[answer])])
        assert isinstance(request, FetchRequest)
        (partition,) = request.topics[0].partitions
        assert partition.fetch_offset == self.end_offset - 1
        found = PartitionData(
            partition_index=partition.partition,
            error_code=self.fetch_error,
            records=memoryview(self.spoil(self.stored)),
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[found])])


@dataclass
class World:
    """Broker 2 of three, with a clock that the test turns."""

    leaders: list[int] | None = None
    leader: Leader = field(default_factory=Leader)
    clock: ManualClock = field(default_factory=ManualClock)
    created: list[tuple[str, int]] = field(default_factory=list)
    refusal: str | None = None

    def __post_init__(self) -> None:
        self.timers = ManualTimers(self.clock)
        host = SimpleNamespace(clock=self.clock, timers=self.timers, random=random.Random(17))
        self.tasks: list[asyncio.Task[None]] = []
        self.trips = RoundTrips(
            2,
            self.image,
            host,
            self.leader,
            self.create,
            self.run,
            INTERVAL_MS,  # type: ignore[arg-type]
        )
        self.probe = round_trips(lambda: self.trips.counts)

    def image(self) -> Any:
        topics = {}
        if self.leaders is not None:
            topics[TOPIC] = SimpleNamespace(
                partitions=tuple(SimpleNamespace(leader=each) for each in self.leaders)
            )
        brokers = {each: SimpleNamespace(fenced=each == 3) for each in (1, 2, 3)}
        return SimpleNamespace(topics=topics, brokers=brokers)

    async def create(self, name: str, partition_count: int) -> str | None:
        self.created.append((name, partition_count))
        if self.refusal is None:
            self.leaders = [1, 2][:partition_count]
        return self.refusal

    def run(self, work: Any) -> asyncio.Task[None]:
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    def go(self, count: int) -> list[str]:
        """Make so many round trips; returns the names of the conditions after them."""

        async def scenario() -> None:
            self.trips.start()
            for number in range(len(self.tasks) + 1, len(self.tasks) + count + 1):
                while len(self.tasks) < number:
                    self.timers.advance(INTERVAL_MS // 10)
                await self.tasks[-1]
            self.trips.stop()

        asyncio.run(scenario())
        return [each.name for each in self.probe()]


def test_a_record_is_written_and_read_back_where_this_broker_leads() -> None:
    world = World(leaders=[1, 2, 2])
    assert world.go(3) == []
    assert (world.trips.counts.done, world.trips.counts.failed) == (3, 0)
    assert set(world.leader.asked) == {2}
    assert world.created == []


def test_a_broker_that_leads_nothing_asks_another_one() -> None:
    world = World(leaders=[1, 1, 3])
    assert world.go(1) == []
    assert set(world.leader.asked) == {3}


def test_the_topic_is_made_with_a_partition_for_each_live_broker() -> None:
    world = World()
    assert world.go(1) == []
    assert world.created == [(TOPIC, 2)]
    assert world.trips.counts.done == 1


def test_one_failure_is_no_news_and_two_are() -> None:
    world = World(leaders=[2])
    world.leader.produce_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.go(1) == []
    assert world.go(1) == ["round-trip-failing"]
    (found,) = world.probe()
    assert "Produce to __moldau_health-0 at broker 2: NOT_ENOUGH_REPLICAS" in found.message
    world.leader.produce_error = 0
    assert world.go(1) == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"produce_error": 19}, "NOT_ENOUGH_REPLICAS"),
        ({"fetch_error": 1}, "OFFSET_OUT_OF_RANGE"),
        ({"fetch_error": -31999}, "31999"),
        ({"away": True}, "connection refused"),
        ({"spoil": lambda stored: b""}, "is not the record that was acknowledged"),
        ({"spoil": lambda stored: stored[:-1] + b"!"}, "offset 7 is"),
        ({"spoil": lambda stored: stored[:8] + b"\0\0\0\1" + stored[12:]}, "offset 7 is"),
    ],
)
def test_what_fails_is_named(fault: dict[str, Any], words: str) -> None:
    world = World(leaders=[2], leader=replace(Leader(), **fault))
    world.go(1)
    assert world.trips.counts.failed == 1
    assert words in world.trips.counts.problem


def test_a_topic_that_cannot_be_made_and_a_partition_without_leader() -> None:
    world = World(refusal="POLICY_VIOLATION: no")
    world.go(1)
    assert world.trips.counts.problem == f"the topic {TOPIC} could not be made: POLICY_VIOLATION: no"
    world = World(leaders=[-1])
    world.go(1)
    assert world.trips.counts.problem == f"{TOPIC}-0 has no leader"


def test_a_slow_one_degrades() -> None:
    world = World(leaders=[2])
    assert world.go(1) == []
    world.trips.counts.last_ms = 1500.0
    (found,) = world.probe()
    assert (found.name, found.message) == ("round-trip-slow", "the last one took 1.5 s")


def test_a_fault_of_our_own_does_not_end_the_round_trips() -> None:
    world = World(leaders=[2])
    world.leader.spoil = lambda stored: 1 // 0  # type: ignore[assignment,return-value]
    world.go(1)
    assert world.trips.counts.problem == "integer division or modulo by zero"
    world.leader.spoil = bytes
    world.go(1)
    assert world.trips.counts.done == 1
