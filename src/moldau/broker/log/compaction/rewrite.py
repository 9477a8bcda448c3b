"""Builds the batch that is left when records go: all but the records stays.

    before   | base offset 40 | last delta 4 | base timestamp | codec, producer, sequence ... | 40 41 42 43 44
    after    | base offset 40 | last delta 4 | base timestamp | codec, producer, sequence ... |    41       44

Base offset and base timestamp stay, so a record that stays keeps its bytes; neighbours are copied together.
The last offset delta stays, since the producer's last sequence is derived from it. What changes is the count,
the largest timestamp (that of the remaining records, unless the broker's append time), and the crc.

A batch in which tombstones or a marker have become clean gets its delete horizon (KIP-534): the moment from
which they may go is written into the base timestamp and a bit says so. Only then records are encoded anew,
because their timestamps count from it.

Not here: the loop over the records (scanning.py, or its compiled twin).
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from moldau.broker.log.compaction.source import ATTRIBUTES, BASE_TIMESTAMP, COUNT, MAX_TIMESTAMP, Batch
from moldau.common.records.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    TRANSACTIONAL,
    CorruptBatch,
    Readable,
    seal,
)
from moldau.common.records.compression import CompressionFailure, UnpacksToMore, compress, unpacked

Result = TypeVar("Result")
Payload: TypeAlias = tuple[Any, int, int]
"""Readable bytes, and where in them the records begin and end."""
KeepRecords: TypeAlias = Callable[..., tuple[bytearray, int]]
"""See scanning.py."""
_TIMESTAMP_MAX = (1 << 63) - 1


class TooLargeToClean(CorruptBatch):
    """The records unpack to more than compaction takes into memory. Consumers may be able to read them."""


def with_payload(
    batch: Batch, as_payload: Callable[[Readable], Readable], use: Callable[[Payload], Result]
) -> Result:
    """What `use` makes of the batch's records, decompressed, which it must not keep: `data[start:end]`.
    CorruptBatch when they cannot be decompressed, or cannot be as many as the header counts; TooLargeToClean.

    `as_payload` makes of what was unpacked what the loops over records take. It takes as much memory as the
    records do, until `use` is through, and `DECOMPRESSED_BYTES_MAX` at most.
    """
    header, data, start, end = batch
    codec = header[ATTRIBUTES] & CODEC_MASK
    if not codec:
        return use(_counted(header, data, start + HEADER_BYTES, end))
    try:
        with unpacked(codec, memoryview(data)[start + HEADER_BYTES : end]) as payload:
            return use(_counted(header, as_payload(payload), 0, len(payload)))
    except UnpacksToMore as error:
        raise TooLargeToClean(f"compaction does not take so much into memory: it {error}") from error
    except CompressionFailure as error:
        raise CorruptBatch(f"the records cannot be decompressed: {error}") from error


def _counted(header: tuple[int, ...], payload: Readable, start: int, end: int) -> Payload:
    if not 0 <= header[COUNT] * RECORD_BYTES_MIN <= end - start:
        raise CorruptBatch(f"the header counts {header[COUNT]} records in {end - start} bytes")
    return payload, start, end


def keep_some(
    batch: Batch, payload: Payload, kept: bytes | bytearray, horizon_ms: int | None, keep_records: KeepRecords
) -> bytearray:
    """The batch with those records only (one at least) for which `kept` holds a byte that is not 0.

    `horizon_ms` is the delete horizon to be set; None leaves it as it is.
    """
    header = batch[0]
    attributes, base_timestamp_ms = header[ATTRIBUTES], header[BASE_TIMESTAMP]
    shift_ms = None if horizon_ms is None else base_timestamp_ms - horizon_ms
    body, newest_delta_ms = keep_records(*payload, kept, shift_ms)
    newest_ms = min(max(NO_TIMESTAMP, base_timestamp_ms + newest_delta_ms), _TIMESTAMP_MAX)
    if attributes & LOG_APPEND_TIME:
        newest_ms = header[MAX_TIMESTAMP]
    codec = attributes & CODEC_MASK
    packed = compress(codec, body) if codec else body
    return _assemble(header, packed, len(kept) - kept.count(0), newest_ms, attributes, horizon_ms)


def keep_none(batch: Batch) -> bytearray:
    """The batch without its records: for the offsets and the sequence numbers that its header holds."""
    header = batch[0]
    attributes = header[ATTRIBUTES] & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return _assemble(header, b"", 0, header[MAX_TIMESTAMP], attributes, None, NO_TIMESTAMP)


def _assemble(
    header: tuple[int, ...],
    body: bytes | bytearray,
    count: int,
    max_timestamp_ms: int,
    attributes: int,
    horizon_ms: int | None,
    base_timestamp_ms: int | None = None,
) -> bytearray:
    """Header and body, with a new crc."""
    base_offset, _, leader_epoch, magic, _, _, last_delta, base_ms, _, *producer, _ = header
    if base_timestamp_ms is not None:
        base_ms = base_timestamp_ms
    if horizon_ms is not None:
        base_ms = horizon_ms
        attributes |= DELETE_HORIZON
    batch = bytearray(HEADER_BYTES)
    length = HEADER_BYTES + len(body) - LENGTH_OVERHEAD
    HEADER.pack_into(
        batch,
        0,
        *(base_offset, length, leader_epoch, magic, 0, attributes, last_delta, base_ms, max_timestamp_ms),
        *producer,
        count,
    )
    batch += body
    seal(batch)
    return batch
