"""Appending to a log: judged by the header, staged in memory, written once a turn of the event loop.

    staged                the batches of this turn of the loop, in memory: `log_end_offset` counts them
    written               in the file: readers see these, up to `written_end_offset`
    flushed               forced to the disk, up to `flushed_end_offset`: what recovery need not read again

An append judges a batch by its header, gives it its offset, and stages it; `flush_staged` writes all staged batches with one
system call. When that fails, offsets, producers, epochs and indexes are again exactly what they were, and none of the batches
was ever readable. A large batch is written at once, without a copy.

HOT: `append` and `flush_staged`. Budget: 2 microseconds for the append of a 168-byte batch with one record beside the crc,
3 with an idempotent producer; nothing per record. The condition in `append` names all that makes a batch usual; every other
goes to `_append_carefully`, which knows all cases and words all refusals.

Not here: reading (reader.py), the careful checks (validation.py), and what else a log does (log.py).
"""

import errno
import logging
from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

from crc32c import crc32c

from moldau.core.files import Buffer, Files
from moldau.core.settings.topic import TopicSettings
from moldau.log.descriptors import DescriptorLimit
from moldau.log.epochs import LeaderEpochs
from moldau.log.index import TAIL_ENTRIES_MAX
from moldau.log.outcome import Appended, AppendResult, Outcome, Refused, Repeated
from moldau.log.producers import ProducerBatch, Producers, ProducerState
from moldau.log.reader import Reader
from moldau.log.segment import Segment
from moldau.log.snapshots import write_snapshot
from moldau.log.validation import COUNTED_RECORDS_MAX, Rules, prepare
from moldau.protocol.errors import ErrorCode
from moldau.records.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    POSITION,
    POSITION_BYTES,
    RECORD_BYTES_MIN,
    BatchView,
    CorruptBatch,
    iter_batches,
)
from moldau.records.control import parse_end_transaction_marker
from moldau.records.record import records_fill_payload

LARGE_BATCH_BYTES = 64 * 1024
"""From this size on a batch is not copied but written at once."""
_FAR = 1 << 63
_RELATIVE_OFFSET_MAX = (1 << 31) - 1

_unpack_header = HEADER.unpack_from
_pack_position = POSITION.pack
# A named tuple made this way costs a third of its constructor.
_new_tuple = tuple.__new__
_Undo: TypeAlias = list[tuple[int, ProducerState | None]]

logger = logging.getLogger(__name__)


class Origin(IntEnum):
    """Who appends. Clients are checked in everything, coordinators in form, replication only against damage."""

    CLIENT = 0
    COORDINATOR = 1
    REPLICATION = 2


CLIENT = Origin.CLIENT


def is_disk_full(error: OSError) -> bool:
    """Whether the error goes away by itself when somebody makes room."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Appender:
    """The growing end of a log. `Log` adds the rest."""

    __slots__ = (
        "_active",
        "_after_max_ms",
        "_directory_dirty",
        "_epochs_before",
        "_failure",
        "_files",
        "_generation",
        "_index_due",
        "_index_interval_bytes",
        "_last_offset_max",
        "_leader_epoch",
        "_max_timestamp_ms",
        "_max_timestamp_offset",
        "_plain_attributes",
        "_position",
        "_reader",
        "_roll_above_ms",
        "_roll_after_ms",
        "_roll_bytes",
        "_rules",
        "_segments",
        "_since_index",
        "_since_index_written",
        "_size_bytes_max",
        "_snapshot_offsets",
        "_staged",
        "_states",
        "_undo",
        "descriptors",
        "directory",
        "epochs",
        "flushed_end_offset",
        "last_flush_ms",
        "log_end_offset",
        "offline",
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
    ) -> None:
        self._files = files
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.descriptors = descriptors
        self.epochs = epochs
        self.producers = producers
        self.roll_jitter_ms = roll_jitter_ms
        self.on_error: Callable[[Appender, OSError], None] = lambda log, error: None
        """Called with every error of the disk, before it is answered or raised."""
        self.on_roll: Callable[[Appender], None] = lambda log: None
        """Called when a segment is full: a good moment to sync it."""
        self.offline = False
        self.last_flush_ms = 0
        self.log_end_offset = end_offset
        self.flushed_end_offset = flushed_end_offset
        self._segments = segments
        self._active = segments[-1]
        self._reader = Reader(segments, start_offset, end_offset)
        self.read = self._reader.read
        self._states = producers.states
        self._snapshot_offsets = snapshot_offsets
        self._staged = bytearray()
        self._undo: _Undo = []
        self._index_due: list[tuple[int, int, int, int]] = []
        self._epochs_before: list[tuple[int, int]] | None = None
        self._failure: OSError | None = None
        self._generation = 0
        self._directory_dirty = True
        self._since_index = self._since_index_written = 0
        self._position = 0
        self._max_timestamp_ms = self._max_timestamp_offset = 0
        self._last_offset_max = 0
        self._adopt_active()
        self._leader_epoch = epochs.latest()
        self.reconfigure(settings)

    # -- what it is -----------------------------------------------------------------------------------------------

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
        """Everything below is on the disk; recovery begins here."""
        return self.flushed_end_offset

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below this offset every transaction is decided; the high watermark when none is open."""
        producers = self.producers
        if not producers.ongoing and not producers.unreplicated:
            return high_watermark
        unstable = producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def reconfigure(self, settings: TopicSettings) -> None:
        """From now on these settings hold."""
        self.settings = settings
        self._rules = Rules(settings)
        self._plain_attributes = self._rules.plain_attributes
        self._after_max_ms = self._rules.after_max_ms
        self._index_interval_bytes = settings.index_interval_bytes
        self._size_bytes_max = -1 if self.offline else self._rules.size_bytes_max
        self._set_roll_marks()

    def go_offline(self) -> None:
        """The disk has failed: every further append is refused. What can be read, is."""
        self.offline = True
        self._size_bytes_max = -1

    # -- appending ------------------------------------------------------------------------------------------------

    def append(
        self, batches: memoryview, *, leader_epoch: int, now_ms: int, origin: Origin = CLIENT
    ) -> AppendResult:
        """Give the batch its offsets and stage it; refusals are results, not exceptions.

        From CLIENT and COORDINATOR exactly one batch; from REPLICATION any number, with their offsets and epochs. The
        result stands only once `flush_staged` has returned.
        """
        size = len(batches)
        if size < HEADER_BYTES or origin is not CLIENT:
            return self._append_carefully(batches, leader_epoch, now_ms, origin)
        (
            base_offset,
            length,
            _,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp_ms,
            max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ) = _unpack_header(batches)
        base = self.log_end_offset
        last = base + last_offset_delta
        position = self._position
        if not (
            base_offset == 0
            and length + LENGTH_OVERHEAD == size <= self._size_bytes_max
            and magic == 2
            and attributes in self._plain_attributes
            and leader_epoch == self._leader_epoch
            and 0 <= last_offset_delta == count - 1
            and base_timestamp_ms <= max_timestamp_ms <= now_ms + self._after_max_ms
            and max_timestamp_ms <= self._roll_above_ms
            and now_ms <= self._roll_after_ms
            and position + size <= self._roll_bytes
            and last <= self._last_offset_max
            and (
                attributes
                or (
                    # One record whose length takes two bytes, the usual small batch: its length must fill the batch.
                    count == 1
                    and batches[61] > 0x7F
                    and (batches[62] << 6) + ((batches[61] & 0x7F) >> 1) + 63 == size
                )
                or (
                    records_fill_payload(batches, HEADER_BYTES, count)
                    if count <= COUNTED_RECORDS_MAX
                    else count * RECORD_BYTES_MIN <= size - HEADER_BYTES
                )
            )
            and crc32c(batches[21:]) == crc
            and size < LARGE_BATCH_BYTES
        ):
            return self._append_carefully(batches, leader_epoch, now_ms, origin)
        if producer_id >= 0:
            state = self._states.get(producer_id)
            if (
                state is None
                or state[0] != producer_epoch
                or (state[1] + 1) & 0x7FFFFFFF != base_sequence
                or state[5] != -1
                or not state[6]
            ):
                return self._append_carefully(batches, leader_epoch, now_ms, origin)
            self._undo.append((producer_id, state))
            final = (base_sequence + last_offset_delta) & 0x7FFFFFFF
            latest = _new_tuple(ProducerBatch, (base_sequence, final, base, last, max_timestamp_ms))
            batches_kept = (*state[6][-4:], latest)
            self._states[producer_id] = _new_tuple(
                ProducerState, (producer_epoch, final, last, max_timestamp_ms, state[4], -1, batches_kept)
            )
        self._staged += _pack_position(base, length, leader_epoch)
        self._staged += batches[POSITION_BYTES:]
        if max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = max_timestamp_ms
            self._max_timestamp_offset = last
        if self._since_index > self._index_interval_bytes:
            self._index_due.append((last, position, self._max_timestamp_ms, self._max_timestamp_offset))
            self._since_index = 0
        self._since_index += size
        self._position = position + size
        self.log_end_offset = last + 1
        return Appended(base, last, -1, self._reader.start_offset)

    def _append_carefully(
        self, batches: memoryview, leader_epoch: int, now_ms: int, origin: Origin
    ) -> AppendResult:
        """The append with all its cases."""
        if self.offline or self._failure is not None:
            return self._refuse(Outcome(ErrorCode.KAFKA_STORAGE_ERROR, "the log's directory is not writable"))
        if origin is Origin.REPLICATION:
            return self._append_replicated(batches, now_ms)
        view = prepare(batches, self._rules, now_ms, from_client=origin is CLIENT)
        if isinstance(view, Outcome):
            return self._refuse(view)
        base = self.log_end_offset
        verdict = self._judge_producer(view, origin)
        if isinstance(verdict, ProducerBatch):
            return Repeated(verdict.base_offset, verdict.last_offset, -1, self.log_start_offset)
        if verdict is not None:
            return self._refuse(verdict)
        refusal = self._place(view, base, leader_epoch, now_ms)
        if refusal is not None:
            return self._refuse(refusal)
        append_time_ms = now_ms if self._rules.append_time else -1
        return Appended(base, base + view.last_offset_delta, append_time_ms, self.log_start_offset)

    def _refuse(self, outcome: Outcome) -> Refused:
        return Refused(int(outcome.error_code), outcome.message, self.log_start_offset, outcome.record_errors)

    def _judge_producer(self, view: BatchView, origin: Origin) -> Outcome | ProducerBatch | None:
        if view.producer_id < 0:
            return None
        if view.is_control:
            try:
                markers = [parse_end_transaction_marker(record) for record in view.records()]
            except ValueError as error:
                return Outcome(ErrorCode.INVALID_RECORD, str(error))
            coordinator_epoch = max((marker.coordinator_epoch for marker in markers if marker), default=-1)
            return self.producers.judge_marker(view.producer_id, view.producer_epoch, coordinator_epoch)
        if origin is not CLIENT:
            state = self._states.get(view.producer_id)
            return self.producers.judge_epoch(state, view.producer_id, view.producer_epoch) if state else None
        return self.producers.judge(
            view.producer_id,
            view.producer_epoch,
            view.base_sequence,
            view.last_offset_delta,
            view.is_transactional,
        )

    def _append_replicated(self, batches: memoryview, now_ms: int) -> AppendResult:
        """Batches from a leader: their offsets and epochs stand, and must follow on what is here."""
        first, last = -1, -1
        try:
            views = list(iter_batches(batches))
        except CorruptBatch as error:
            return self._refuse(Outcome(ErrorCode.CORRUPT_MESSAGE, str(error)))
        for view in views:
            if not view.crc_is_valid():
                return self._refuse(Outcome(ErrorCode.CORRUPT_MESSAGE, f"the crc of {view} is wrong"))
            if view.base_offset < self.log_end_offset or view.last_offset_delta < 0:
                message = f"{view} does not follow on the end offset {self.log_end_offset}"
                return self._refuse(Outcome(ErrorCode.OFFSET_OUT_OF_RANGE, message))
            refusal = self._place(view, view.base_offset, view.leader_epoch, now_ms)
            if refusal is not None:
                return self._refuse(refusal)
            first = view.base_offset if first < 0 else first
            last = view.last_offset
        return Appended(first, last, -1, self.log_start_offset)

    def _place(self, view: BatchView, base: int, leader_epoch: int, now_ms: int) -> Outcome | None:
        """Stage an accepted batch, or write it at once if it is large; the refusal when the disk does not take it."""
        size, last = view.size_bytes, base + view.last_offset_delta
        try:
            self._make_room(size, last, view.max_timestamp_ms, now_ms)
            if size >= LARGE_BATCH_BYTES:
                self._write_staged()
        except OSError as error:
            return self._storage_error(error)
        if leader_epoch != self._leader_epoch:
            self._begin_epoch(leader_epoch, base)
        self._note_producer(view, base, last)
        if view.max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms, self._max_timestamp_offset = view.max_timestamp_ms, last
        if self._since_index > self._index_interval_bytes:
            self._index_due.append((last, self._position, self._max_timestamp_ms, self._max_timestamp_offset))
            self._since_index = 0
        self._since_index += size
        self._position += size
        self.log_end_offset = last + 1
        head = _pack_position(base, size - LENGTH_OVERHEAD, leader_epoch)
        body = memoryview(view.data)[POSITION_BYTES:]
        if size < LARGE_BATCH_BYTES:
            self._staged += head
            self._staged += body
            return None
        try:
            self._write([head, body])
        except OSError as error:
            return self._storage_error(error)
        return None

    def _storage_error(self, error: OSError) -> Outcome:
        return Outcome(
            ErrorCode.KAFKA_STORAGE_ERROR, f"the batch could not be written: {error.strerror or error}"
        )

    def _note_producer(self, view: BatchView, base: int, last: int) -> None:
        producer_id = view.producer_id
        if producer_id < 0:
            return
        self._undo.append((producer_id, self._states.get(producer_id)))
        if not view.is_control:
            self.producers.record(
                producer_id,
                view.producer_epoch,
                view.base_sequence,
                base,
                last,
                view.max_timestamp_ms,
                view.is_transactional,
            )
            return
        for record in view.records():
            marker = parse_end_transaction_marker(record)
            if marker is not None:
                self.producers.end_transaction(
                    producer_id, view.producer_epoch, marker, base, record.timestamp_ms
                )

    def _begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        if self._epochs_before is None:
            self._epochs_before = self.epochs.entries()
        self.assign_epoch(leader_epoch, start_offset)

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Records from `start_offset` on belong to this leader epoch (a leader says so before its first append)."""
        if self.epochs.assign(leader_epoch, start_offset):
            self._write_epochs()
        self._leader_epoch = leader_epoch

    def _write_epochs(self) -> None:
        self._directory_dirty = True
        try:
            self.epochs.write()
        except OSError as error:
            # Recovery can complete the file from the batches; only the disk's state is news.
            self.on_error(self, error)

    # -- writing --------------------------------------------------------------------------------------------------

    def flush_staged(self) -> None:
        """Write what is staged; OSError when the disk does not take it, and then nothing of this turn was appended."""
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
        """As `flush_staged`, in the middle of a turn: an error is kept, so that the end of the turn hears of it."""
        if self._staged:
            self._write([self._staged])

    def _write(self, buffers: list[Buffer]) -> None:
        """Write everything between the written and the staged end, and make it readable; roll back when that fails."""
        segment = self._active
        try:
            segment.write(buffers, self._position - segment.size_bytes, segment.size_bytes)
        except OSError as error:
            if self._staged:
                self._failure = error
            self._roll_back()
            self.on_error(self, error)
            raise
        segment.size_bytes = self._position
        segment.max_timestamp_ms = self._max_timestamp_ms
        segment.max_timestamp_offset = self._max_timestamp_offset
        self._reader.end_offset = self.log_end_offset
        self._since_index_written = self._since_index
        if self._index_due:
            for entry in self._index_due:
                segment.add_index_entry(*entry)
            self._index_due.clear()
            self._check_indexes(segment)
        if self._undo:
            self._undo.clear()
        self._epochs_before = None
        if self._staged:
            self._staged = bytearray()

    def _roll_back(self) -> None:
        """Offsets, producers, epochs and indexes are again as they were when the last write succeeded."""
        for producer_id, state in reversed(self._undo):
            self.producers.restore(producer_id, state)
        self._undo.clear()
        self._index_due.clear()
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
        self._last_offset_max = segment.base_offset + _RELATIVE_OFFSET_MAX

    def _check_indexes(self, segment: Segment) -> None:
        """Write index tails that have grown long; a full index makes the segment roll."""
        if segment.offset_index.tail_entries >= TAIL_ENTRIES_MAX:
            try:
                segment.write_indexes()
            except OSError as error:
                self.on_error(self, error)
        limit = self.settings.segment_index_bytes
        if len(segment.offset_index) >= limit // 8 or len(segment.time_index) >= limit // 12:
            self._roll_bytes = 0

    # -- rolling --------------------------------------------------------------------------------------------------

    def _set_roll_marks(self) -> None:
        """When the active segment must roll: by size, by its records' time, or by the clock if they have none."""
        segment = self._active
        settings = self.settings
        age_ms = max(0, settings.segment_ms - self.roll_jitter_ms)
        self._roll_bytes = settings.internal_segment_bytes or settings.segment_bytes
        self._roll_above_ms = self._roll_after_ms = _FAR
        if not self._position:
            self._roll_bytes = 0  # The first batch passes by `_make_room`, which sets the marks.
        elif segment.first_timestamp_ms >= 0:
            self._roll_above_ms = segment.first_timestamp_ms + age_ms
        else:
            self._roll_after_ms = segment.created_ms + age_ms

    def _make_room(self, size: int, last_offset: int, max_timestamp_ms: int, now_ms: int) -> None:
        """Roll if this batch must not go into the active segment."""
        if self._position and (
            self._position + size > self._roll_bytes
            or max_timestamp_ms > self._roll_above_ms
            or now_ms > self._roll_after_ms
            or last_offset > self._last_offset_max
        ):
            self.roll(now_ms)
        if not self._position:
            self._active.first_timestamp_ms = max_timestamp_ms
            self._active.created_ms = now_ms
            self._position = 1
            self._set_roll_marks()
            self._position = 0

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the end offset; OSError when the disk refuses, and then nothing has changed."""
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
        self._directory_dirty = True
        try:
            full.finish()
            self._write_snapshot(self.log_end_offset)
        except OSError as error:
            # Both only save time at the next start, and the index is written again later.
            self.on_error(self, error)
        self._segments.append(segment)
        self._active = segment
        self._since_index = self._since_index_written = 0
        self._adopt_active()
        self._set_roll_marks()
        self.on_roll(self)

    def _write_snapshot(self, offset: int) -> None:
        if offset not in self._snapshot_offsets:
            write_snapshot(self._files, self.directory, offset, self._states)
            self._snapshot_offsets.append(offset)
