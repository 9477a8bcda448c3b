"""Builds a batch from records: for internal topics, control markers, recompression, and tests.

Timestamps and offsets are stored as deltas to the first record's; the records' own offsets are used, so that
a batch with gaps (after compaction) can be built too.
"""

from collections.abc import Sequence

from moldau.common.core.crc import crc32c
from moldau.common.records.batch import (
    CONTROL,
    CRC,
    CRC_OFFSET,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    TimestampType,
)
from moldau.common.records.compression import CODEC_NUMBERS, compress
from moldau.common.records.record import Record, encode_record


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    compression: str = "none",
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = NO_LEADER_EPOCH,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    last_offset_delta: int | None = None,
) -> bytes:
    """The batch of these records, whose offsets must be ascending from `base_offset` on.

    `append_time_ms` is the maximum timestamp under LOG_APPEND_TIME. `last_offset_delta` may be given where
    records at the end are missing (compaction keeps a batch's offset range).
    """
    if not records and last_offset_delta is None:
        raise ValueError("a batch without records needs an explicit last_offset_delta")
    base_timestamp_ms = records[0].timestamp_ms if records else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        base_timestamp_ms = delete_horizon_ms
    payload = bytearray()
    for record in records:
        encode_record(record, record.offset - base_offset, record.timestamp_ms - base_timestamp_ms, payload)
    codec = CODEC_NUMBERS[compression]
    body = compress(codec, payload, compression_level) if codec else bytes(payload)
    attributes = codec
    if timestamp_type == TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
    if timestamp_type == TimestampType.LOG_APPEND_TIME and append_time_ms is not None:
        max_timestamp_ms = append_time_ms
    else:
        max_timestamp_ms = max((record.timestamp_ms for record in records), default=NO_TIMESTAMP)
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset - base_offset
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        HEADER_BYTES + len(body) - LENGTH_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch += body
    CRC.pack_into(batch, CRC_OFFSET, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def build_simple_batch(
    key_values: Sequence[tuple[bytes | None, bytes | None]], timestamp_ms: int, compression: str = "none"
) -> bytes:
    """A batch of records with one timestamp and offsets from 0, as coordinators append them."""
    records = [Record(index, timestamp_ms, key, value) for index, (key, value) in enumerate(key_values)]
    return build_batch(records, compression=compression)
