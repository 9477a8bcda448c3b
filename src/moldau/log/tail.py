"""The growing end of a log: what is staged, how it is written and taken back, when a segment is full.

    staged    the batches of this turn of the loop, in memory: `log_end_offset` counts them
    written   in the file: readers see these, up to `written_end_offset`
    flushed   forced to the disk, up to `flushed_end_offset`: what recovery need not read again

All staged batches are written with one system call. When that fails, offsets, producers, epochs and indexes
are again exactly what they were when the last write succeeded, and none of the batches was ever readable.

HOT: `flush_staged` and `_write`. Budget: 1 microsecond beside the system call.

Not here: what may be appended (appender.py), and everything else that is done to a log (log.py).
"""

import logging
from collections.abc import Callable
from typing import TypeAlias

from moldau.core.files import Buffer, Files
from moldau.core.settings.topic import TopicSettings
from moldau.log.descriptors import DescriptorLimit
from moldau.log.epochs import LeaderEpochs
from moldau.log.index import TAIL_ENTRIES_MAX
from moldau.log.producers import Producers, ProducerState
from moldau.log.reader import LATEST_BYTES_MAX, Reader
from moldau.log.segment import RELATIVE_OFFSET_MAX, Segment
from moldau.log.snapshots import write_snapshot
from moldau.log.transaction_index import TAIL_ENTRIES_MAX as ABORTED_IN_MEMORY_MAX
from moldau.log.transaction_index import AbortedTransaction
from moldau.log.validation import COUNTED_RECORDS_MAX
from moldau.records.usual import FAR, make_marks

LARGE_BATCH_BYTES = 64 * 1024
"""From this size on a batch is not copied but written at once."""

_Undo: TypeAlias = list[tuple[int, ProducerState | None]]

logger = logging.getLogger(__name__)


class Tail:
    """The last segment of a log, with what is staged for it."""

    __slots__ = (
        "_aborted_due",
        "_aborts_unsynced",
        "_active",
        "_directory_changes",
        "_directory_changes_synced",
        "_epochs_before",
        "_epochs_stale",
        "_failure",
        "_files",
        "_generation",
        "_index_due",
        "_index_interval_bytes",
        "_leader_epoch",
        "_marks",
        "_max_timestamp_ms",
        "_max_timestamp_offset",
        "_position",
        "_producers_expired",
        "_reader",
        "_segments",
        "_since_index",
        "_since_index_written",
        "_snapshot_offsets",
        "_staged",
        "_states",
        "_transactions",
        "_undo",
        "descriptors",
        "directory",
        "epochs",
        "flushed_end_offset",
        "last_flush_ms",
        "log_end_offset",
        "offline",
        "offline_cause",
        "on_error",
        "on_roll",
        "partition",
        "producers",
        "read",
        "roll_jitter_ms",
        "settings",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        settings: TopicSettings,
        descriptors: DescriptorLimit,
        segments: list[Segment],
        epochs: LeaderEpochs,
        producers: Producers,
        *,
        start_offset: int,
        end_offset: int,
        flushed_end_offset: int,
        snapshot_offsets: list[int],
        roll_jitter_ms: int = 0,
        topic_id: bytes | None = None,
        directory_dirty: bool = True,
    ) -> None:
        """`directory_dirty`: files may have been created that a power cut would still take away."""
        self._files = files
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.descriptors = descriptors
        self.epochs = epochs
        self.producers = producers
        self.roll_jitter_ms = roll_jitter_ms
        self.on_error: Callable[[Tail, OSError], None] = lambda log, error: None
        """Called with every error of the disk, before it is answered or raised."""
        self.on_roll: Callable[[Tail], None] = lambda log: None
        """Called when a segment is full: a good moment to sync it."""
        self.offline = False
        self.offline_cause = ""
        """Why this log alone is offline; empty when its directory is."""
        self.last_flush_ms = 0
        self.log_end_offset = end_offset
        self.flushed_end_offset = flushed_end_offset
        self._segments = segments
        self._active = segments[-1]
        self._reader = Reader(segments, start_offset, end_offset)
        self.read = self._reader.read
        self._states = producers.states
        self._transactions = producers.transactions
        self._snapshot_offsets = snapshot_offsets
        self._staged = bytearray()
        self._undo: _Undo = []
        self._index_due: list[tuple[int, int, int, int]] = []
        self._aborted_due: list[AbortedTransaction] = []
        # Full segments whose transaction index is perhaps not on the disk. Unlike the other indexes it cannot
        # do with less than all, so recovery has to begin no later than here.
        self._aborts_unsynced: list[Segment] = []
        self._epochs_before: list[tuple[int, int]] | None = None
        self._epochs_stale = False
        # All producers have been forgotten: the next start must not take them up from the batches again.
        self._producers_expired = False
        self._failure: OSError | None = None
        self._generation = 0
        # A count, not a flag: two syncs may be under way, and the later one may end first.
        self._directory_changes = int(directory_dirty)
        self._directory_changes_synced = 0
        self._since_index = self._since_index_written = 0
        self._position = 0
        self._max_timestamp_ms = self._max_timestamp_offset = 0
        self._marks = make_marks(COUNTED_RECORDS_MAX, LARGE_BATCH_BYTES)
        self._adopt_active()
        self._leader_epoch = epochs.latest()
        self.reconfigure(settings)

    # -- what it is --------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._reader.start_offset

    @property
    def written_end_offset(self) -> int:
        """The offset behind the last batch that is in the file: readers see everything before it."""
        return self._reader.end_offset

    @property
    def size_bytes(self) -> int:
        """What the segments' log files hold, without what is staged."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, in order; the last one grows."""
        return tuple(self._segments)

    @property
    def latest_leader_epoch(self) -> int:
        """The highest leader epoch known to the log, or -1."""
        return self.epochs.latest()

    @property
    def recovery_point(self) -> int:
        """Everything below is on the disk, transaction indexes included; recovery begins here."""
        unsynced = self._aborts_unsynced
        return min(self.flushed_end_offset, unsynced[0].base_offset) if unsynced else self.flushed_end_offset

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below this offset every transaction is decided; the high watermark when none is open."""
        transactions = self._transactions
        if not transactions.ongoing and not transactions.unreplicated:
            return high_watermark
        unstable = transactions.first_unstable_offset(high_watermark)
        if unstable is None or unstable > high_watermark:
            return high_watermark
        # The beginning of an open transaction may have been deleted.
        return max(unstable, self._reader.start_offset)

    def reconfigure(self, settings: TopicSettings) -> None:
        """From now on these settings hold."""
        self.settings = settings
        self._index_interval_bytes = settings.index_interval_bytes
        self._set_roll_marks()

    def go_offline(self) -> None:
        """The disk has failed: nothing more is written. What can be read, is."""
        self.offline = True

    # -- leader epochs -----------------------------------------------------------------------------

    def _begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        if self._epochs_before is None:
            self._epochs_before = self.epochs.entries()
        self.assign_epoch(leader_epoch, start_offset)

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Records from `start_offset` on belong to this leader epoch (a leader says so before its first
        append).
        """
        if self.epochs.assign(leader_epoch, start_offset):
            self._write_epochs()
        self._leader_epoch = leader_epoch

    def _write_epochs(self) -> None:
        self._directory_changes += 1
        try:
            self._epochs_stale = True
            self.epochs.write()
            self._epochs_stale = False
        except OSError as error:
            # Recovery can complete the file from the batches; only the disk's state is news.
            self.on_error(self, error)

    # -- writing -----------------------------------------------------------------------------------

    def flush_staged(self) -> None:
        """Write what is staged; OSError when the disk does not take it, and then nothing of this turn was
        appended.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._roll_back()
            raise failure
        if self._staged:
            try:
                self._write([self._staged])
            finally:
                self._failure = None

    def _write_staged(self) -> None:
        """As `flush_staged`, in the middle of a turn: an error is kept, so that the end of the turn hears of
        it.
        """
        if self._staged:
            self._write([self._staged])

    def _write(self, buffers: list[Buffer]) -> None:
        """Write everything between the written and the staged end, and make it readable; roll back when that
        fails.
        """
        segment = self._active
        try:
            segment.write(buffers, self._position - segment.size_bytes, segment.size_bytes)
        except OSError as error:
            if self._staged:
                self._failure = error
            self._roll_back()
            self.on_error(self, error)
            raise
        reader = self._reader
        if 0 < len(self._staged) <= LATEST_BYTES_MAX:
            reader.latest, reader.latest_position = self._staged, segment.size_bytes
        elif reader.latest_position >= 0:
            reader.latest, reader.latest_position = b"", -1
        segment.size_bytes = self._position
        segment.max_timestamp_ms = self._max_timestamp_ms
        segment.max_timestamp_offset = self._max_timestamp_offset
        reader.end_offset = self.log_end_offset
        self._since_index_written = self._since_index
        if self._index_due:
            for entry in self._index_due:
                segment.add_index_entry(*entry)
            self._index_due.clear()
            self._check_indexes(segment)
        if self._aborted_due:
            for aborted in self._aborted_due:
                segment.transaction_index.append(aborted)
            self._aborted_due.clear()
            self._check_indexes(segment)
        if self._undo:
            self._undo.clear()
        self._epochs_before = None
        if self._staged:
            self._staged = bytearray()

    def _roll_back(self) -> None:
        """Offsets, producers, epochs and indexes are again as they were when the last write succeeded."""
        if self._undo:
            self.producers.restore(self._undo, self._reader.end_offset)
            self._undo.clear()
        self._index_due.clear()
        self._aborted_due.clear()
        self._staged = bytearray()
        self._since_index = self._since_index_written
        self.log_end_offset = self._reader.end_offset
        if self._epochs_before is not None:
            self.epochs.replace(self._epochs_before)
            self._epochs_before = None
            self._leader_epoch = self.epochs.latest()
            self._write_epochs()
        segment = self._active
        try:
            segment.cut(segment.size_bytes)
        except OSError:
            # The next write goes to the same place, and recovery cuts off what is torn.
            logger.warning("%s-%d: could not cut off a failed write", self.topic, self.partition)
        self._adopt_active()
        self._set_roll_marks()

    def _adopt_active(self) -> None:
        """Staged state begins as the active segment's written state."""
        segment = self._active
        self._position = segment.size_bytes
        self._max_timestamp_ms = segment.max_timestamp_ms
        self._max_timestamp_offset = segment.max_timestamp_offset
        self._marks.last_offset_max = segment.base_offset + RELATIVE_OFFSET_MAX

    def _check_indexes(self, segment: Segment) -> None:
        """Write index tails that have grown long; a full index makes the segment roll."""
        if (
            segment.offset_index.tail_entries >= TAIL_ENTRIES_MAX
            or segment.transaction_index.tail_entries >= ABORTED_IN_MEMORY_MAX
        ):
            try:
                segment.write_indexes()
            except OSError as error:
                self.on_error(self, error)
        limit = self.settings.segment_index_bytes
        if len(segment.offset_index) >= limit // 8 or len(segment.time_index) >= limit // 12:
            self._marks.roll_bytes = 0

    # -- rolling -----------------------------------------------------------------------------------

    def _set_roll_marks(self) -> None:
        """When the active segment must roll: by size, by its records' time, or by the clock if they have
        none.
        """
        segment, settings, marks = self._active, self.settings, self._marks
        age_ms = max(0, settings.segment_age_max_ms - self.roll_jitter_ms)
        marks.roll_bytes = settings.internal_segment_bytes or settings.segment_bytes
        marks.roll_above_ms = marks.roll_after_ms = FAR
        if not self._position:
            marks.roll_bytes = 0  # The first batch passes by `_make_room`, which sets the marks.
        elif segment.first_timestamp_ms >= 0:
            marks.roll_above_ms = min(FAR, segment.first_timestamp_ms + age_ms)
        else:
            marks.roll_after_ms = min(FAR, segment.created_ms + age_ms)

    def _make_room(self, size: int, last_offset: int, max_timestamp_ms: int, now_ms: int) -> None:
        """Roll if this batch must not go into the active segment."""
        marks = self._marks
        if self._position and (
            self._position + size > marks.roll_bytes
            or max_timestamp_ms > marks.roll_above_ms
            or now_ms > marks.roll_after_ms
            or last_offset > marks.last_offset_max
        ):
            self.roll(now_ms)
        if not self._position:
            self._active.first_timestamp_ms = max_timestamp_ms
            self._active.created_ms = now_ms
            self._position = 1
            self._set_roll_marks()
            self._position = 0

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the end offset; OSError when the disk refuses, and then nothing has
        changed.
        """
        self._write_staged()
        full = self._active
        if not full.size_bytes:
            return
        segment = Segment(self._files, self.directory, self.log_end_offset, self.descriptors, now_ms)
        try:
            segment.create()
        except OSError as error:
            self.on_error(self, error)
            raise
        self._directory_changes += 1
        try:
            full.finish()
            self._write_snapshot(self.log_end_offset)
        except OSError as error:
            # Both only save time at the next start, and the index is written again later.
            self.on_error(self, error)
        if len(full.transaction_index):
            self._aborts_unsynced.append(full)
        self._segments.append(segment)
        self._active = segment
        self._since_index = self._since_index_written = 0
        self._adopt_active()
        self._set_roll_marks()
        self.on_roll(self)

    def _write_snapshot(self, offset: int) -> None:
        if offset not in self._snapshot_offsets:
            self._directory_changes += 1
            write_snapshot(self._files, self.directory, offset, self._states)
            self._snapshot_offsets.append(offset)
