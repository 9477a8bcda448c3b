"""The shortcut for a producer's repeated requests to one partition.

Such a request differs from the one before it in the correlation id and the records only. So the first one is
decoded and remembered, with its partition and the bytes of its response; of a later frame that begins with
the same bytes only the records' size is decoded, and its response is one `pack`.

    request  | head | correlation id | prefix: client id, acks, timeout, topic, index | size | records | 0.. |
    answer   | size | correlation id | topic, index, error 0 | base offset 8 | time 8 | log start 8 | 0.. |

Anything unusual (an error, a partition that moved) goes through produce.py. The shortcut holds
for the session as it was: Dispatch.request (server/dispatch.py) drops it when the session's version is
another one, so the client id, the principal and its rights are those of the request that was decoded.

Hot: with the connection this is all that a small Produce request costs beside the log. Budget, log included:
7 reference loops (bench/hot_path.py).
"""

import struct
from collections.abc import Mapping

from moldau.broker.handlers.apis.produce.produce_request import (
    RECORD_ERRORS_MAX,
    refusal_message,
    uncommitted_message,
)
from moldau.broker.handlers.apis.produce.produce_transactional import is_open
from moldau.broker.handlers.parts import current_leader
from moldau.broker.handlers.parts.broker import Broker
from moldau.broker.handlers.parts.current_leader import tells_leaders
from moldau.broker.handlers.parts.exchange import COUNTED_BYTES, Exchange, Slot
from moldau.broker.log.log import AppendResult, Deferred
from moldau.broker.replication.partition import Partition
from moldau.common.protocol.hot_produce import PartitionAnswer, ProduceTopic, encode_produce_response
from moldau.common.protocol.hot_wire import frame_answer
from moldau.common.protocol.repeat import CORRELATION_AT, HEAD_AT, PREFIX_AT, TRAILING_TAGS, make_repeat
from moldau.common.protocol.wire import uvarint as write_uvarint
from moldau.common.records.batch import CODEC_MASK, CRC_START, TRANSACTIONAL
from moldau.common.records.packed_records import PACKED_BYTES_MAX, loop_limits

_FLEXIBLE_FROM = 9
_LOG_START_OFFSET_FROM = 5
_OFFSETS_BYTES = 24
_SPARE_MAX = 8
_PREFIX_BYTES_MAX = 4096  # it is kept for as long as the connection lives
_PRODUCE = 0
_ATTRIBUTES_AT = CRC_START + 1  # their lower byte
_SAMPLED = 16  # one request in so many is timed, and counts for all of them


def remember(
    broker: Broker,
    exchange: Exchange,
    frame: memoryview,
    version: int,
    topic: ProduceTopic,
    partitions: Mapping[bytes, Mapping[int, Partition]],
    acks: int,
    timeout_ms: int,
    *,
    transactional: bool,
) -> None:
    """Set the exchange's shortcut, if this frame, to a single partition, may be repeated."""
    key, ((index, records),) = topic
    if version < _LOG_START_OFFSET_FROM or acks == 0 or records is None:
        return
    trailing_bytes = 4
    if version >= _FLEXIBLE_FROM:
        if frame[-3:] != TRAILING_TAGS:
            return
        trailing_bytes = 3 + len(write_uvarint(len(records) + 1))
    prefix_end = len(frame) - len(records) - trailing_bytes
    if prefix_end > _PREFIX_BYTES_MAX:
        return
    exchange.shortcut = RepeatedProduce(
        broker,
        frame,
        prefix_end,
        version,
        key,
        partitions[key][index],
        acks,
        timeout_ms,
        exchange.session.version,
        transactional,
    )


class RepeatedProduce:
    """The shortcut of one connection: the decoded request, its partition and its response."""

    __slots__ = (
        "_acks",
        "_broker",
        "_count",
        "_flexible",
        "_now_ms",
        "_timeout_ms",
        "_transactional",
        "_uses",
        "_verifications",
        "key",
        "middle",
        "now_us",
        "pack",
        "partition",
        "repeat",
        "session_version",
        "size_bytes",
        "spare",
        "tail",
        "times",
        "version",
    )

    def __init__(
        self,
        broker: Broker,
        frame: memoryview,
        prefix_end: int,
        version: int,
        key: bytes,
        partition: Partition,
        acks: int,
        timeout_ms: int,
        session_version: int,
        transactional: bool = False,
    ) -> None:
        """`frame` is the request without its size field; the records' size stands at `prefix_end` in it."""
        flexible = version >= _FLEXIBLE_FROM
        head, prefix = frame[: CORRELATION_AT - HEAD_AT], frame[PREFIX_AT - HEAD_AT : prefix_end]
        self.repeat = make_repeat(bytes(head), bytes(prefix), flexible)
        self.partition = partition
        self.session_version = session_version
        self.version = version
        self.key = key
        self._broker = broker
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._transactional = transactional
        self._verifications = broker.verifications
        self._uses = 0
        self.times = broker.request_times.of(_PRODUCE)
        self.now_us = broker.request_times.now_us
        self.spare: list[_RepeatedSlot] = []
        self._flexible = flexible
        self._now_ms = broker.clock.now_ms
        self._count = broker.request_counts.of(_PRODUCE, version)
        row = (partition.index, 0, -1, -1, -1, None)
        answer = frame_answer(0, self._flexible, encode_produce_response(version, [(key, [row])]))
        # The answer's offsets are the only run of 24 bytes 0xff in it that ends a fixed distance before its
        # end.
        tail_bytes = len(answer) - answer.rindex(b"\xff" * _OFFSETS_BYTES) - _OFFSETS_BYTES
        self.tail = answer[len(answer) - tail_bytes :]
        self.middle = answer[8 : len(answer) - tail_bytes - _OFFSETS_BYTES]
        self.size_bytes = len(answer) - 4
        self.pack = struct.Struct(f">ii{len(self.middle)}sqqq{tail_bytes}s").pack

    def serve(self, exchange: Exchange, view: memoryview, position: int, end: int) -> bool:
        """Append the frame's records; its answer is parked until they are committed."""
        found = self.repeat.match(view, position, end)
        if found is None:
            return False
        correlation_id, start, stop = found
        partition = self.partition
        if not partition.writable:
            exchange.shortcut = None
            return False
        records = view[start:stop]
        if (
            len(records) > PACKED_BYTES_MAX
            and (codec := records[_ATTRIBUTES_AT] & CODEC_MASK)
            and len(records) > loop_limits(codec)[0]
        ):
            return False  # it is to be unpacked in a worker thread: produce.py puts it off
        if (
            len(records) > _ATTRIBUTES_AT
            and records[_ATTRIBUTES_AT] & TRANSACTIONAL
            and not (
                self._transactional
                and is_open(partition, records)
                and not self._verifications.has_queue(partition, records)
            )
        ):
            return False
        result = partition.append(records, self._now_ms(), self._acks)
        error_code = result.error_code
        if error_code and isinstance(result, Deferred):
            return False  # nothing has happened yet
        self._count.value += 1
        partition.stats.produces += 1
        slot = self.spare.pop() if self.spare else _RepeatedSlot(exchange, self)
        slot.filled = False
        slot.correlation_id = correlation_id
        slot.result = result
        self._uses += 1
        slot.began_us = self.now_us() if self._uses % _SAMPLED == 0 else 0
        exchange.queue.append(slot)
        if error_code:
            partition.stats.failed_produces += 1
            slot.fill(self.refusal(slot))
        else:
            size_bytes = stop - start
            if size_bytes > COUNTED_BYTES and self._acks == -1 and partition.leads_followers:
                slot.waiting_bytes = size_bytes
                exchange.begin_waiting(size_bytes)
            partition.wait_for(result.last_offset + 1, slot, self._acks, self._timeout_ms)
        return True

    def refusal(self, slot: "_RepeatedSlot", error_code: int = 0) -> bytes:
        """The error response: the append's refusal, or `error_code` when the write was rolled back."""
        result = slot.result
        index = self.partition.index
        row: PartitionAnswer = (index, error_code, -1, -1, -1, uncommitted_message(error_code))
        if result.error_code:
            message = refusal_message(result, RECORD_ERRORS_MAX)
            row = (index, result.error_code, -1, -1, result.log_start_offset, message)
        rows = [(self.key, [row])]
        if tells_leaders(self.version, (row,)):
            listener = slot.exchange.session.listener
            body = current_leader.encode_produce_response(self._broker, listener, self.version, rows)
        else:
            body = encode_produce_response(self.version, rows)
        return frame_answer(slot.correlation_id, self._flexible, body)


class _RepeatedSlot(Slot):
    """The slot of one such answer, which also waits for the commit."""

    __slots__ = ("began_us", "correlation_id", "result", "shortcut", "waiting_bytes")

    result: AppendResult

    def __init__(self, exchange: Exchange, shortcut: RepeatedProduce) -> None:
        super().__init__(exchange)
        self.shortcut = shortcut
        self.correlation_id = 0
        self.began_us = 0
        self.waiting_bytes = 0

    def settle(self, error_code: int, partition: Partition) -> None:
        """The records are committed (0), or lost."""
        shortcut = self.shortcut
        if self.waiting_bytes:
            self.exchange.end_waiting(self.waiting_bytes, replicated=not error_code)
            self.waiting_bytes = 0
        if error_code:
            self.fill(shortcut.refusal(self, error_code))
            return
        result = self.result
        self.parts = shortcut.pack(
            shortcut.size_bytes,
            self.correlation_id,
            shortcut.middle,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
            shortcut.tail,
        )
        self.filled = True
        self.exchange.slot_filled()
        if self.began_us:
            shortcut.times.observe(shortcut.now_us() - self.began_us, _SAMPLED)
        # Only a slot that has left the queue, with its answer, may be used again.
        if self.parts is None and len(shortcut.spare) < _SPARE_MAX:
            shortcut.spare.append(self)
