"""Finding records by time (ListOffsets): the sparse time index first, then headers, then one batch's records.

The time index holds (largest timestamp so far, offset of the batch that had it). The first record at or after
a moment lies behind the last entry that is below that moment; from there on, batches are skipped by the
maximum in their header, and only the batch that qualifies is unpacked.
"""

from collections.abc import Sequence
from typing import NamedTuple

from moldau.log.reader import Reader
from moldau.log.segment import BatchPlace, Segment
from moldau.records.batch import CorruptBatch


class TimestampAndOffset(NamedTuple):
    """A record's timestamp in milliseconds, its offset, and the leader epoch of its batch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def first_at_or_after(reader: Reader, timestamp_ms: int, end_offset: int) -> TimestampAndOffset | None:
    """The first record below `end_offset` whose timestamp is at least `timestamp_ms`."""
    segments = reader.segments
    for index in range(reader.segment_index(reader.start_offset), len(segments)):
        segment = segments[index]
        if segment.base_offset >= end_offset:
            break
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        found = _first_in_segment(segment, timestamp_ms, reader.start_offset, end_offset)
        if found is not None:
            return found
    return None


def _first_in_segment(
    segment: Segment, timestamp_ms: int, start_offset: int, end_offset: int
) -> TimestampAndOffset | None:
    known = segment.time_index.floor_key(timestamp_ms - 1)
    start = segment.offset_index.floor_key(known[1]) if known else None
    for place in segment.walk(start[1] if start else 0):
        if place.base_offset >= end_offset:
            return None
        if place.max_timestamp_ms < timestamp_ms or place.last_offset < start_offset:
            continue
        found = _first_in_batch(segment, place, timestamp_ms, start_offset)
        if found is not None and found.offset < end_offset:
            return found
    return None


def _first_in_batch(
    segment: Segment, place: BatchPlace, timestamp_ms: int, start_offset: int
) -> TimestampAndOffset | None:
    try:
        for record in segment.batch_at(place).records():
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return TimestampAndOffset(record.timestamp_ms, record.offset, place.leader_epoch)
    except CorruptBatch:
        # A batch that its producer built wrongly must not make a search fail: the batch's own beginning is
        # the answer.
        return TimestampAndOffset(
            place.max_timestamp_ms, max(place.base_offset, start_offset), place.leader_epoch
        )
    return None


def newest(reader: Reader, end_offset: int) -> TimestampAndOffset | None:
    """The record with the largest timestamp below `end_offset` (the first, if several have it)."""
    best = _newest_segment(reader.segments, reader.start_offset, end_offset)
    while best is not None and best.max_timestamp_ms >= 0:
        found = first_at_or_after(reader, best.max_timestamp_ms, end_offset)
        if found is not None:
            return found
        # The largest timestamp lies at or above `end_offset`: look among those that are below it.
        return _newest_by_walking(reader, end_offset)
    return None


def _newest_segment(segments: Sequence[Segment], start_offset: int, end_offset: int) -> Segment | None:
    best: Segment | None = None
    for index, segment in enumerate(segments):
        if segment.base_offset >= end_offset:
            break
        next_base = segments[index + 1].base_offset if index + 1 < len(segments) else end_offset
        if next_base > start_offset and (best is None or segment.max_timestamp_ms > best.max_timestamp_ms):
            best = segment
    return best


def _newest_by_walking(reader: Reader, end_offset: int) -> TimestampAndOffset | None:
    best: BatchPlace | None = None
    for segment in reader.segments:
        if segment.base_offset >= end_offset:
            break
        for place in segment.walk(0):
            if place.last_offset >= end_offset:
                break
            if place.last_offset >= reader.start_offset and (
                best is None or place.max_timestamp_ms > best.max_timestamp_ms
            ):
                best = place
    return first_at_or_after(reader, best.max_timestamp_ms, end_offset) if best is not None else None
