"""Producing for many requests with one client: outcomes, order, limits of memory, failures."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from moldau.client.admin.problem import KafkaProblem
from moldau.common.protocol.errors import ErrorCode
from moldau.services.kafka.producing import Delivered, OutgoingRecord, Producers
from moldau.testing import Broker

MIB = 1024 * 1024
LIMIT_SECONDS = 100.0


def in_time(story: Callable[[], Awaitable[None]]) -> None:
    """Run it, with a limit of its own: on a busy event loop the exception of pytest's timeout ends the
    callback that it hits, and nothing else.
    """

    async def main() -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            await story()

    asyncio.run(main())


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as started:
        yield started


def settings(broker: Broker, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "buffer.memory": "1",
        "unknown.to.all": "1",
        **more,
    }


def test_every_record_has_its_outcome_in_order(broker: Broker):
    async def run() -> None:
        producers = Producers(settings(broker), bytes_max=MIB)
        records = [
            OutgoingRecord(b"k", b"v", headers=(("a", b"1"), ("a", None)), timestamp_ms=5000),
            OutgoingRecord(None, b"x", partition=7),
            OutgoingRecord(b"k", None, partition=0),
            OutgoingRecord(b"", b"", partition=-1),
        ]
        first, refused, tombstone, negative = await producers.produce("outcomes", records)
        assert first == Delivered(0, 0, 5000)
        assert isinstance(refused, KafkaProblem)
        assert "Partition 7 of topic outcomes" in str(refused)
        assert isinstance(tombstone, Delivered)
        assert tombstone.offset == 1
        assert isinstance(negative, KafkaProblem)
        assert producers.budget.used_bytes == 0
        await producers.close()

    in_time(run)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reads-outcomes"})
    consumer.assign([TopicPartition("outcomes", 0, 0)])
    written = consumer.consume(2, 60)
    consumer.close()
    assert [(each.key(), each.value(), each.headers()) for each in written] == [
        (b"k", b"v", [("a", b"1"), ("a", None)]),
        (b"k", None, None),
    ]


def test_records_beyond_the_memory_wait_their_turn(broker: Broker):
    async def run() -> None:
        producers = Producers(settings(broker), bytes_max=50_000)
        most_bytes = 0

        async def watch() -> None:
            nonlocal most_bytes
            while True:
                most_bytes = max(most_bytes, producers.budget.used_bytes)
                await asyncio.sleep(0)

        watching = asyncio.ensure_future(watch())
        requests = [[OutgoingRecord(None, b"x" * 1000) for _ in range(20)] for _ in range(40)]
        outcomes = await asyncio.gather(*(producers.produce("waits", each) for each in requests))
        watching.cancel()
        assert sorted(each.offset for request in outcomes for each in request) == list(range(800))  # type: ignore[union-attr]
        assert 0 < most_bytes <= 50_000
        await producers.close()

    in_time(run)


def test_a_request_that_is_given_up_does_not_keep_its_memory(broker: Broker):
    async def run() -> None:
        producers = Producers(settings(broker), bytes_max=MIB)
        await producers.produce("given-up", [OutgoingRecord(None, b"first")])
        task = asyncio.ensure_future(  # noqa: RUF006
            producers.produce("given-up", [OutgoingRecord(None, b"x" * 100) for _ in range(5000)])
        )
        while not producers.budget.used_bytes:  # noqa: ASYNC110
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        while producers.budget.used_bytes:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        last = await producers.produce("given-up", [OutgoingRecord(None, b"last")])
        assert last == [Delivered(0, 5001, last[0].timestamp_ms)]  # type: ignore[union-attr]
        await producers.close()

    in_time(run)


def test_what_cannot_be_tried_is_one_problem(broker: Broker):
    async def run() -> None:
        producers = Producers(settings(broker), bytes_max=MIB)
        with pytest.raises(KafkaProblem) as invalid:
            await producers.produce("no good name!", [OutgoingRecord(None, b"x")])
        assert invalid.value.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        await producers.close()
        nowhere = Producers({"bootstrap.servers": "127.0.0.1:1"}, bytes_max=1000, wait_seconds=0)
        assert nowhere.budget.try_take(1000)
        nowhere.topics._known["t"] = (1, float("inf"))
        with pytest.raises(KafkaProblem, match="in use for"):
            await nowhere.produce("t", [OutgoingRecord(None, b"x")])
        await nowhere.close()

    in_time(run)


def test_a_record_that_is_too_large_fails_alone(broker: Broker):
    async def run() -> None:
        producers = Producers(settings(broker), bytes_max=8 * MIB)
        small, large = await producers.produce(
            "sizes", [OutgoingRecord(None, b"x"), OutgoingRecord(None, b"x" * (2 * MIB))]
        )
        assert isinstance(small, Delivered)
        assert isinstance(large, KafkaProblem)
        assert large.error_code == ErrorCode.MESSAGE_TOO_LARGE
        await producers.close()

    in_time(run)
