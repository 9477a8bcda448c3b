"""A client that has left: what its request held is free at once, and nothing counts as received by it."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.services.http.context import CLIENT_IS_GONE
from moldau.services.kafka.byte_budget import ByteBudget
from moldau.services.kafka.producing import Producers
from moldau.services.kafka.reading import Readers
from moldau.services.rest.embedded import Format
from moldau.services.rest.v2.consumers import RecordsResponse
from moldau.services.rest.v2.fields import Place
from moldau.services.rest.v2.reading import ReadRequest, Records, read

LIMIT_SECONDS = 60.0


class FakeInstance:
    """An instance whose records were returned by a read before, and whose rewind waits."""

    def __init__(self) -> None:
        self.read_turn = asyncio.Lock()
        self.reads = 1
        self.did: list[Any] = []
        self.may_rewind = asyncio.Event()

    def is_assigned(self) -> bool:
        return True

    async def seek_unsent(self) -> None:
        pass

    def store_returned(self) -> None:
        self.did.append("store")

    async def rewind(self, first: dict[Place, int], reads: int) -> None:
        self.did.append(("rewind", first, reads))
        await self.may_rewind.wait()


def run(main: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            await main

    asyncio.run(bounded())


def test_a_read_whose_client_left_before_its_turn_is_none() -> None:
    """Else the response before it, which is not sent yet, would count as processed and not be read again."""

    async def main() -> None:
        instance: Any = FakeInstance()
        instances: Any = SimpleNamespace(unsent=ByteBudget(10))
        wanted = ReadRequest(Format.JSON, 1000, 1000, gone=lambda: True)
        with pytest.raises(ConnectionResetError):
            await read(instances, instance, wanted)
        assert instance.did == []
        assert instance.reads == 1

    run(main())


def test_the_bytes_of_a_response_that_cannot_be_sent_are_free_before_its_records_are_sought() -> None:
    async def main() -> None:
        instance: Any = FakeInstance()
        unsent = ByteBudget(100)
        unsent.charge(60)
        first = {Place("t", 0): 5}
        found = Records(texts=[b"x" * 50], text_bytes=50, held_bytes=60, first=first, reads=1)
        instances: Any = SimpleNamespace(unsent=unsent)
        response = RecordsResponse(instances, instance, found, "application/json")

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                raise ConnectionResetError("the client has gone")

        sending = asyncio.ensure_future(response({}, None, send))  # type: ignore[arg-type]
        while not instance.did:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert instance.did == [("rewind", first, 1)]
        assert unsent.used_bytes == 0
        assert not found.texts
        instance.may_rewind.set()
        with pytest.raises(ConnectionResetError):
            await sending
        assert unsent.used_bytes == 0

    run(main())


def test_records_that_waited_for_room_are_not_written_for_a_client_that_has_left() -> None:
    async def main() -> None:
        producers = Producers({"bootstrap.servers": "127.0.0.1:1"}, bytes_max=1000)

        async def partitions(topic: str, *, newer: bool = False) -> int:
            return 1

        sizes = producers.topics
        producers.topics = SimpleNamespace(partitions=partitions)  # type: ignore[assignment]
        assert producers.budget.try_take(1000)
        CLIENT_IS_GONE.set(lambda: True)
        writing = asyncio.ensure_future(producers.begin("t", [(None, b"1", None, None, ())]))
        while producers.budget.try_take(0):  # noqa: ASYNC110 - nobody waits yet
            await asyncio.sleep(0)
        producers.budget.give_back(1000)
        with pytest.raises(ConnectionResetError):
            await writing
        assert producers.budget.used_bytes == 0
        producers.topics = sizes
        await producers.close()

    run(main())


def test_records_that_found_room_at_once_are_written_for_a_client_that_has_half_closed() -> None:
    """It looks as if it had left, and has only said that it sends no more."""

    async def main() -> None:
        producers = Producers({"bootstrap.servers": "127.0.0.1:1"}, bytes_max=1000)

        async def partitions(topic: str, *, newer: bool = False) -> int:
            return 1

        sent: list[Any] = []

        async def send(producer: Any, topic: str, records: Any, batch: Any, *rest: Any) -> None:
            sent.extend(records)
            batch.settle(0, "written")

        sizes = producers.topics
        producers.topics = SimpleNamespace(partitions=partitions)  # type: ignore[assignment]
        producers._send = send  # type: ignore[method-assign]
        CLIENT_IS_GONE.set(lambda: True)
        record = (None, b"1", None, None, ())
        assert await producers.produce("t", [record]) == ["written"]
        assert sent == [record]
        assert producers.budget.used_bytes == 0
        producers.topics = sizes
        await producers.close()

    run(main())


class FakeConsumer:
    """Notes what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def unassign(self) -> None:
        self.told.append("unassign")

    def consume(self, *told: Any) -> list[Any]:
        return []

    def close(self) -> None:
        self.told.append("close")


def test_a_reader_that_is_made_for_a_client_that_left_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end, consumer = threading.Event(), threading.Event(), FakeConsumer()

    def assigned(readers: Readers, *told: Any) -> FakeConsumer:
        begun.set()
        assert may_end.wait(LIMIT_SECONDS)
        return consumer

    monkeypatch.setattr(Readers, "_assigned", assigned)

    async def main() -> None:
        readers = Readers({"bootstrap.servers": "127.0.0.1:1"})
        opening = asyncio.ensure_future(readers.open("t", {0: 5}))
        await asyncio.to_thread(begun.wait, LIMIT_SECONDS)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert readers.open_count == 1, "its client is still being made"
        may_end.set()
        while readers.open_count:  # noqa: ASYNC110 - the pool's thread says when
            await asyncio.sleep(0.01)
        await readers.close()
        assert consumer.told == ["unassign", "close"]

    run(main())


def test_a_delivery_report_that_fails_does_not_end_the_thread_of_all_reports() -> None:
    """Else no request that writes would be answered any more."""

    class Failing:
        """Raises once, as librdkafka's client does when a callback raises."""

        def __init__(self) -> None:
            self.polls = 0
            self.polled_again = threading.Event()

        def poll(self, seconds: float) -> int:
            self.polls += 1
            if self.polls == 1:
                raise RuntimeError("the loop is closed")
            self.polled_again.set()
            return 0

        def flush(self, seconds: float) -> int:
            return 0

        def purge(self) -> None:
            pass

    async def main() -> None:
        producers = Producers({"bootstrap.servers": "127.0.0.1:1"}, bytes_max=1 << 20)
        try:
            real, failing = producers._producer, Failing()
            producers._closing.set()
            await asyncio.to_thread(producers._thread.join)
            producers._closing.clear()
            producers._producer = failing  # type: ignore[assignment]
            producers._thread = threading.Thread(target=producers._poll)
            producers._thread.start()
            assert await asyncio.to_thread(failing.polled_again.wait, LIMIT_SECONDS)
            producers._producer = real
        finally:
            await producers.close()

    run(main())
