"""A transactional producer on a raw socket that never waits longer than it must: what of a stream's
throughput the broker itself takes for transactions, without what a client library does between them.

    batches, a few in flight | last answer | EndTxn | AddPartitionsToTxn | batches ...
                                           |<------- the pause ------->|

Ready-made batches of one producer; sequence number and crc are written into each before it is sent, with
transactions and without.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass

import crc32c

from bench import wire
from bench.client import Connection, RequestFailed

FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 10, 22, 24, 26
TRANSACTIONAL = 0x10
_ERROR_AT = 12
_CRC_AT, _ATTRIBUTES_AT, _PRODUCER_AT, _COUNT_AT = 17, 21, 43, 57
_NOT_READY = frozenset({14, 15, 16, 51})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS."""
_RETRY_SECONDS = 0.001
_PATIENCE_SECONDS = 60.0
_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class TransactionalLoad:
    """Payload bytes, how long they took, and of every commit the pause it made in the stream."""

    payload_bytes: int
    seconds: float
    pauses_s: list[float]


class Producer:
    """One producer with one topic's partition 0; transactional where it has an id."""

    def __init__(self, connection: Connection, topic: str, transactional_id: str | None) -> None:
        self._connection = connection
        self._topic = topic
        self._id = transactional_id
        self._sequence = 0
        self._error_at = wire.produce_error_at(topic)
        named = struct.pack(">h", -1)
        if transactional_id is not None:
            named = wire.string(transactional_id)
            self._call(FIND_COORDINATOR, named + b"\1", _ERROR_AT)
        answer = self._call(INIT_PRODUCER_ID, named + struct.pack(">i", _TIMEOUT_MS), _ERROR_AT)
        self._producer: tuple[int, int] = struct.unpack_from(">qh", answer, _ERROR_AT + 2)

    def _call(self, api_key: int, body: bytes, error_at: int) -> memoryview:
        """Version 1 of an API, again while the coordinator is not ready."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            answer = self._connection.call(wire.frame(api_key, 1, body))
            (error,) = struct.unpack_from(">h", answer, error_at)
            if not error:
                return answer
            if error not in _NOT_READY or time.monotonic() > deadline:
                raise RequestFailed(f"API {api_key}: error {error}")
            time.sleep(_RETRY_SECONDS)

    def begin(self) -> None:
        """Take the partition into a new transaction."""
        assert self._id is not None
        body = wire.string(self._id) + struct.pack(">qhi", *self._producer, 1) + wire.string(self._topic)
        error_at = _ERROR_AT + 4 + 2 + len(self._topic) + 4 + 4
        self._call(ADD_PARTITIONS, body + struct.pack(">ii", 1, 0), error_at)

    def commit(self) -> None:
        """End the transaction."""
        assert self._id is not None
        self._call(END_TXN, wire.string(self._id) + struct.pack(">qhb", *self._producer, 1), _ERROR_AT)

    def send(self, batch: bytearray) -> None:
        """Send the batch as this producer's next."""
        (count,) = struct.unpack_from(">i", batch, _COUNT_AT)
        struct.pack_into(">qhi", batch, _PRODUCER_AT, *self._producer, self._sequence)
        struct.pack_into(">h", batch, _ATTRIBUTES_AT, 0 if self._id is None else TRANSACTIONAL)
        struct.pack_into(">I", batch, _CRC_AT, crc32c.crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
        self._sequence += count
        named = struct.pack(">h", -1) if self._id is None else wire.string(self._id)
        body = named + struct.pack(">hii", -1, 30_000, 1) + wire.string(self._topic)
        body += struct.pack(">iii", 1, 0, len(batch))
        head = struct.pack(">hhih", wire.PRODUCE, 7, 1, len(wire.CLIENT_ID)) + wire.CLIENT_ID
        size = struct.pack(">i", len(head) + len(body) + len(batch))
        self._connection.socket.sendall(size + head + body)
        self._connection.socket.sendall(batch)

    def answered(self) -> None:
        """Wait for the oldest batch's answer."""
        answer = self._connection.receive()
        if answer[self._error_at] or answer[self._error_at + 1]:
            raise RequestFailed(f"Produce: {bytes(answer).hex()}")


def stream(
    port: int,
    topic: str,
    values: list[bytes],
    total_bytes: int,
    *,
    transactional_id: str | None = None,
    interval_s: float = 0.1,
    in_flight_max: int = 4,
) -> TransactionalLoad:
    """Produce the same batch until so many bytes are written, with a commit every `interval_s` where there
    is a transactional id.
    """
    batch = bytearray(wire.batch(values))
    count = max(1, total_bytes // len(batch))
    pauses: list[float] = []
    with Connection(port) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        producer = Producer(connection, topic, transactional_id)
        if transactional_id is not None:
            producer.begin()
        began = time.monotonic()
        due, sent, answered = began + interval_s, 0, 0
        while answered < count:
            in_time = transactional_id is None or time.monotonic() < due
            if in_time and sent < count and sent - answered < in_flight_max:
                producer.send(batch)
                sent += 1
                continue
            producer.answered()
            answered += 1
            if not in_time and sent == answered and sent < count:
                paused = time.monotonic()
                producer.commit()
                producer.begin()
                resumed = time.monotonic()
                pauses.append(resumed - paused)
                due = resumed + interval_s
        if transactional_id is not None:
            producer.commit()
        return TransactionalLoad(count * len(batch), time.monotonic() - began, pauses)
