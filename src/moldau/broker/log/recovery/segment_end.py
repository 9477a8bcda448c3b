"""Whether a segment ends as it should: with a whole batch, in order, where its file ends.

Checked whenever a log is opened, also after a clean stop. It costs one read per segment: the offset index
leads to a batch close to the end, and the headers are walked from there.

    index: ... (relative last offset 811, position 65,112)
    log:   ... | 809..811 | 812 | 813..815 |        ends at the file's size, below the next segment
               ^ 65,112: must be a batch that ends there at the latest, else the index is wrong

(Kafka notes the last offset of all batches of one write.)

Reads headers only. Not here: checking whole batches (checked_scan.py), what is done about damage
(recovery.py).
"""

from typing import NamedTuple

from moldau.broker.log.files.segment import RELATIVE_OFFSET_MAX, BatchPlace, CorruptSegment, Segment
from moldau.broker.log.recovery.checked_scan import UNLIMITED
from moldau.common.records.batch import NO_TIMESTAMP


class SegmentEnd(NamedTuple):
    """How far a segment is in order."""

    position: int
    next_offset: int
    last: BatchPlace | None
    """The last batch, if any was read."""
    produced: bool
    """Whether an idempotent producer wrote one of the batches read."""
    problem: str
    """What is wrong there; empty when the segment ends so."""


class WrongIndex(Exception):
    """The offset index does not lead to the batch that it names."""


def walk_end(segment: Segment, limit_offset: int = UNLIMITED) -> SegmentEnd:
    """Walk from the last indexed batch to the end. WrongIndex when there is no such batch."""
    entry = segment.offset_index.last()
    if entry is None:
        return _walk(segment, 0, limit_offset, -1)
    end = _walk(segment, entry[1], limit_offset, segment.base_offset + entry[0])
    if end.last is None:
        raise WrongIndex(end.problem or "it names a position behind the end")
    return end


def rebuild_index(segment: Segment, limit_offset: int, interval_bytes: int) -> SegmentEnd:
    """Walk all of it, and rebuild the two indexes (in memory); they are empty before."""
    return _walk(segment, 0, limit_offset, -1, interval_bytes)


def _walk(
    segment: Segment, position: int, limit_offset: int, first_last_offset: int, interval_bytes: int = -1
) -> SegmentEnd:
    """Walk the headers from `position`; `first_last_offset` (-1: any) is what the first batch must end
    with.
    """
    limit_offset = min(limit_offset, segment.base_offset + RELATIVE_OFFSET_MAX + 1)
    next_offset = segment.base_offset
    last: BatchPlace | None = None
    produced = False
    since_index = 0

    def end(problem: str) -> SegmentEnd:
        return SegmentEnd(position, next_offset, last, produced, problem)

    try:
        for place in segment.walk(position):
            if 0 <= first_last_offset < place.last_offset:
                return end(
                    f"offset {first_last_offset} is indexed, and a batch ends with {place.last_offset}"
                )
            if place.base_offset < next_offset or place.header[6] < 0:
                return end(f"a batch claims offset {place.base_offset} after {next_offset - 1}")
            if place.last_offset >= limit_offset:
                return end(f"a batch claims offset {place.last_offset}, beyond what the segment can hold")
            if place.position + place.size_bytes > segment.size_bytes:
                held = segment.size_bytes - place.position
                return end(f"a batch of {place.size_bytes} bytes breaks off after {held}")
            first_last_offset = -1
            if interval_bytes >= 0:
                if place.max_timestamp_ms > segment.max_timestamp_ms:
                    segment.max_timestamp_ms, segment.max_timestamp_offset = (
                        place.max_timestamp_ms,
                        place.last_offset,
                    )
                if since_index > interval_bytes:
                    segment.add_index_entry(
                        place.last_offset,
                        place.position,
                        segment.max_timestamp_ms,
                        segment.max_timestamp_offset,
                    )
                    since_index = 0
                since_index += place.size_bytes
            produced = produced or place.header[9] >= 0
            position, next_offset, last = place.position + place.size_bytes, place.last_offset + 1, place
    except CorruptSegment as error:
        return end(str(error))
    rest = segment.size_bytes - position
    return end("" if not rest else f"a batch's header breaks off after {rest} bytes")


def first_timestamp_ms(segment: Segment, stop: int | None = None) -> int:
    """That of the segment's first batch, if it begins before `stop`; NO_TIMESTAMP where there is none."""
    try:
        first = next(segment.walk(0, stop), None)
    except CorruptSegment:
        return NO_TIMESTAMP
    return first.max_timestamp_ms if first else NO_TIMESTAMP
