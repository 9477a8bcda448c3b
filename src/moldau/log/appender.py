"""Appending to a log: judged by the header, staged in memory, written once a turn of the event loop.

An append judges a batch by its header, gives it its offset, and copies it behind what is staged already
(tail.py writes that at the end of the turn). A large batch is written at once, without a copy.

HOT: `append`. Budget: 2 microseconds for the append of a 168-byte batch with one record
beside the crc, 3 with an idempotent producer; nothing per record. The condition in `append` names all that
makes a batch usual; every other goes to `_append_carefully`, which knows all cases and words all refusals.

Not here: reading (reader.py), the careful checks (validation.py), and what else a log does (log.py).
"""

import errno
from enum import IntEnum

from moldau.core.settings.topic import TopicSettings
from moldau.log.append_result import Appended, AppendResult, Deferred, Refusal, Refused, Repeated
from moldau.log.inspection import Inspection
from moldau.log.producers import ProducerBatch, ProducerState
from moldau.log.rules import Rules
from moldau.log.tail import LARGE_BATCH_BYTES, Tail
from moldau.log.transaction_index import AbortedTransaction
from moldau.log.validation import prepare, stamp
from moldau.log.verification import Verification
from moldau.protocol.errors import ErrorCode
from moldau.records.batch import (
    LENGTH_OVERHEAD,
    POSITION,
    POSITION_BYTES,
    TRANSACTIONAL,
    BatchView,
    CorruptBatch,
    iter_batches,
)
from moldau.records.control import parse_end_transaction_marker
from moldau.records.usual import attribute_mask, stage

_pack_position = POSITION.pack
# A named tuple made this way costs a third of its constructor.
_new_tuple = tuple.__new__


class Origin(IntEnum):
    """Who appends. Clients are checked in everything, coordinators in form, replication only against
    damage.
    """

    CLIENT = 0
    COORDINATOR = 1
    REPLICATION = 2


CLIENT = Origin.CLIENT


def is_disk_full(error: OSError) -> bool:
    """Whether the error goes away by itself when somebody makes room."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Appender(Tail):
    """The growing end of a log, with its doorkeeper. `Log` adds the rest."""

    __slots__ = ("_rules",)

    def reconfigure(self, settings: TopicSettings) -> None:
        self._rules = rules = Rules(settings)
        marks = self._marks
        marks.attributes = attribute_mask(rules.plain_attributes)
        marks.after_max_ms = rules.after_max_ms
        marks.size_bytes_max = -1 if self.offline else rules.size_bytes_max
        super().reconfigure(settings)

    def go_offline(self) -> None:
        super().go_offline()
        self._marks.size_bytes_max = -1

    # -- appending ---------------------------------------------------------------------------------

    def append(
        self, batches: memoryview, leader_epoch: int, now_ms: int, origin: Origin = CLIENT
    ) -> AppendResult:
        """Give the batch its offsets and stage it; refusals are results, not exceptions.

        `Deferred`: a client's batch whose many records must be looked at first; nothing has happened yet.

        From CLIENT and COORDINATOR exactly one batch; from REPLICATION any number, with their offsets and
        epochs. The result stands only once `flush_staged` has returned.
        """
        base, position = self.log_end_offset, self._position
        if origin is not CLIENT or leader_epoch != self._leader_epoch:
            return self._append_carefully(batches, leader_epoch, now_ms, origin)
        usual = self._marks.judge(batches, base, position, now_ms)
        if usual is None:
            return self._append_carefully(batches, leader_epoch, now_ms, origin)
        last_offset_delta, attributes, max_timestamp_ms, producer_id, producer_epoch, base_sequence = usual
        last = base + last_offset_delta
        if producer_id >= 0:
            state = self._states.get(producer_id)
            if (
                state is None
                or state[0] != producer_epoch
                or (state[1] + 1) & 0x7FFFFFFF != base_sequence
                or (state[5] == -1 if attributes & TRANSACTIONAL else state[5] != -1)
                or not state[6]
            ):
                return self._append_carefully(batches, leader_epoch, now_ms, origin)
            self._undo.append((producer_id, state))
            final = (base_sequence + last_offset_delta) & 0x7FFFFFFF
            latest = _new_tuple(ProducerBatch, (base_sequence, final, base, last, max_timestamp_ms))
            batches_kept = (*state[6][-4:], latest)
            self._states[producer_id] = _new_tuple(
                ProducerState,
                (producer_epoch, final, last, max_timestamp_ms, state[4], state[5], batches_kept),
            )
        elif attributes & TRANSACTIONAL:
            return self._append_carefully(batches, leader_epoch, now_ms, origin)
        stage(self._staged, batches, base, leader_epoch)
        if max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = max_timestamp_ms
            self._max_timestamp_offset = last
        if self._since_index > self._index_interval_bytes:
            self._index_due.append((last, position, self._max_timestamp_ms, self._max_timestamp_offset))
            self._since_index = 0
        size = len(batches)
        self._since_index += size
        self._position = position + size
        self.log_end_offset = last + 1
        return _new_tuple(Appended, (base, last, -1, self._reader.start_offset))

    def _append_carefully(
        self,
        batches: memoryview,
        leader_epoch: int,
        now_ms: int,
        origin: Origin,
        guard: Verification | None = None,
        transaction_version: int = 0,
    ) -> AppendResult:
        """The append with all its cases."""
        if self.offline or self._failure is not None:
            return self._refuse(Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the log's directory is not writable"))
        if origin is Origin.REPLICATION:
            return self._append_replicated(batches, now_ms)
        view = prepare(batches, self._rules, now_ms, from_client=origin is CLIENT)
        if isinstance(view, Refusal):
            return self._refuse(view)
        if isinstance(view, Inspection):
            return Deferred(view, self.log_start_offset)
        return self._append_prepared(view, leader_epoch, now_ms, origin, guard, transaction_version)

    def append_inspected(
        self, inspection: Inspection, leader_epoch: int, now_ms: int, guard: Verification | None = None
    ) -> AppendResult:
        """Append a client's batch whose inspection has run; `guard` as in `append_verified`.

        Its producer is judged now: a marker that came meanwhile counts, and so does a batch that got ahead.
        """
        if self.offline or self._failure is not None:
            return self._refuse(Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the log's directory is not writable"))
        result = inspection.result
        assert result is not None, "the inspection has not run"
        if isinstance(result, Refusal):
            return self._refuse(result)
        view = stamp(result, self._rules, now_ms)
        return self._append_prepared(view, leader_epoch, now_ms, CLIENT, guard, 0)

    def _append_prepared(
        self,
        view: BatchView,
        leader_epoch: int,
        now_ms: int,
        origin: Origin,
        guard: Verification | None,
        transaction_version: int,
    ) -> AppendResult:
        base = self.log_end_offset
        verdict = self._judge_producer(view, origin, guard, transaction_version)
        if isinstance(verdict, ProducerBatch):
            return Repeated(verdict.base_offset, verdict.last_offset, -1, self.log_start_offset)
        if verdict is not None:
            return self._refuse(verdict)
        refusal = self._place(view, base, leader_epoch, now_ms)
        if refusal is not None:
            return self._refuse(refusal)
        append_time_ms = now_ms if self._rules.append_time else -1
        return Appended(base, base + view.last_offset_delta, append_time_ms, self.log_start_offset)

    def _refuse(self, outcome: Refusal) -> Refused:
        return Refused(int(outcome.error_code), outcome.message, self.log_start_offset, outcome.record_errors)

    def _judge_producer(
        self, view: BatchView, origin: Origin, guard: Verification | None, transaction_version: int
    ) -> Refusal | ProducerBatch | None:
        if view.producer_id < 0:
            return None
        if view.is_control:
            try:
                markers = [parse_end_transaction_marker(record) for record in view.records()]
            except ValueError as error:
                return Refusal(ErrorCode.INVALID_RECORD, str(error))
            coordinator_epoch = max((marker.coordinator_epoch for marker in markers if marker), default=-1)
            return self.producers.judge_marker(
                view.producer_id, view.producer_epoch, coordinator_epoch, transaction_version
            )
        if origin is not CLIENT:
            state = self._states.get(view.producer_id)
            return self.producers.judge_epoch(state, view.producer_id, view.producer_epoch) if state else None
        return self.producers.judge(
            view.producer_id,
            view.producer_epoch,
            view.base_sequence,
            view.last_offset_delta,
            view.is_transactional,
            guard,
        )

    def _append_replicated(self, batches: memoryview, now_ms: int) -> AppendResult:
        """Batches from a leader: their offsets and epochs stand, and must follow on what is here."""
        first, last = -1, -1
        try:
            views = list(iter_batches(batches))
        except CorruptBatch as error:
            return self._refuse(Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)))
        for view in views:
            if not view.crc_is_valid():
                return self._refuse(Refusal(ErrorCode.CORRUPT_MESSAGE, f"the crc of {view} is wrong"))
            if view.base_offset < self.log_end_offset or view.last_offset_delta < 0:
                message = f"{view} does not follow on the end offset {self.log_end_offset}"
                return self._refuse(Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, message))
            refusal = self._place(view, view.base_offset, view.leader_epoch, now_ms)
            if refusal is not None:
                return self._refuse(refusal)
            first = view.base_offset if first < 0 else first
            last = view.last_offset
        return Appended(first, last, -1, self.log_start_offset)

    def _place(self, view: BatchView, base: int, leader_epoch: int, now_ms: int) -> Refusal | None:
        """Stage an accepted batch, or write it at once if it is large; the refusal when the disk does not
        take it.
        """
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

    def _storage_error(self, error: OSError) -> Refusal:
        return Refusal(
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
                ended = self.producers.end_transaction(
                    producer_id, view.producer_epoch, marker, base, record.timestamp_ms
                )
                if ended is not None and ended.aborted:
                    stable = self.producers.transactions.stable_after(ended)
                    self._aborted_due.append(AbortedTransaction(*ended[:3], stable))
