"""Finds records by time (ListOffsets): the sparse time index first, then headers, then one batch's records.

The time index holds (largest timestamp so far, offset of the batch that had it). The first record at or after
a moment lies behind the last entry that is below that moment; from there on, batches are skipped by the
maximum in their header, and only the batch that qualifies is unpacked.

A header's maximum may be wrong, and an open transaction may have a whole log walked, so a search can be long:
it is a generator of steps, which its driver runs where and as fast as it may (fetch/time_search.py).

    yields None            a good moment for a pause
    yields RecordSearch    a batch to be looked into, here or elsewhere; its result is sent back

After a pause the segments may be others: then the search raises `LogChanged`, and is begun again.
"""

from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeAlias

from moldau.broker.log.files.segment import BatchPlace, Segment
from moldau.broker.log.reading.reader import Reader
from moldau.broker.log.reading.record_search import RecordSearch
from moldau.common.records.batch import CorruptBatch
from moldau.common.records.compression import UnpacksToMore
from moldau.common.records.unpack_budget import UnpackBudget

HEADERS_A_STEP = 64


class TimestampAndOffset(NamedTuple):
    """A record's timestamp in milliseconds, its offset, and the leader epoch of its batch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class Unreadable(NamedTuple):
    """Sent back for a batch whose records cannot be read: by nobody, or (`by_all` false) not within the
    memory that a search may take. The reason says so where the batch is not as it was written."""

    reason: str
    by_all: bool = True


class LogChanged(Exception):
    """Segments were removed or replaced while the search paused: it has to begin again."""


Found: TypeAlias = tuple[int, int] | Unreadable | None
Search: TypeAlias = Generator[RecordSearch | None, Found, TimestampAndOffset | None]


def run(search: Search, budget: UnpackBudget | None = None) -> TimestampAndOffset | None:
    """Run a search to its end, here and now: for tests and tools."""
    budget = budget or UnpackBudget()
    found: Found = None
    while True:
        try:
            step = search.send(found)
        except StopIteration as end:
            result: TimestampAndOffset | None = end.value
            return result
        found = None if step is None else look_into(step, budget)


def look_into(search: RecordSearch, budget: UnpackBudget) -> Found:
    """The result of one batch's search, as it is sent back into the search; for any thread."""
    try:
        return search.run(budget)
    except (CorruptBatch, UnpacksToMore) as error:
        return _unreadable(search, error)


def look_into_if_likely(search: RecordSearch, budget: UnpackBudget) -> Found:
    """As `look_into`; PutOff when the batch unpacks to far more than it has bytes."""
    try:
        return search.run_likely(budget)
    except (CorruptBatch, UnpacksToMore) as error:
        return _unreadable(search, error)


def look_into_if_short(search: RecordSearch, budget: UnpackBudget) -> Found:
    """As `look_into`, in less than a millisecond; UnpacksToMore when it would take longer."""
    try:
        return search.run_short(budget)
    except CorruptBatch as error:
        return _unreadable(search, error)


def _unreadable(search: RecordSearch, error: CorruptBatch | UnpacksToMore) -> Unreadable:
    if isinstance(error, UnpacksToMore):
        return Unreadable(str(error), by_all=False)
    if search.is_as_written:
        return Unreadable(str(error))
    return Unreadable(f"it was damaged on the disk, its crc is wrong: {error}")


def first_at_or_after(reader: Reader, timestamp_ms: int, end_offset: int) -> Search:
    """The first record below `end_offset` whose timestamp is at least `timestamp_ms`."""
    changes = reader.changes
    segments = reader.segments
    for index in range(reader.segment_index(reader.start_offset), len(segments)):
        segment = segments[index]
        if segment.base_offset >= end_offset:
            break
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        found = yield from _first_in_segment(reader, segment, timestamp_ms, end_offset, changes)
        if found is not None:
            return found
    return None


def _first_in_segment(
    reader: Reader, segment: Segment, timestamp_ms: int, end_offset: int, changes: int
) -> Search:
    start_offset = reader.start_offset
    known = segment.time_index.floor_key(timestamp_ms - 1)
    start = segment.offset_index.floor_key(known[1]) if known else None
    for count, place in enumerate(segment.walk(start[1] if start else 0), 1):
        if place.base_offset >= end_offset:
            return None
        if count % HEADERS_A_STEP == 0:
            yield None
            _check(reader, changes)
        if place.max_timestamp_ms < timestamp_ms or place.last_offset < start_offset:
            continue
        search = RecordSearch(segment.batch_at(place), timestamp_ms, start_offset)
        found = yield search
        _check(reader, changes)
        if isinstance(found, Unreadable):
            # A batch that its producer built wrongly, or beyond all bounds, must not make a search fail: the
            # batch's own beginning is the answer, and no record is missed by it.
            if found.by_all:
                reader.note_unreadable(place.base_offset, place.last_offset, found.reason)
            offset = max(place.base_offset, start_offset)
            return TimestampAndOffset(place.max_timestamp_ms, offset, place.leader_epoch)
        if found is not None and found[1] < end_offset:
            return TimestampAndOffset(*found, place.leader_epoch)
    return None


def _check(reader: Reader, changes: int) -> None:
    if reader.changes != changes:
        raise LogChanged


def newest(reader: Reader, end_offset: int) -> Search:
    """The record with the largest timestamp below `end_offset` (the first, if several have it)."""
    best = _newest_segment(reader.segments, reader.start_offset, end_offset)
    if best is None or best.max_timestamp_ms < 0:
        return None
    found = yield from first_at_or_after(reader, best.max_timestamp_ms, end_offset)
    if found is not None:
        return found
    # The largest timestamp lies at or above `end_offset`: look among those that are below it.
    return (yield from _newest_by_walking(reader, end_offset))


def _newest_segment(segments: Sequence[Segment], start_offset: int, end_offset: int) -> Segment | None:
    best: Segment | None = None
    for index, segment in enumerate(segments):
        if segment.base_offset >= end_offset:
            break
        next_base = segments[index + 1].base_offset if index + 1 < len(segments) else end_offset
        if next_base > start_offset and (best is None or segment.max_timestamp_ms > best.max_timestamp_ms):
            best = segment
    return best


def _newest_by_walking(reader: Reader, end_offset: int) -> Search:
    changes = reader.changes
    best: BatchPlace | None = None
    count = 0
    for segment in reader.segments:
        if segment.base_offset >= end_offset:
            break
        for place in segment.walk(0):
            if place.last_offset >= end_offset:
                break
            count += 1
            if count % HEADERS_A_STEP == 0:
                yield None
                _check(reader, changes)
            if place.last_offset >= reader.start_offset and (
                best is None or place.max_timestamp_ms > best.max_timestamp_ms
            ):
                best = place
    if best is None:
        return None
    return (yield from first_at_or_after(reader, best.max_timestamp_ms, end_offset))
