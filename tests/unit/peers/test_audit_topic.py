"""The audit's topic: every event is in it or in the log, whatever fails, and no request waits for it."""

from __future__ import annotations

import asyncio
import json
import random
from types import SimpleNamespace
from typing import Any

from moldau.broker.metadata.image import EMPTY_IMAGE, PartitionState, TopicState
from moldau.broker.peers.audit_topic import EVENTS_A_BATCH, PAUSE_MS, QUEUED_MAX, TopicSink
from moldau.broker.peers.peers import PeerError
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.common.records.batch import iter_batches


class World:
    """Broker 2; the topic has the partitions that are led by these brokers, once it is made."""

    def __init__(self, *leaders: int) -> None:
        self.clock = ManualClock()
        self.image = EMPTY_IMAGE
        self.leaders = leaders
        self.logged: list[Any] = []
        self.written: list[tuple[int, int, list[Any]]] = []
        self.error = 0
        self.away = False
        self.answers = asyncio.Event()
        self.answers.set()
        self.problem: str | None = None
        host = SimpleNamespace(clock=self.clock, timers=ManualTimers(self.clock), random=random.Random(1))
        log = SimpleNamespace(write=self.logged.append)
        self.sink = TopicSink(
            "audit",
            log,
            2,
            lambda: self.image,
            host,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self.create,
            asyncio.ensure_future,  # type: ignore[arg-type]
        )

    async def create(self, name: str) -> str | None:
        if self.problem is None:
            states = tuple(PartitionState(each, 0, 0, (each,), (each,)) for each in self.leaders)
            self.image = self.image._replace(topics={name: TopicState(name, b"x" * 16, states)})
        return self.problem

    async def send(self, node_id: int, request: Any, **_: Any) -> Any:
        await self.answers.wait()
        if self.away:
            raise PeerError(f"broker {node_id}: connection refused")
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        assert request.acks == -1
        values = [
            json.loads(record.value)
            for batch in iter_batches(partition.records)
            for record in batch.records()
        ]
        if not self.error:
            self.written.append((node_id, partition.index, values))
        row = PartitionProduceResponse(index=partition.index, error_code=self.error)
        return ProduceResponse(responses=[TopicProduceResponse(name="audit", partition_responses=[row])])

    async def settle(self) -> None:
        for _ in range(200):
            await asyncio.sleep(0)

    def events(self) -> list[Any]:
        return [event for _, _, events in self.written for event in events]


def run(scenario: Any, *leaders: int) -> None:
    async def main() -> None:
        await scenario(World(*leaders))

    asyncio.run(main())


def test_events_are_records_in_their_order_on_a_partition_that_is_led_here() -> None:
    async def scenario(world: World) -> None:
        for number in range(EVENTS_A_BATCH + 3):
            world.sink.write({"number": number})
        await world.settle()
        assert [each["number"] for each in world.events()] == list(range(EVENTS_A_BATCH + 3))
        assert {(node, index) for node, index, _ in world.written} == {(2, 1)}
        world.sink.write({"number": "later"})
        await world.settle()
        assert world.events()[-1] == {"number": "later"}
        assert not world.logged

    run(scenario, 1, 2, 3)


def test_another_leader_is_asked_where_none_is_here() -> None:
    async def scenario(world: World) -> None:
        world.sink.write({"number": 1})
        await world.settle()
        assert world.written == [(1, 0, [{"number": 1}])]

    run(scenario, 1)


def test_what_cannot_be_written_is_in_the_log_and_the_topic_is_tried_again_later() -> None:
    async def scenario(world: World) -> None:
        for fail in ("away", "error", "no topic"):
            world.away = fail == "away"
            world.error = ErrorCode.TOPIC_AUTHORIZATION_FAILED if fail == "error" else 0
            world.problem = "POLICY_VIOLATION: no" if fail == "no topic" else None
            if fail == "no topic":
                world.image = EMPTY_IMAGE
            world.written.clear()
            world.logged.clear()
            world.sink.write({"number": 1})
            world.sink.write({"number": 2})
            await world.settle()
            assert [each["number"] for each in world.logged] == [1, 2], fail
            world.away, world.error, world.problem = False, 0, None
            world.sink.write({"number": 3})
            await world.settle()
            assert [each["number"] for each in world.logged] == [1, 2, 3], "not tried for a while"
            world.clock.advance(PAUSE_MS)
            world.sink.write({"number": 4})
            await world.settle()
            assert [each["number"] for each in world.events()] == [4], fail

    run(scenario, 1)


def test_a_partition_without_a_leader_is_none_to_write_to() -> None:
    async def scenario(world: World) -> None:
        world.sink.write({"number": 1})
        await world.settle()
        assert world.logged == [{"number": 1}]

    run(scenario, -1)


def test_what_does_not_fit_into_the_queue_goes_to_the_log() -> None:
    async def scenario(world: World) -> None:
        world.answers.clear()
        world.sink.write({"number": -1})
        await world.settle()
        for number in range(QUEUED_MAX + 7):
            world.sink.write({"number": number})
        assert len(world.logged) == 7
        world.answers.set()
        await world.settle()
        assert len(world.events()) == QUEUED_MAX + 1

    run(scenario, 1)


def test_at_the_end_everything_is_somewhere() -> None:
    async def scenario(world: World) -> None:
        world.answers.clear()
        for number in range(EVENTS_A_BATCH + 5):
            world.sink.write({"number": number})
        await world.settle()
        world.sink.stop()
        world.sink.write({"number": "after"})
        await world.settle()
        told = [each["number"] for each in world.logged]
        assert told == [*range(EVENTS_A_BATCH + 5), "after"]

    run(scenario, 1)
