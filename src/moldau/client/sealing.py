"""A batch of encoded records without its header, and the header for it.

Whoever sends a batch decides on producer, epoch and sequence, so the header is made last; encoding and
sending may be done by two processes. Not here: batches of Arrow's columns (encoder.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moldau.common.core.crc import crc32c
from moldau.common.records.batch import (
    CRC,
    CRC_OFFSET,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
)
from moldau.common.records.compression import NONE
from moldau.common.records.record import Record, encode_record


class EncodedBatch(NamedTuple):
    """Records of one partition, encoded; the header comes with `seal`. A tuple, so that it pickles small."""

    topic: str
    partition: int
    record_count: int
    codec: int
    timestamp_ms: int
    body: bytes | memoryview


def seal(
    batch: EncodedBatch,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    *,
    transactional: bool = False,
) -> bytes:
    """The batch header for `batch.body`."""
    header = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        header,
        0,
        0,
        HEADER_BYTES + len(batch.body) - LENGTH_OVERHEAD,
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        batch.codec | (TRANSACTIONAL if transactional else 0),
        batch.record_count - 1,
        batch.timestamp_ms,
        batch.timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        batch.record_count,
    )
    CRC.pack_into(header, CRC_OFFSET, crc32c(batch.body, crc32c(memoryview(header)[CRC_START:])))
    return bytes(header)


def encode_records(
    topic: str, partition: int, records: Iterable[tuple[bytes | None, bytes | None]], timestamp_ms: int
) -> EncodedBatch:
    """A batch of a few records, as keys and values, uncompressed."""
    body, count = bytearray(), 0
    for key, value in records:
        encode_record(Record(count, timestamp_ms, key, value), count, 0, body)
        count += 1
    return EncodedBatch(topic, partition, count, NONE, timestamp_ms, bytes(body))
