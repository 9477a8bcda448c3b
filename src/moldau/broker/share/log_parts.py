"""Which offsets of a log's batches hold records that members of a share group may get.

    | batch 10-14 | (15-19 compacted away) | control 20 | aborted 21-29 | batch 30-39, records 31 and 37 left
    |
      deliverable   not                      not          not (read_committed)  two parts are, three are not

Only the headers are read, and no more batches than are wanted. A batch of which compaction has left fewer
records than offsets is looked into, if that is little work: members get exactly what there is, instead of a
lock on each offset. Otherwise they get the offsets, and acknowledge those without a record as gaps.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from moldau.broker.share.share_partition import LogPart
from moldau.common.records.batch import (
    CONTROL,
    HEADER,
    LENGTH_OVERHEAD,
    TRANSACTIONAL,
    BatchView,
    CorruptBatch,
    Readable,
)
from moldau.common.records.control import ControlType, parse_end_transaction_marker
from moldau.common.records.record import Record

BATCHES_MAX = 1000
"""Batches looked at in one read: two milliseconds."""
SPARSE_BYTES_MAX = 64 * 1024
SPARSE_UNPACKED_MAX = 256 * 1024
SPARSE_RECORDS_MAX = 2000
"""Batches with gaps are looked into up to this size, packed and unpacked, and this number of records; a read
ends where so many were looked at."""


class Batch(NamedTuple):
    """One batch of a read: offsets (both inclusive), and where it stands in the bytes."""

    first: int
    last: int
    start: int
    end: int


class LogParts(NamedTuple):
    """The parts of a read, which touch one another, and its batches, which `LogPart.batch` counts."""

    parts: list[LogPart]
    batches: list[Batch]

    def bytes_of(self, data: Readable, first: int, last: int) -> Readable:
        """The batches from the one with offset `first` to the one with `last`."""
        held = [batch for batch in self.batches if batch.last >= first and batch.first <= last]
        return memoryview(data)[held[0].start : held[-1].end] if held else b""


def log_parts(
    data: Readable, offset: int, aborted: Sequence[tuple[int, int]] | None, records_wanted: int
) -> LogParts:
    """The parts from `offset` on, of batches with `records_wanted` records or a little more. `aborted`:
    (producer id, first offset) of aborted transactions among them."""
    parts: list[LogPart] = []
    batches: list[Batch] = []
    open_aborted: set[int] = set()
    begins = sorted(aborted or (), key=lambda each: each[1], reverse=True)
    position, next_offset, found, looked_at = 0, offset, 0, 0
    while position + HEADER.size <= len(data) and len(batches) < BATCHES_MAX and found < records_wanted:
        header = HEADER.unpack_from(data, position)
        base, length, attributes, delta, producer_id, count = (header[i] for i in (0, 1, 5, 6, 9, 12))
        end = position + length + LENGTH_OVERHEAD
        if length <= 0 or end > len(data):
            break
        first, last, number = max(base, next_offset), base + delta, len(batches)
        batches.append(Batch(base, last, position, end))
        if last >= next_offset:
            if first > next_offset:
                parts.append(LogPart(next_offset, first - 1, False, number))
            while begins and begins[-1][1] <= last:
                open_aborted.add(begins.pop()[0])
            gone = bool(attributes & CONTROL) or (attributes & TRANSACTIONAL and producer_id in open_aborted)
            if gone or not count:
                parts.append(LogPart(first, last, False, number))
            else:
                present = [(first, last)]
                if count <= delta:
                    looked_at += count
                    if looked_at > SPARSE_RECORDS_MAX and looked_at > count:
                        batches.pop()
                        break
                    present = list(_present(BatchView(memoryview(data)[position:end]), first))
                parts += _covered(present, first, last, number)
                found += sum(each_last - each_first + 1 for each_first, each_last in present)
            if attributes & CONTROL and producer_id in open_aborted and _ends(data, position, end):
                open_aborted.discard(producer_id)
            next_offset = last + 1
        position = end
    return LogParts(parts, batches)


def _ends(data: Readable, start: int, end: int) -> bool:
    """Whether a control batch aborts its producer's transaction."""
    try:
        for record in BatchView(memoryview(data)[start:end]).records():
            marker = parse_end_transaction_marker(record)
            return marker is not None and marker.control_type is ControlType.ABORT
    except CorruptBatch:
        pass
    return False


def _present(batch: BatchView, first: int) -> Iterator[tuple[int, int]]:
    """Ranges of the offsets that have a record; all of them where looking costs too much."""
    if batch.size_bytes > SPARSE_BYTES_MAX or batch.count > SPARSE_RECORDS_MAX:
        return iter([(first, batch.last_offset)])
    try:
        return iter(list(_runs(batch.records(SPARSE_UNPACKED_MAX), first)))
    except (CorruptBatch, ValueError):
        return iter([(first, batch.last_offset)])  # a reader will say what is wrong with it


def _runs(records: Iterable[Record], first: int) -> Iterator[tuple[int, int]]:
    begin = end = -2
    for record in records:
        if record.offset < first:
            continue
        if record.offset == end + 1:
            end = record.offset
            continue
        if begin >= 0:
            yield begin, end
        begin = end = record.offset
    if begin >= 0:
        yield begin, end


def _covered(present: Sequence[tuple[int, int]], first: int, last: int, batch: int) -> Iterator[LogPart]:
    """These ranges as records, and what lies between them as gaps."""
    position = first
    for each_first, each_last in present:
        if each_first > position:
            yield LogPart(position, each_first - 1, False, batch)
        yield LogPart(each_first, each_last, True, batch)
        position = each_last + 1
    if position <= last:
        yield LogPart(position, last, False, batch)
