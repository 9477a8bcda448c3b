"""The record batch, Kafka's unit of storage and transfer (magic 2, KIP-98): its header, its checksum, and
walking over several.

    | base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | last offset delta 4 |
    | base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4 | count 4 |
    | records ...

The length counts what follows it; the crc (crc32c) covers everything from the attributes on. The first three
fields lie before what the crc covers, so a broker places a batch into its log by overwriting 16 bytes and
leaving the rest as it came.

HOT: `HEADER` and `POSITION` are used directly by log/, within the append's budget (bench/hot_path.py).

Not here: single records (record.py), compression (compression.py), building batches (builder.py), control
records (control.py). The formats before magic 2 are refused, as in Kafka 4.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import TypeAlias

from moldau.common.core.crc import crc32c
from moldau.common.records import compression
from moldau.common.records.record import Record, decode_records

Readable: TypeAlias = bytes | bytearray | memoryview

HEADER = struct.Struct(">qiibIhiqqqhii")
"""base offset, length, leader epoch, magic, crc, attributes, last offset delta, base timestamp, max
timestamp, producer id,
producer epoch, base sequence, count."""
HEADER_BYTES = 61
POSITION = struct.Struct(">qii")
"""The first three fields: what a broker may overwrite without touching the crc."""
POSITION_BYTES = 16
LENGTH_OVERHEAD = 12
"""The size of a batch in bytes is its length field plus this."""
LENGTH_MIN = HEADER_BYTES - LENGTH_OVERHEAD
MAGIC_OFFSET = 16
CRC = struct.Struct(">I")
CRC_OFFSET = 17
CRC_START = 21
ATTRIBUTES = struct.Struct(">h")
MAX_TIMESTAMP = struct.Struct(">q")
MAX_TIMESTAMP_OFFSET = 35
BASE_TIMESTAMP_OFFSET = 27
MAGIC = 2
RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, absent key, absent value, no headers: a byte each."""

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

assert HEADER.size == HEADER_BYTES


class CorruptBatch(ValueError):
    """The bytes are not a complete, undamaged batch of magic 2."""


class TimestampType(IntEnum):
    """The source of a record's timestamp: its producer (CreateTime), or the broker (LogAppendTime)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchView:
    """One batch inside a buffer: its header fields, decoded, and its records on demand. Nothing is copied."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp_ms",
        "count",
        "crc",
        "data",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp_ms",
        "producer_epoch",
        "producer_id",
    )

    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    def __init__(self, data: Readable) -> None:
        """`data` is exactly one batch; CorruptBatch when its length or magic says otherwise. The crc is not
        checked.
        """
        if len(data) < HEADER_BYTES:
            raise CorruptBatch(f"a batch needs at least {HEADER_BYTES} bytes, and {len(data)} are left")
        (
            self.base_offset,
            length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp_ms,
            self.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = HEADER.unpack_from(data)
        if self.magic != MAGIC:
            raise CorruptBatch(f"magic {self.magic} instead of {MAGIC}")
        if length + LENGTH_OVERHEAD != len(data):
            raise CorruptBatch(
                f"the length field says {length + LENGTH_OVERHEAD} bytes, and there are {len(data)}"
            )
        self.data = data

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return len(self.data)

    @property
    def last_offset(self) -> int:
        """The offset of the batch's last record (also when compaction has removed that record)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset that follows the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; it wraps from 2^31 - 1 to 0."""
        return last_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        """The number of the compression codec; see compression.py."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """The source of the records' timestamps."""
        return (
            TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME
        )

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records, which consumers do not see."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones and markers (KIP-534); stored in the base
        timestamp.
        """
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON else None

    def crc_is_valid(self) -> bool:
        """Whether the crc matches."""
        return bool(crc32c(memoryview(self.data)[CRC_START:]) == self.crc)

    def payload(self, size_max: int = compression.DECOMPRESSED_BYTES_MAX) -> Readable:
        """The encoded records, decompressed. CorruptBatch if damaged, or larger than `size_max` bytes."""
        body = memoryview(self.data)[HEADER_BYTES:]
        if not self.attributes & CODEC_MASK:
            return body
        try:
            return compression.decompress(self.codec, body, size_max)
        except compression.CompressionFailure as error:
            raise CorruptBatch(f"the records cannot be decompressed: {error}") from error

    def records(self, size_max: int = compression.DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
        """The records. CorruptBatch if they do not match the header or are cut off."""
        append_time_ms = self.max_timestamp_ms if self.attributes & LOG_APPEND_TIME else None
        try:
            yield from decode_records(
                self.payload(size_max), self.count, self.base_offset, self.base_timestamp_ms, append_time_ms
            )
        except CorruptBatch:
            raise
        except ValueError as error:
            raise CorruptBatch(str(error)) from error

    def __repr__(self) -> str:
        return (
            f"BatchView(offsets {self.base_offset}-{self.last_offset}, {self.count} records, "
            f"{self.size_bytes} bytes, codec {self.codec}, leader_epoch {self.leader_epoch}, "
            f"producer {self.producer_id}/{self.producer_epoch})"
        )


def iter_batches(data: Readable, *, allow_partial_tail: bool = False) -> Iterator[BatchView]:
    """The batches of `data`, which follow each other.

    CorruptBatch for an impossible header, and for an incomplete last batch (which a fetch with a byte limit
    may have) unless `allow_partial_tail`.
    """
    view = memoryview(data)
    position, end = 0, len(view)
    while position < end:
        if end - position < HEADER_BYTES:
            if allow_partial_tail:
                return
            raise CorruptBatch(f"{end - position} bytes are left, fewer than a header")
        size = batch_size_bytes(view, position)
        if position + size > end:
            if allow_partial_tail:
                return
            raise CorruptBatch(f"a batch of {size} bytes breaks off after {end - position}")
        yield BatchView(view[position : position + size])
        position += size


def batch_size_bytes(data: Readable, position: int) -> int:
    """The size of the batch whose header begins at `position`, by its length field; CorruptBatch when it is
    impossible.
    """
    length: int = POSITION.unpack_from(data, position)[1]
    if length < LENGTH_MIN:
        raise CorruptBatch(f"the length field says {length}, less than an empty batch has")
    return length + LENGTH_OVERHEAD


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """The sequence number `last_offset_delta` records later; it wraps from 2^31 - 1 to 0."""
    return (base_sequence + last_offset_delta) & 0x7FFFFFFF if base_sequence >= 0 else NO_SEQUENCE


def place(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into the header; the crc does not cover them."""
    POSITION.pack_into(batch, 0, base_offset, len(batch) - LENGTH_OVERHEAD, leader_epoch)


def stamp_append_time(batch: bytearray | memoryview, append_time_ms: int) -> None:
    """Set the broker's append time (LogAppendTime), and the crc."""
    attributes = ATTRIBUTES.unpack_from(batch, CRC_START)[0] | LOG_APPEND_TIME
    ATTRIBUTES.pack_into(batch, CRC_START, attributes)
    MAX_TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_OFFSET, append_time_ms)
    seal(batch)


def set_max_timestamp(batch: bytearray | memoryview, max_timestamp_ms: int) -> None:
    """Correct the header's maximum timestamp, and the crc."""
    MAX_TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_OFFSET, max_timestamp_ms)
    seal(batch)


def seal(batch: bytearray | memoryview) -> None:
    """Compute the crc and write it into the header."""
    CRC.pack_into(batch, CRC_OFFSET, crc32c(memoryview(batch)[CRC_START:]))
