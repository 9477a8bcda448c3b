"""Records to Kafka: one client of Kafka for all requests, so that requests share its batches.

    outcomes = await producers.produce("orders", [OutgoingRecord(key, value), ...])

Every record has its own outcome, in order: where it was written, or why not. The bytes of all records that
are on their way are bounded: a request that finds no room waits, and the client behind it is not read from.

An idempotent producer may end with a fatal error (its producer id was fenced, a sequence was lost); it is
then replaced, and only the records that were under way fail.

Not here: making bytes of JSON (the REST proxy has that), and what an error is called over HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from moldau.client.admin.problem import KafkaProblem
from moldau.client.librdkafka_settings import client_settings, create
from moldau.common.protocol.errors import ErrorCode
from moldau.services.http.context import CLIENT_IS_GONE
from moldau.services.kafka.byte_budget import ByteBudget
from moldau.services.kafka.librdkafka_errors import problem_in, problem_of
from moldau.services.kafka.topic_sizes import TopicSizes

log = logging.getLogger("moldau.rest")

ShapeT = TypeVar("ShapeT")

RECORD_OVERHEAD_BYTES = 200
"""What a record costs beside its bytes until it is delivered, roughly."""
_SLICE_RECORDS = 200
_MEASURED_RECORDS = 2_000
_UNDER_WAY_MAX = 5_000
"""Of one call: each has a callback, and Python's garbage collector looks at all of them on the event loop."""
_POLL_SECONDS = 0.1
_FULL_PAUSE_SECONDS = 0.01
_CLOSE_SECONDS = 5.0
_DEFAULTS: Mapping[str, Any] = {
    "client.id": "moldau-rest",
    "enable.idempotence": "true",
    "linger.ms": "0",
    "delivery.timeout.ms": "60000",
    "message.max.bytes": "1048576",
    "queue.buffering.max.messages": "10000000",
    "queue.buffering.max.kbytes": "2097151",
    "log.connection.close": "false",
}
"""The queue's limits are out of reach: the byte budget bounds what is in it."""


class OutgoingRecord(NamedTuple):
    """A record to be written. No timestamp: the moment of writing."""

    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


Headers = Sequence[tuple[str, bytes | None]]
Record = tuple[bytes | None, bytes | None, int | None, int | None, Headers]
"""An OutgoingRecord, or a plain tuple of its fields: of very many, Python's garbage collector soon leaves
plain tuples alone, but looks at named ones again and again."""


class Delivered(NamedTuple):
    """Where a record was written. `timestamp_ms` is None where the broker does not keep any."""

    partition: int
    offset: int
    timestamp_ms: int | None


Outcome = Delivered | KafkaProblem


class _Batch:
    """The records of one call; `done` runs in the client's thread, once for each."""

    def __init__(
        self, count: int, loop: asyncio.AbstractEventLoop, shape: Callable[[int, int, int | None], Any]
    ) -> None:
        self.outcomes: list[Any] = [None] * count
        self._shape = shape
        self.all_done: asyncio.Future[None] = loop.create_future()
        self.fatal = False
        self.failed_count = 0
        self._left = count
        self._count = count
        self._loop = loop
        self._lock = threading.Lock()

    def delivered(self, index: int, error: KafkaError | None, message: Message) -> None:
        """What librdkafka calls for a record."""
        if error is not None:
            self.fatal = self.fatal or error.fatal() or error.code() == KafkaError._FATAL
            self.settle(index, problem_of(error))
            return
        kind, timestamp_ms = message.timestamp()
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.settle(index, self._shape(partition, offset, timestamp_ms if kind else None))

    @property
    def settled_count(self) -> int:
        """How many records have an outcome."""
        return self._count - self._left

    def settle(self, index: int, outcome: Any) -> None:
        """Note a record's outcome."""
        self.outcomes[index] = outcome
        with self._lock:
            self.failed_count += isinstance(outcome, KafkaProblem)
            self._left -= 1
            last = self._left == 0
        if last:
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if not self.all_done.done():
            self.all_done.set_result(None)


class Producers:
    """Writes records for all requests of one event loop."""

    def __init__(
        self, settings: Mapping[str, str], *, bytes_max: int, wait_seconds: float | None = None
    ) -> None:
        """`settings` are a producer's under Java's names; CredentialsError, KafkaException if wrong."""
        self.budget = ByteBudget(bytes_max)
        self._settings = client_settings(settings, _DEFAULTS)
        self._wait_seconds = (
            int(settings.get("max.block.ms", "60000")) / 1000 if wait_seconds is None else wait_seconds
        )
        self._producer = self._create()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="rest-producer", daemon=True)
        self._thread.start()
        self.topics = TopicSizes(lambda: self._producer)
        self.records_delivered = 0
        self.records_failed = 0

    async def produce(self, topic: str, records: Sequence[Record]) -> list[Outcome]:
        """Write records; returns when each has an outcome, in their order. KafkaProblem as `begin`."""
        return await (await self.begin(topic, records))

    async def begin(self, topic: str, records: Sequence[Record]) -> asyncio.Future[list[Outcome]]:
        """As `begin_shaped`, with Delivered for each record that was written."""
        return await self.begin_shaped(topic, records, Delivered)

    async def begin_shaped(
        self,
        topic: str,
        records: Sequence[Record],
        shape: Callable[[int, int, int | None], ShapeT],
        *,
        freed: bool = False,
    ) -> asyncio.Future[list[ShapeT | KafkaProblem]]:
        """Write records; returns when all are queued for Kafka, with the future of their outcomes. `shape`
        makes one of partition, offset and timestamp, in another thread. `freed`: the list is emptied as its
        records are queued, so that the outcomes take their place.

        Whoever begins one call after the other has returned writes in that order. KafkaProblem if none could
        even be tried: an unknown topic (UNKNOWN_TOPIC_OR_PARTITION), no room in time (REQUEST_TIMED_OUT).
        ConnectionResetError: the client has left while its records waited for room; who asks again writes
        them once.
        """
        loop = asyncio.get_running_loop()
        outcomes: asyncio.Future[list[ShapeT | KafkaProblem]] = loop.create_future()
        if not records:
            outcomes.set_result([])
            return outcomes
        partitions = await self.topics.partitions(topic)
        size_bytes, highest = await _measured(records)
        if highest >= partitions:
            partitions = await self.topics.partitions(topic, newer=True)
        if not self.budget.try_take(size_bytes):
            await self._wait_for_room(size_bytes)
        batch, producer = _Batch(len(records), loop, shape), self._producer

        def done(_: asyncio.Future[None]) -> None:
            self.budget.give_back(size_bytes)
            if batch.fatal:
                self._replace(producer)
            self.records_failed += batch.failed_count
            self.records_delivered += len(batch.outcomes) - batch.failed_count
            if not outcomes.done():
                outcomes.set_result(batch.outcomes)

        batch.all_done.add_done_callback(done)
        await asyncio.shield(
            asyncio.ensure_future(self._send(producer, topic, records, batch, partitions, freed))
        )
        return outcomes

    async def _wait_for_room(self, size_bytes: int) -> None:
        """Take bytes of the budget once they are free. KafkaProblem, ConnectionResetError.

        Who left meanwhile may have asked again. Who has not waited has not: a client that has sent all and
        says so (a half close) looks as if it had left, and its records are written.
        """
        try:
            await self.budget.take(size_bytes, self._wait_seconds)
        except TimeoutError:
            raise KafkaProblem(
                int(ErrorCode.REQUEST_TIMED_OUT),
                f"The proxy's {self.budget.bytes_max} bytes for records on their way to Kafka were in use "
                f"for {self._wait_seconds:g} seconds.",
            ) from None
        if CLIENT_IS_GONE.get()():
            self.budget.give_back(size_bytes)
            raise ConnectionResetError("the client has gone")

    async def _send(
        self,
        producer: Producer,
        topic: str,
        records: Sequence[Record],
        batch: _Batch,
        partitions: int,
        freed: bool,
    ) -> None:
        for index, record in enumerate(records):
            if freed and isinstance(records, list):
                records[index] = None
            partition = record[2]
            if partition is not None and not 0 <= partition < partitions:
                batch.settle(index, _no_partition(topic, partition, partitions))
                continue
            while not self._enqueue(producer, topic, index, record, batch):  # noqa: ASYNC110
                await asyncio.sleep(_FULL_PAUSE_SECONDS)
            if index % _SLICE_RECORDS == _SLICE_RECORDS - 1:
                await asyncio.sleep(0)
                while index - batch.settled_count > _UNDER_WAY_MAX:  # noqa: ASYNC110
                    await asyncio.sleep(_FULL_PAUSE_SECONDS)

    def _enqueue(self, producer: Producer, topic: str, index: int, record: Record, batch: _Batch) -> bool:
        """Hand a record to librdkafka; False if its queue is full."""
        key, value, partition, timestamp_ms, headers = record
        optional: dict[str, Any] = {}
        if partition is not None:
            optional["partition"] = partition
        if timestamp_ms is not None:
            optional["timestamp"] = timestamp_ms
        if headers:
            optional["headers"] = list(headers)
        try:
            producer.produce(topic, value, key, on_delivery=partial(batch.delivered, index), **optional)
        except BufferError:
            return False
        except KafkaException as refused:
            batch.settle(index, problem_in(refused))
            batch.fatal = batch.fatal or refused.args[0].code() == KafkaError._FATAL
        return True

    def _create(self) -> Producer:
        return create(lambda settings: Producer(settings, logger=log), self._settings)

    def _replace(self, ended: Producer) -> None:
        if self._producer is ended:
            log.warning("the producer ended with a fatal error, and is replaced by a new one")
            self._producer = self._create()

    def _poll(self) -> None:
        """Has delivery reports handed out; also those of a producer that was replaced."""
        current = self._producer
        while not self._closing.is_set():
            try:
                current.poll(_POLL_SECONDS)
            except Exception:  # without this thread no record would be answered any more
                log.exception("a delivery report could not be handed out")
                self._closing.wait(_POLL_SECONDS)
            if current is not self._producer:
                current.flush(_CLOSE_SECONDS)
                current.purge()  # what still waits fails now: nobody would hear of it later
                current.flush(_CLOSE_SECONDS)
                current = self._producer

    async def close(self) -> None:
        """End; records that are not delivered within some seconds are given up."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._producer.flush(_CLOSE_SECONDS)
        self._closing.set()
        self._thread.join()
        self._producer.purge()
        self._producer.poll(0)
        self.topics.close()


async def _measured(records: Sequence[Record]) -> tuple[int, int]:
    """The bytes that records hold on their way, and the highest partition that one names; -1 if none does."""
    size_bytes, highest = RECORD_OVERHEAD_BYTES * len(records), -1
    for index, (key, value, partition, _, headers) in enumerate(records):
        size_bytes += len(key or b"") + len(value or b"")
        if headers:
            size_bytes += sum(len(name) + len(each or b"") for name, each in headers)
        if partition is not None and partition > highest:
            highest = partition
        if index % _MEASURED_RECORDS == _MEASURED_RECORDS - 1:
            await asyncio.sleep(0)
    return size_bytes, highest


def _no_partition(topic: str, partition: int, count: int) -> KafkaProblem:
    return KafkaProblem(
        int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        f"Partition {partition} of topic {topic}, which has {count} partitions, does not exist.",
    )
