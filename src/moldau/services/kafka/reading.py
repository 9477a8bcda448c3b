"""Reads records of a topic without a consumer group: from positions that the caller holds.

    reader = await readers.open("orders", {0: 17, 1: 0})
    records = await reader.next(records_max=100, wait_seconds=1.0)
    await reader.close()

A reader is a client of Kafka that is assigned the partitions; it prefetches little, and fetches nothing while
nobody asks for the next records. Its blocking calls run in threads. The number of readers is limited; those
that are closed are kept for a moment, since a new one must first find its brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from moldau.client.librdkafka_settings import client_settings, create
from moldau.common.core.message_headers import message_headers
from moldau.services.kafka.byte_budget import ByteBudget
from moldau.services.kafka.librdkafka_errors import problem_in, problem_of

log = logging.getLogger("moldau.rest")

READERS_MAX = 100
IDLE_KEPT = 4
_ERRORS_IGNORED = (
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)
_DEFAULTS: Mapping[str, Any] = {
    "client.id": "moldau-rest",
    "group.id": "moldau-rest-readers",  # librdkafka wants one; nothing is committed
    "fetch.wait.max.ms": "500",
    "fetch.message.max.bytes": "262144",
    "fetch.max.bytes": "1048576",
    "queued.min.messages": "1000",
    "queued.max.messages.kbytes": "512",
    "fetch.queue.backoff.ms": "10",
    "log.connection.close": "false",
}
_REQUIRED: Mapping[str, Any] = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "earliest",  # retention may overtake a slow reader
}


AHEAD_BYTES = 1536 * 1024
"""What a reader may fetch ahead: a queue and a response on top (`_DEFAULTS`). It counts while it is open."""
READ_BYTES_MAX = 256 * 1024


_MESSAGE_BYTES = 64


class TooManyReaders(Exception):
    """Another reader would be one too many."""


class ReadRecord(NamedTuple):
    """A record as it was read. `timestamp_ms` is None where the topic keeps none."""

    partition: int
    offset: int
    timestamp_ms: int | None
    is_log_append_time: bool
    headers: Sequence[tuple[str, bytes | None]]
    key: bytes | None
    value: bytes | None

    @property
    def size_bytes(self) -> int:
        """The bytes of key, value and headers."""
        size = len(self.key or b"") + len(self.value or b"")
        return size + sum(len(name) + len(value or b"") for name, value in self.headers)


class Reader:
    """Reads some partitions of one topic in turn; not for two callers at once."""

    def __init__(self, readers: Readers, consumer: Consumer, positions: dict[int, int]) -> None:
        self.positions = positions
        """The offset of the next record, by partition; moves over records that were returned."""
        self._readers = readers
        self._consumer = consumer
        self._calling: asyncio.Future[list[Message]] | None = None

    async def next(self, records_max: int, wait_seconds: float) -> list[ReadRecord]:
        """Some records, not many more than READ_BYTES_MAX; none if there are none for a while, or if an end
        was reached. KafkaProblem."""
        self._calling = asyncio.get_running_loop().run_in_executor(
            self._readers.pool, _consumed, self._consumer, records_max, wait_seconds
        )
        found = []
        for message in await asyncio.shield(self._calling):
            error = message.error()
            if error is not None:
                self._judge(error, message)
                continue
            record = _record(message)
            self.positions[record.partition] = record.offset + 1
            found.append(record)
        return found

    def _judge(self, error: KafkaError, message: Message) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            partition, offset = int(message.partition() or 0), int(message.offset() or 0)
            if partition in self.positions:
                # Beyond the last record there may be transaction markers, which are offsets too.
                self.positions[partition] = max(self.positions[partition], offset)
        elif error.fatal() or not (error.retriable() or error.code() in _ERRORS_IGNORED):
            raise problem_of(error)

    async def close(self) -> None:
        """End reading; the client is kept for the next reader, or closed."""
        if self._calling is not None and not self._calling.done():
            await asyncio.wait([self._calling])
        await asyncio.shield(asyncio.ensure_future(self._readers.take_back(self._consumer)))


class Readers:
    """Opens readers; for one event loop."""

    def __init__(
        self, settings: Mapping[str, str], readers_max: int = READERS_MAX, unsent: ByteBudget | None = None
    ) -> None:
        """`settings` are a consumer's under Java's names; `unsent` counts what readers hold.
        CredentialsError: the settings are wrong."""
        self.readers_max = readers_max
        self.unsent = ByteBudget(readers_max * 2 * AHEAD_BYTES) if unsent is None else unsent
        self.open_count = 0
        self.pool = ThreadPoolExecutor(readers_max + IDLE_KEPT, thread_name_prefix="rest-reader")
        self._settings = {**client_settings(settings, _DEFAULTS), **_REQUIRED}
        self._idle: list[Consumer] = []
        self._closed = False
        self._ending: set[asyncio.Future[None]] = set()

    async def open(self, topic: str, positions: Mapping[int, int]) -> Reader:
        """A reader at these offsets, by partition. TooManyReaders, KafkaProblem."""
        if self.open_count >= self.readers_max or not self.unsent.try_stand(AHEAD_BYTES):
            raise TooManyReaders
        self.open_count += 1
        consumer = self._idle.pop() if self._idle else None
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(self.pool, self._assigned, consumer, topic, dict(positions))
        try:
            found = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._take_back_unused)
            raise
        except BaseException:
            self._count_closed()
            raise
        return Reader(self, found, dict(positions))

    def _take_back_unused(self, opening: asyncio.Future[Consumer]) -> None:
        """The request for which this client was made has left meanwhile."""
        if opening.cancelled() or opening.exception() is not None:
            self._count_closed()
            return
        ending = asyncio.ensure_future(self.take_back(opening.result()))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _assigned(self, consumer: Consumer | None, topic: str, positions: dict[int, int]) -> Consumer:
        try:
            made = create(self._create, self._settings) if consumer is None else consumer
            made.assign([TopicPartition(topic, each, offset) for each, offset in positions.items()])
        except KafkaException as failed:
            raise problem_in(failed) from None
        return made

    @staticmethod
    def _create(settings: dict[str, Any]) -> Consumer:
        return Consumer(settings, logger=log)

    async def take_back(self, consumer: Consumer) -> None:
        """Keep or close the client of a reader that ended."""
        self._count_closed()
        loop = asyncio.get_running_loop()
        if not self._closed and len(self._idle) < IDLE_KEPT:
            try:
                await loop.run_in_executor(self.pool, _unassign, consumer)
            except KafkaException:
                pass
            else:
                self._idle.append(consumer)
                return
        await loop.run_in_executor(self.pool, consumer.close)

    def _count_closed(self) -> None:
        self.open_count -= 1
        self.unsent.end_standing(AHEAD_BYTES)

    async def close(self) -> None:
        """Close the clients that are kept; open readers are closed by who has them."""
        self._closed = True
        await asyncio.gather(*self._ending)
        idle, self._idle = self._idle, []
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self.pool, each.close) for each in idle))
        self.pool.shutdown(wait=False)


def _consumed(consumer: Consumer, records_max: int, wait_seconds: float) -> list[Message]:
    """Wait for a first message, and take what else is there. librdkafka fetches on while messages are taken:
    a hundred of a megabyte each would be a hundred megabytes.
    """
    found = consumer.consume(1, wait_seconds)
    largest = size_bytes = _size_of(found)
    while found and len(found) < records_max and size_bytes < READ_BYTES_MAX:
        more_max = max(1, (READ_BYTES_MAX - size_bytes) // (2 * largest + _MESSAGE_BYTES))
        more = consumer.consume(min(records_max - len(found), more_max), 0)
        if not more:
            break
        found += more
        more_bytes = _size_of(more)
        size_bytes += more_bytes
        largest = max(largest, more_bytes // len(more))
    return found


def _size_of(messages: Sequence[Message]) -> int:
    return sum(len(each) + len(each.key() or b"") for each in messages if each.error() is None)


def _unassign(consumer: Consumer) -> None:
    consumer.unassign()
    consumer.consume(1000, 0)  # what was queued before


def _record(message: Message) -> ReadRecord:
    fields: Any = message  # the fields of a record that was fetched are there
    kind, timestamp_ms = fields.timestamp()
    return ReadRecord(
        fields.partition(),
        fields.offset(),
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        kind == TIMESTAMP_LOG_APPEND_TIME,
        message_headers(message),
        fields.key(),
        fields.value(),
    )
