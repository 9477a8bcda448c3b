"""Records that were returned and not sent are read again, and not committed, also while a broker is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v2 import instance as instance_module
from moldau.services.rest.v2.errors import KAFKA_RETRIABLE_ERROR
from moldau.services.rest.v2.fields import Place
from moldau.services.rest.v2.instance import Instance, InstanceConfig

AWAY, THERE, OTHERS = Place("t", 0), Place("t", 1), Place("t", 2)
LIMIT_SECONDS = 60.0


class FakeConsumer:
    """Reads AWAY and THERE; cannot seek in what is `away`, as while its broker is."""

    def __init__(self) -> None:
        self.away = {AWAY}
        self.assigned = [AWAY, THERE]
        self.sought: list[tuple[Place, int]] = []
        self.stored: dict[Place, int] = {}

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(*place) for place in self.assigned]

    def seek(self, target: TopicPartition) -> None:
        place = Place(target.topic, target.partition)
        if place in self.away:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.sought.append((place, target.offset))

    def store_offsets(self, offsets: list[TopicPartition]) -> None:
        for each in offsets:
            self.stored[Place(each.topic, each.partition)] = each.offset


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_module, "_SEEK_SECONDS", 0.0)
    monkeypatch.setattr(instance_module, "_SEEK_PAUSE_SECONDS", 0.0)


def with_instance(consumer: FakeConsumer, main: Callable[[Instance], Awaitable[None]]) -> None:
    async def run(pool: ThreadPoolExecutor) -> None:
        made: Any = Instance("g", "i", InstanceConfig(), consumer, True, pool, "ann")  # type: ignore[arg-type]
        made.reads = 1
        made.note_returned({AWAY: 9, THERE: 19, OTHERS: 29})
        async with asyncio.timeout(LIMIT_SECONDS):
            await main(made)

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(run(pool))


def test_partitions_behind_one_that_cannot_be_sought_are_sought() -> None:
    consumer = FakeConsumer()

    async def main(made: Instance) -> None:
        await made.rewind({AWAY: 5, THERE: 15, OTHERS: 25}, 1)
        assert consumer.sought == [(THERE, 15)]
        made.store_returned()
        assert consumer.stored == {AWAY: 5, THERE: 15}, "nobody received what lies behind"

    with_instance(consumer, main)


def test_the_next_read_seeks_what_could_not_be_sought() -> None:
    consumer = FakeConsumer()

    async def main(made: Instance) -> None:
        await made.rewind({AWAY: 5, THERE: 15}, 1)
        with pytest.raises(HttpProblem, match="t-0 that could not be sent") as refused:
            await made.seek_unsent()
        assert refused.value.error_code == KAFKA_RETRIABLE_ERROR
        consumer.away.clear()
        await made.seek_unsent()
        assert consumer.sought == [(THERE, 15), (AWAY, 5)]
        await made.seek_unsent()
        assert len(consumer.sought) == 2, "once is enough"

    with_instance(consumer, main)


def test_what_belongs_to_others_by_then_is_left_to_them() -> None:
    consumer = FakeConsumer()

    async def main(made: Instance) -> None:
        await made.rewind({AWAY: 5, THERE: 15}, 1)
        consumer.assigned = [THERE]
        await made.seek_unsent()
        consumer.assigned, consumer.away = [AWAY, THERE], set()
        await made.seek_unsent()
        assert consumer.sought == [(THERE, 15)]
        made.store_returned()
        assert AWAY not in consumer.stored

    with_instance(consumer, main)
