"""Deriving what is derived: producers' state and a segment's indexes and timestamps, from the batches
themselves.
"""

from collections.abc import Sequence

from moldau.core.files import Files
from moldau.log.producers import Producers
from moldau.log.segment import BatchPlace, Segment
from moldau.log.snapshots import load_latest_snapshot
from moldau.records.batch import CONTROL, NO_TIMESTAMP, TRANSACTIONAL


def note_producer(producers: Producers, segment: Segment, place: BatchPlace) -> None:
    """Take up a batch of the log into the producers' state."""
    header = place.header
    attributes, producer_id = header[5], header[9]
    if producer_id < 0:
        return
    if attributes & CONTROL:
        producers.replay(segment.batch_at(place))
        return
    producers.record(
        producer_id,
        header[10],
        header[11],
        place.base_offset,
        place.last_offset,
        place.max_timestamp_ms,
        bool(attributes & TRANSACTIONAL),
    )


def rebuild_producers(
    files: Files,
    directory: str,
    snapshot_offsets: list[int],
    segments: Sequence[Segment],
    producers: Producers,
    start_offset: int,
    end_offset: int,
) -> None:
    """The producers' state at `end_offset`: the newest snapshot up to there, and the headers of what follows
    it.
    """
    loaded = load_latest_snapshot(files, directory, snapshot_offsets, end_offset)
    position_offset = start_offset
    producers.clear()
    if loaded is not None and loaded[0] >= start_offset:
        position_offset, states = loaded
        producers.load(states)
    for index, segment in enumerate(segments):
        if index + 1 < len(segments) and segments[index + 1].base_offset <= position_offset:
            continue
        if segment.base_offset >= end_offset:
            break
        start = 0
        if position_offset > segment.base_offset:
            found = segment.find(position_offset)
            if found is None:
                continue
            start = found.position
        for place in segment.walk(start):
            if place.last_offset >= end_offset:
                break
            if place.base_offset >= position_offset:
                note_producer(producers, segment, place)


def cut_segment(segment: Segment, position: int, offset: int) -> None:
    """Cut the segment at a batch's beginning, with its indexes and its largest timestamp."""
    segment.cut(position)
    relative = max(0, offset - segment.base_offset)
    segment.offset_index.keep(segment.offset_index.count_below_key(relative))
    segment.time_index.keep(segment.time_index.count_below_value(relative))
    segment.write_indexes()
    load_timestamps(segment)


def load_timestamps(segment: Segment) -> None:
    """The segment's first and largest timestamps: from the time index, and from the headers after its last
    entry.
    """
    segment.max_timestamp_ms, segment.max_timestamp_offset = NO_TIMESTAMP, segment.base_offset
    last = segment.time_index.last()
    start = 0
    if last is not None:
        segment.max_timestamp_ms, segment.max_timestamp_offset = last[0], segment.base_offset + last[1]
        indexed = segment.offset_index.floor_key(last[1])
        start = indexed[1] if indexed else 0
    for place in segment.walk(start):
        if place.max_timestamp_ms > segment.max_timestamp_ms:
            segment.max_timestamp_ms, segment.max_timestamp_offset = place.max_timestamp_ms, place.last_offset
    first = next(segment.walk(0), None)
    segment.first_timestamp_ms = first.max_timestamp_ms if first else NO_TIMESTAMP


def index_segment(segment: Segment, interval_bytes: int, start: int = 0) -> BatchPlace | None:
    """Add index entries for the batches from position `start` on; returns the last batch.

    The indexes must hold nothing beyond `start`, and the segment's largest timestamp must be that of what
    lies before.
    """
    since_index = 0
    place: BatchPlace | None = None
    for place in segment.walk(start):
        if place.max_timestamp_ms > segment.max_timestamp_ms:
            segment.max_timestamp_ms, segment.max_timestamp_offset = place.max_timestamp_ms, place.last_offset
        if since_index > interval_bytes:
            segment.add_index_entry(
                place.last_offset, place.position, segment.max_timestamp_ms, segment.max_timestamp_offset
            )
            since_index = 0
        since_index += place.size_bytes
    return place
