"""Rebuilds producers' state, aborted transactions and a segment's timestamps from the batches themselves;
cuts a segment with all that belongs to it.
"""

from collections.abc import Callable, Sequence

from moldau.broker.log.files.segment import BatchPlace, Segment
from moldau.broker.log.state.producers import Producers
from moldau.broker.log.state.snapshots import load_latest_snapshot
from moldau.broker.log.state.transaction_index import AbortedTransaction
from moldau.common.core.files import Files
from moldau.common.records.batch import CONTROL, NO_TIMESTAMP, TRANSACTIONAL

_PAUSE_EVERY = 64


def note_producer(producers: Producers, segment: Segment, place: BatchPlace) -> AbortedTransaction | None:
    """Apply a batch of the log to the producers' state; returns the transaction that it aborts, if any."""
    header = place.header
    attributes, producer_id = header[5], header[9]
    if producer_id < 0:
        return None
    if attributes & CONTROL:
        ended = producers.replay(segment.batch_at(place))
        if ended is None or not ended.aborted:
            return None
        return AbortedTransaction(*ended[:3], producers.transactions.stable_after(ended))
    producers.record(
        producer_id,
        header[10],
        header[11],
        place.base_offset,
        place.last_offset,
        place.max_timestamp_ms,
        bool(attributes & TRANSACTIONAL),
    )
    return None


def rebuild_producers(
    files: Files,
    directory: str,
    snapshot_offsets: list[int],
    segments: Sequence[Segment],
    producers: Producers,
    end_offset: int,
    *,
    stale: Sequence[Segment] = (),
    pause: Callable[[], None] | None = None,
) -> None:
    """The producers' state at `end_offset`: the newest snapshot up to there, and the headers of what follows
    it.

    `stale` are segments whose index of aborted transactions is rebuilt on the way, and forced to disk. A
    transaction may have begun long before it is aborted, so the state with which such a segment begins has to
    be known. `pause` is called now and then, where other threads shall run.
    """
    position_offset = segments[0].base_offset
    snapshot_offset_max = min([end_offset, *(segment.base_offset for segment in stale)])
    loaded = load_latest_snapshot(files, directory, snapshot_offsets, snapshot_offset_max)
    producers.clear()
    if loaded is not None and loaded[0] >= position_offset:
        position_offset, states = loaded
        producers.load(states)
    indexed = set(stale)
    for segment in stale:
        segment.transaction_index.clear()
    for index, segment in enumerate(segments):
        if index + 1 < len(segments) and segments[index + 1].base_offset <= position_offset:
            continue
        if segment.base_offset >= end_offset:
            break
        _replay(segment, producers, position_offset, end_offset, segment in indexed, pause)
    for segment in stale:
        segment.transaction_index.write(sync=True)
    if stale:
        files.sync_directory(directory)


def _replay(
    segment: Segment,
    producers: Producers,
    start_offset: int,
    end_offset: int,
    note_aborts: bool,
    pause: Callable[[], None] | None,
) -> None:
    """Apply the segment's batches in this range."""
    start = 0
    if start_offset > segment.base_offset:
        found = segment.find(start_offset)
        if found is None:
            return
        start = found.position
    for count, place in enumerate(segment.walk(start), 1):
        if pause is not None and not count % _PAUSE_EVERY:
            pause()
        if place.last_offset >= end_offset:
            return
        if place.base_offset >= start_offset:
            aborted = note_producer(producers, segment, place)
            if aborted is not None and note_aborts:
                segment.transaction_index.append(aborted)


def cut_segment(segment: Segment, position: int, offset: int) -> None:
    """Cut the segment at a batch's beginning, with its indexes and its largest timestamp."""
    segment.cut(position)
    relative = max(0, offset - segment.base_offset)
    segment.offset_index.keep(segment.offset_index.count_below_key(relative))
    segment.time_index.keep(segment.time_index.count_below_value(relative))
    segment.transaction_index.truncate(offset)
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
