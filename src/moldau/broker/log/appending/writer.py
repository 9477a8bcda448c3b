"""Stages batches for the next write, writes them, rolls them back when that fails, rolls segments.

    staged    the batches of this turn of the loop, in memory: `log_end_offset` counts them
    written   in the file: readers see these, up to `reader.end_offset`
    flushed   fsynced, up to `flusher.end_offset`: recovery need not read these

All staged batches are written with one system call. When that fails, offsets, producers, epochs and indexes
are again exactly what they were when the last write succeeded, and none of the batches was ever readable.

Invariants: `log_end_offset` and `position` are where the next batch goes, behind all that is staged; `active`
is the last segment, and the only one that changes; `marks` alone say when it is full (records/usual.py
compares usual batches with them). Who may change what: leader_append.py stages a usual batch by itself,
follower_append.py notes batches that it writes; the log calls `restart` when it has cut the end.

HOT: `flush_staged` and `write`; budget with leader_append.py (bench/hot_path.py).

Not here: which batches are good (leader_append.py, follower_append.py), what is forced to disk (flushing.py).
"""

import errno
import logging
from collections.abc import Callable
from typing import TypeAlias

from moldau.broker.log.appending.lost_writes import LostWrites
from moldau.broker.log.appending.validation import COUNTED_RECORDS_MAX
from moldau.broker.log.files.index import TAIL_ENTRIES_MAX
from moldau.broker.log.files.partition_files import PartitionFiles
from moldau.broker.log.files.segment import RELATIVE_OFFSET_MAX, Segment
from moldau.broker.log.reading.reader import LATEST_BYTES_MAX, Reader
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.broker.log.state.producers import Producers, ProducerState
from moldau.broker.log.state.transaction_index import TAIL_ENTRIES_MAX as ABORTED_IN_MEMORY_MAX
from moldau.broker.log.state.transaction_index import AbortedTransaction
from moldau.broker.log.upkeep.flushing import Flusher
from moldau.common.core.files import Buffer
from moldau.common.records.batch import LENGTH_OVERHEAD, POSITION, POSITION_BYTES, BatchView
from moldau.common.records.control import parse_end_transaction_marker
from moldau.common.records.usual import FAR, make_marks
from moldau.common.settings.topic import TopicSettings

LARGE_BATCH_BYTES = 64 * 1024
"""From this size on a batch is not copied but written at once."""

_Undo: TypeAlias = list[tuple[int, ProducerState | None]]
_pack_position = POSITION.pack

logger = logging.getLogger("moldau.log.writer")


def is_disk_full(error: OSError) -> bool:
    """Whether the error goes away when files are removed."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Writer:
    """The end of a log: the staged batches, and the active segment that they are written to."""

    __slots__ = (
        "_aborted_due",
        "_epochs",
        "_epochs_before",
        "_files",
        "_flusher",
        "_holds",
        "_name",
        "_producers",
        "_reader",
        "_roll_jitter_ms",
        "_settings",
        "_since_index_written",
        "accepts",
        "active",
        "failure",
        "index_due",
        "index_interval_bytes",
        "leader_epoch",
        "log_end_offset",
        "lost",
        "marks",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offline",
        "on_roll",
        "position",
        "since_index",
        "staged",
        "undo",
    )

    def __init__(
        self,
        name: str,
        files: PartitionFiles,
        reader: Reader,
        epochs: LeaderEpochs,
        producers: Producers,
        flusher: Flusher,
        settings: TopicSettings,
        *,
        roll_jitter_ms: int,
    ) -> None:
        """`name` is the partition's, for messages."""
        self._name = name
        self._files = files
        self._reader = reader
        self._epochs = epochs
        self._producers = producers
        self._flusher = flusher
        self._roll_jitter_ms = roll_jitter_ms
        self.on_roll: Callable[[], None] | None = None
        """Called when a segment is full: a good moment to sync it."""
        self.accepts = True
        """Whether batches may be appended: the writer is neither offline nor held."""
        self.offline = False
        """Nothing more is written."""
        self._holds = 0  # who holds it: nothing is appended for a moment, as the log moves or is cut
        self.failure: OSError | None = None
        """Why batches staged in this turn are lost already; `flush_staged` raises it."""
        self.lost = LostWrites()
        self.log_end_offset = reader.end_offset
        self.active: Segment = files.active
        self.leader_epoch = epochs.latest()
        self.staged = bytearray()
        self.undo: _Undo = []
        """The producers' states that were replaced since the last write, in that order."""
        self.index_due: list[tuple[int, int, int, int]] = []
        """What the segment's indexes get when the staged batches are written."""
        self._aborted_due: list[AbortedTransaction] = []
        self._epochs_before: list[tuple[int, int]] | None = None
        self.since_index = self._since_index_written = 0
        self.position = 0
        self.max_timestamp_ms = self.max_timestamp_offset = 0
        self.marks = make_marks(COUNTED_RECORDS_MAX, LARGE_BATCH_BYTES)
        self._adopt_active()
        self.reconfigure(settings)

    def reconfigure(self, settings: TopicSettings) -> None:
        """From now on these settings hold."""
        self._settings = settings
        self.index_interval_bytes = settings.index_interval_bytes
        self._set_roll_marks()

    # -- whether it accepts ------------------------------------------------------------------------

    def go_offline(self) -> None:
        """The disk failed: write nothing more."""
        self.offline = True
        self.accepts = False

    def hold(self) -> None:
        """Accept nothing, until `release` by each who holds it."""
        self._holds += 1
        self.accepts = False

    def release(self) -> None:
        """Accept again, unless another holds it as well, or it is offline."""
        assert self._holds > 0, "released more often than held"
        self._holds -= 1
        self.accepts = not (self._holds or self.offline)

    @property
    def refuses_all(self) -> bool:
        """Whether nothing is appended now: it does not accept, or a write of this turn has failed."""
        return not self.accepts or self.failure is not None

    # -- staging -----------------------------------------------------------------------------------

    def stage(self, view: BatchView, base_offset: int, leader_epoch: int, now_ms: int) -> None:
        """Stage an accepted batch at this offset, or write it at once if it is large.

        OSError when the disk does not take it; then it is not in the log, nor is what was staged before it.
        """
        size = view.size_bytes
        last_offset = base_offset + view.last_offset_delta
        if self.is_full_for(size, last_offset, view.max_timestamp_ms, now_ms):
            self.roll(now_ms)
        if size >= LARGE_BATCH_BYTES:
            self.write_staged()
        self.note(view, base_offset, leader_epoch, now_ms)
        head = _pack_position(base_offset, size - LENGTH_OVERHEAD, leader_epoch)
        body = memoryview(view.data)[POSITION_BYTES:]
        if size >= LARGE_BATCH_BYTES:
            self.write([head, body])
            return
        self.staged += head
        self.staged += body

    def note(self, view: BatchView, base_offset: int, leader_epoch: int, now_ms: int) -> None:
        """Count a batch, whose bytes the next write brings, into offsets, producers, epochs and indexes."""
        if not self.position:
            self._begin_active(view.max_timestamp_ms, now_ms)
        if leader_epoch != self.leader_epoch:
            self._begin_epoch(leader_epoch, base_offset)
        size, last_offset = view.size_bytes, base_offset + view.last_offset_delta
        if view.producer_id >= 0:
            self._note_producer(view, base_offset, last_offset)
        if view.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms, self.max_timestamp_offset = view.max_timestamp_ms, last_offset
        if self.since_index > self.index_interval_bytes:
            self.index_due.append(
                (last_offset, self.position, self.max_timestamp_ms, self.max_timestamp_offset)
            )
            self.since_index = 0
        self.since_index += size
        self.position += size
        self.log_end_offset = last_offset + 1

    def _note_producer(self, view: BatchView, base_offset: int, last_offset: int) -> None:
        producer_id, producers = view.producer_id, self._producers
        self.undo.append((producer_id, producers.states.get(producer_id)))
        if not view.is_control:
            producers.record(
                producer_id,
                view.producer_epoch,
                view.base_sequence,
                base_offset,
                last_offset,
                view.max_timestamp_ms,
                view.is_transactional,
            )
            return
        for record in view.records():
            marker = parse_end_transaction_marker(record)
            if marker is None:
                continue
            offset = base_offset + record.offset - view.base_offset
            ended = producers.end_transaction(
                producer_id, view.producer_epoch, marker, offset, record.timestamp_ms
            )
            if ended is not None and ended.aborted:
                stable = producers.transactions.stable_after(ended)
                self._aborted_due.append(AbortedTransaction(*ended[:3], stable))

    # -- leader epochs -----------------------------------------------------------------------------

    def _begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        if self._epochs_before is None:
            self._epochs_before = self._epochs.entries()
        self.assign_epoch(leader_epoch, start_offset)

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Records from `start_offset` on have this leader epoch (called before a leader's first append)."""
        if self._epochs.assign(leader_epoch, start_offset):
            self._files.write_epochs(self._epochs)
        self.leader_epoch = leader_epoch

    # -- writing -----------------------------------------------------------------------------------

    def flush_staged(self) -> None:
        """Write what is staged; OSError when the disk does not take it, and then nothing of this turn was
        appended.
        """
        if self.failure is not None:
            failure, self.failure = self.failure, None
            self.roll_back()
            raise failure
        if self.staged:
            try:
                self.write([self.staged])
            finally:
                self.failure = None

    def write_staged(self) -> None:
        """As `flush_staged`, in the middle of a turn: an error is kept for the end of the turn. Until then
        nothing is written: batches staged after the failure are rolled back with it.
        """
        if self.failure is not None:
            raise self.failure
        if self.staged:
            self.write([self.staged])

    def write(self, buffers: list[Buffer]) -> None:
        """Write everything between the written and the staged end, and make it readable; roll back when that
        fails.
        """
        segment = self.active
        try:
            segment.write(buffers, self.position - segment.size_bytes, segment.size_bytes)
        except OSError as error:
            if self.staged:
                self.failure = error
            self.roll_back()
            self._files.report_error(error)
            raise
        reader = self._reader
        if 0 < len(self.staged) <= LATEST_BYTES_MAX:
            reader.latest, reader.latest_position = self.staged, segment.size_bytes
        elif reader.latest_position >= 0:
            reader.latest, reader.latest_position = b"", -1
        segment.size_bytes = self.position
        segment.max_timestamp_ms = self.max_timestamp_ms
        segment.max_timestamp_offset = self.max_timestamp_offset
        reader.end_offset = self.log_end_offset
        self._since_index_written = self.since_index
        if self.index_due:
            for entry in self.index_due:
                segment.add_index_entry(*entry)
            self.index_due.clear()
            self._check_indexes(segment)
        if self._aborted_due:
            for aborted in self._aborted_due:
                segment.transaction_index.append(aborted)
            self._aborted_due.clear()
            self._check_indexes(segment)
        if self.undo:
            if self.lost:
                self.lost.written({one for one, _ in self.undo}, self._producers.states)
            self.undo.clear()
        self._epochs_before = None
        if self.staged:
            self.staged = bytearray()

    @property
    def is_empty(self) -> bool:
        """Whether the log holds no records, staged ones included."""
        return not (self.staged or any(each.size_bytes for each in self._files.segments))

    def roll_back(self) -> None:
        """Offsets, producers, epochs and indexes are again as they were when the last write succeeded."""
        if self.undo:
            states, end = self._producers.states, self._reader.end_offset
            self.lost.note_states(((one, states.get(one)) for one, _ in self.undo), end)
            self._producers.restore(self.undo, end)
            self.undo.clear()
        self.index_due.clear()
        self._aborted_due.clear()
        self.staged = bytearray()
        self.since_index = self._since_index_written
        self.log_end_offset = self._reader.end_offset
        if self._epochs_before is not None:
            self._epochs.replace(self._epochs_before)
            self._epochs_before = None
            self.leader_epoch = self._epochs.latest()
            self._files.write_epochs(self._epochs)
        segment = self.active
        try:
            segment.cut(segment.size_bytes)
        except OSError:
            # The next write goes to the same place, and recovery cuts off what is torn.
            logger.warning("%s: could not cut off a failed write", self._name)
        self._adopt_active()
        self._set_roll_marks()

    def _adopt_active(self) -> None:
        """Staged state begins as the active segment's written state."""
        segment = self.active
        self.position = segment.size_bytes
        self.max_timestamp_ms = segment.max_timestamp_ms
        self.max_timestamp_offset = segment.max_timestamp_offset
        self.marks.last_offset_max = segment.base_offset + RELATIVE_OFFSET_MAX

    def _check_indexes(self, segment: Segment) -> None:
        """Write index tails that have grown long; a full index makes the segment roll."""
        if (
            segment.offset_index.tail_entries >= TAIL_ENTRIES_MAX
            or segment.transaction_index.tail_entries >= ABORTED_IN_MEMORY_MAX
        ):
            try:
                segment.write_indexes()
            except OSError as error:
                self._files.report_error(error)
        limit = self._settings.segment_index_bytes
        if len(segment.offset_index) >= limit // 8 or len(segment.time_index) >= limit // 12:
            self.marks.roll_bytes = 0

    # -- rolling -----------------------------------------------------------------------------------

    def _set_roll_marks(self) -> None:
        """When the active segment must roll: by size, by its records' time, or by the clock if they have
        none.
        """
        segment, settings, marks = self.active, self._settings, self.marks
        age_ms = max(0, settings.segment_age_max_ms - self._roll_jitter_ms)
        marks.roll_bytes = settings.internal_segment_bytes or settings.segment_bytes
        marks.roll_above_ms = marks.roll_after_ms = FAR
        if not self.position:
            marks.roll_bytes = (
                0  # The first batch is no usual one: it passes by `note`, which sets the marks.
            )
        elif segment.first_timestamp_ms >= 0:
            marks.roll_above_ms = min(FAR, segment.first_timestamp_ms + age_ms)
        else:
            marks.roll_after_ms = min(FAR, segment.created_ms + age_ms)

    def is_full_for(self, size_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int) -> bool:
        """Whether such a batch must not go into the active segment."""
        marks = self.marks
        return bool(self.position) and (
            self.position + size_bytes > marks.roll_bytes
            or max_timestamp_ms > marks.roll_above_ms
            or now_ms > marks.roll_after_ms
            or last_offset > marks.last_offset_max
        )

    def _begin_active(self, max_timestamp_ms: int, now_ms: int) -> None:
        """The active segment gets its first batch."""
        self.active.first_timestamp_ms = max_timestamp_ms
        self.active.created_ms = now_ms
        self.position = 1
        self._set_roll_marks()
        self.position = 0

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the end offset; OSError when the disk refuses, and then nothing has
        changed.
        """
        self.write_staged()
        full = self.active
        if not full.size_bytes:
            return
        try:
            segment = self._files.create_segment(self.log_end_offset, now_ms)
        except OSError as error:
            self._files.report_error(error)
            raise
        try:
            full.finish()
            self._files.write_snapshot(self.log_end_offset, self._producers.states)
        except OSError as error:
            # Both only save time at the next start, and the index is written again later.
            self._files.report_error(error)
        if len(full.transaction_index):
            self._flusher.aborts_written(full)
        self._files.segments.append(segment)
        self._continue_in(segment)
        if self.on_roll is not None:
            self.on_roll()

    def begin_at(self, offset: int, now_ms: int) -> None:
        """Go on at this offset, behind the end, with the active segment still empty; nothing is staged.
        OSError when the disk refuses, and then nothing has changed.
        """
        empty = self.active
        assert not empty.size_bytes
        segment = self._files.create_segment(offset, now_ms)
        self._files.segments[-1] = segment
        self.log_end_offset = self._reader.end_offset = offset
        self._continue_in(segment)
        empty.remove()

    def begin_below(self, offset: int, now_ms: int) -> None:
        """As `begin_at`, for an empty log whose first batch begins below its start offset. OSError when the
        disk refuses, and then nothing has changed.
        """
        segments = self._files.segments
        while len(segments) > 1:  # a crash has interrupted this once before
            segments[0].remove()
            del segments[0]
        if offset < self.active.base_offset:
            self.begin_at(offset, now_ms)
        else:
            self.log_end_offset = self._reader.end_offset = offset

    def stay_empty(self, offset: int) -> None:
        """What `begin_below` made room for could not be written: the log ends at this offset, as before."""
        self.log_end_offset = self._reader.end_offset = offset

    def restart(self, end_offset: int) -> None:
        """The segments have been cut, and end at this offset; nothing is staged."""
        self.log_end_offset = self._reader.end_offset = end_offset
        self.leader_epoch = self._epochs.latest()
        self._continue_in(self._files.active)

    def _continue_in(self, segment: Segment) -> None:
        self.active = segment
        self.since_index = self._since_index_written = 0
        self._adopt_active()
        self._set_roll_marks()
