"""Making the batch that is left when records go: everything but the records stays.

    before   | base offset 40 | last delta 4 | base timestamp | codec, producer, sequence ... | 40 41 42 43 44
    after    | base offset 40 | last delta 4 | base timestamp | codec, producer, sequence ... |    41       44

Base offset and base timestamp stay, so a record that stays keeps its bytes; neighbours are copied together.
The last offset delta stays, since the producer's last sequence is derived from it. What changes is the count,
the largest timestamp (that of the remaining records, unless the broker's append time), and the crc.

A batch in which tombstones or a marker have become clean gets its delete horizon (KIP-534): the moment from
which they may go is written into the base timestamp and a bit says so. Only then records are encoded anew,
because their timestamps count from it.
"""

from moldau.log.compaction.scanning import read_number
from moldau.log.compaction.source import ATTRIBUTES, BASE_TIMESTAMP, MAX_TIMESTAMP, Batch
from moldau.records.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchView,
    seal,
)
from moldau.records.compression import compress
from moldau.records.record import encode_varint


def payload_of(batch: Batch) -> tuple[bytes, int, int]:
    """The batch's records, decompressed: they are `data[start:end]`. CorruptBatch when they cannot be."""
    header, data, start, end = batch
    if not header[ATTRIBUTES] & CODEC_MASK:
        return data, start + HEADER_BYTES, end
    unpacked = bytes(BatchView(memoryview(data)[start:end]).payload())
    return unpacked, 0, len(unpacked)


def keep_some(
    batch: Batch, payload: tuple[bytes, int, int], kept: bytes | bytearray, horizon_ms: int | None
) -> bytearray:
    """The batch with those records only (one at least) for which `kept` holds a byte that is not 0.

    `horizon_ms` is the delete horizon to be set; None leaves it as it is.
    """
    header = batch[0]
    data, position, _ = payload
    body = bytearray()
    base_timestamp_ms = header[BASE_TIMESTAMP]
    shift_ms = 0 if horizon_ms is None else base_timestamp_ms - horizon_ms
    newest_delta_ms = -(1 << 63)
    run_start = position
    for keep in kept:
        begin = position
        length = data[position]
        if length < 0x80:
            position += 1
        elif data[position + 1] < 0x80:
            length = length & 0x7F | data[position + 1] << 7
            position += 2
        else:
            length, position = read_number(data, position)
        record_end = position + (length >> 1)
        if keep:
            number, after = read_number(data, position + 1)
            delta_ms = (number >> 1) ^ -(number & 1)
            if delta_ms > newest_delta_ms:  # noqa: PLR1730 (max() takes three times as long)
                newest_delta_ms = delta_ms
            if horizon_ms is not None:
                record = bytearray(data[position : position + 1])
                encode_varint(delta_ms + shift_ms, record)
                record += data[after:record_end]
                encode_varint(len(record), body)
                body += record
        elif horizon_ms is None:
            if run_start < begin:
                body += data[run_start:begin]
            run_start = record_end
        position = record_end
    if horizon_ms is None:
        body += data[run_start:position]
    count = len(kept) - kept.count(0)
    newest_ms = max(NO_TIMESTAMP, base_timestamp_ms + newest_delta_ms)
    if header[ATTRIBUTES] & LOG_APPEND_TIME:
        newest_ms = header[MAX_TIMESTAMP]
    codec = header[ATTRIBUTES] & CODEC_MASK
    packed = compress(codec, body) if codec else body
    return _assemble(header, packed, count, newest_ms, header[ATTRIBUTES], horizon_ms)


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
