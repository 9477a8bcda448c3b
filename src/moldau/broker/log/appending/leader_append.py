"""Appends as leader: validates a batch, checks its producer's epoch and sequence, assigns offsets, stages it.

A batch and its records are checked, it gets its offset, and is copied behind the batches staged already
(writer.py writes them at the end of the turn). A large batch is written at once, without a copy.

The first batch of a transaction needs a guard (verification.py); the broker itself writes the marker that
ends one (KIP-98, KIP-890):

    begin_verification ── the coordinator is asked ── append_verified ── append ... append ── append_marker
                                                      opens             goes on (hot path)    ends

HOT: `append`. Budget, with the write at the end of the turn: 2.6 reference loops for a batch with one record
(bench/hot_path.py). A batch that passes the condition in `append` is staged
there, with the writer's fields, instead of by `Writer.stage`; any other goes to `_append_carefully`, which
handles all cases and refusals.

Not here: batches that a leader sent (follower_append.py), the careful checks (validation.py), writing
(writer.py).
"""

from enum import IntEnum

from moldau.broker.log.appending.append_result import Appended, AppendResult, Deferred, Refused, Repeated
from moldau.broker.log.appending.batch_error import BatchError
from moldau.broker.log.appending.inspection import Inspection
from moldau.broker.log.appending.rules import Rules
from moldau.broker.log.appending.validation import prepare, stamp
from moldau.broker.log.appending.verification import Verification
from moldau.broker.log.appending.writer import Writer
from moldau.broker.log.reading.reader import Reader
from moldau.broker.log.state.producers import ProducerBatch, Producers, ProducerState
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import CODEC_MASK, HEADER, HEADER_BYTES, MAGIC, TRANSACTIONAL, BatchView
from moldau.common.records.control import (
    EndTransactionMarker,
    build_end_transaction_marker,
    parse_end_transaction_marker,
)
from moldau.common.records.headers import Readable
from moldau.common.records.packed_records import SHORT_RECORDS_MAX, Verdict, judge_packed
from moldau.common.records.usual import attribute_mask, stage
from moldau.common.settings.topic import TopicSettings

# A named tuple made this way costs a third of its constructor.
_new_tuple = tuple.__new__


class Origin(IntEnum):
    """Who appends: clients are checked in everything, coordinators in form."""

    CLIENT = 0
    COORDINATOR = 1


CLIENT = Origin.CLIENT
LONG = Verdict.LONG


class LeaderAppend:
    """Appends batches to one log as its leader."""

    __slots__ = ("_looks_inside", "_producers", "_reader", "_rules", "_states", "_writer")

    def __init__(self, writer: Writer, reader: Reader, producers: Producers, settings: TopicSettings) -> None:
        self._writer = writer
        self._reader = reader
        self._producers = producers
        self._states = producers.states
        self.reconfigure(settings)

    def reconfigure(self, settings: TopicSettings) -> None:
        """From now on these settings hold."""
        self._rules = rules = Rules(settings)
        marks = self._writer.marks
        marks.attributes = attribute_mask(rules.plain_attributes)
        marks.after_max_ms = rules.after_max_ms
        self._looks_inside = rules.looks_inside
        marks.walked_max = SHORT_RECORDS_MAX if rules.looks_inside else 0
        marks.size_bytes_max = rules.size_bytes_max

    # -- appending ---------------------------------------------------------------------------------

    def append(
        self, batches: memoryview, leader_epoch: int, now_ms: int, origin: Origin = CLIENT
    ) -> AppendResult:
        """Give the batch (exactly one) its offsets and stage it; refusals are results, not exceptions.

        `Deferred`: a client's batch whose many records must be looked at first; nothing has happened yet.
        The result stands only once `flush_staged` has returned.
        """
        writer = self._writer
        base, position = writer.log_end_offset, writer.position
        if origin is not CLIENT or leader_epoch != writer.leader_epoch or not writer.accepts:
            return self._append_carefully(batches, leader_epoch, now_ms, origin)
        usual = writer.marks.judge(batches, base, position, now_ms)
        if usual is None:
            return self._append_carefully(batches, leader_epoch, now_ms, origin)
        last_offset_delta, attributes, max_timestamp_ms, producer_id, producer_epoch, base_sequence = usual
        if attributes & CODEC_MASK and self._looks_inside:
            verdict = judge_packed(batches)
            if verdict:
                is_long = verdict is LONG
                return self._append_carefully(batches, leader_epoch, now_ms, origin, is_long=is_long)
        last = base + last_offset_delta
        if producer_id >= 0:
            state = self._states.get(producer_id)
            if state is None:
                return self._append_carefully(batches, leader_epoch, now_ms, origin)
            known_epoch, last_sequence, _, _, coordinator_epoch, transaction_start, latest = state
            if (
                known_epoch != producer_epoch
                or (last_sequence + 1) & 0x7FFFFFFF != base_sequence
                or (transaction_start == -1 if attributes & TRANSACTIONAL else transaction_start != -1)
                or not latest
            ):
                return self._append_carefully(batches, leader_epoch, now_ms, origin)
            writer.undo.append((producer_id, state))
            final = (base_sequence + last_offset_delta) & 0x7FFFFFFF
            this = _new_tuple(ProducerBatch, (base_sequence, final, base, last, max_timestamp_ms))
            self._states[producer_id] = _new_tuple(
                ProducerState,
                (
                    producer_epoch,
                    final,
                    last,
                    max_timestamp_ms,
                    coordinator_epoch,
                    transaction_start,
                    (*latest[-4:], this),
                ),
            )
        elif attributes & TRANSACTIONAL:
            return self._append_carefully(batches, leader_epoch, now_ms, origin)
        stage(writer.staged, batches, base, leader_epoch)
        if max_timestamp_ms > writer.max_timestamp_ms:
            writer.max_timestamp_ms = max_timestamp_ms
            writer.max_timestamp_offset = last
        if writer.since_index > writer.index_interval_bytes:
            writer.index_due.append((last, position, writer.max_timestamp_ms, writer.max_timestamp_offset))
            writer.since_index = 0
        size = len(batches)
        writer.since_index += size
        writer.position = position + size
        writer.log_end_offset = last + 1
        return _new_tuple(Appended, (base, last, -1, self._reader.start_offset))

    def append_verified(
        self,
        batches: memoryview,
        leader_epoch: int,
        now_ms: int,
        verification: Verification,
        origin: Origin = Origin.CLIENT,
    ) -> AppendResult:
        """Append a batch that may begin a transaction; INVALID_TXN_STATE when a marker has come since
        `verification` was taken.
        """
        return self._append_carefully(batches, leader_epoch, now_ms, origin, verification)

    def append_inspected(
        self, inspection: Inspection, leader_epoch: int, now_ms: int, guard: Verification | None = None
    ) -> AppendResult:
        """Append a client's batch whose inspection has run; `guard` as in `append_verified`.

        Its producer's state is checked now, after any marker or batch that came meanwhile.
        """
        result = inspection.result
        assert result is not None, "the inspection has not run"
        if self._writer.refuses_all:
            return self._refuse_all(inspection.prepared)
        if isinstance(result, BatchError):
            return self._refuse(result)
        view = stamp(result, self._rules, now_ms)
        return self._append_prepared(view, leader_epoch, now_ms, CLIENT, guard, 0)

    def append_marker(
        self,
        marker: EndTransactionMarker,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendResult:
        """End the producer's transaction; also one that never reached this partition.

        Refused with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED when a newer
        producer or coordinator has written here.
        """
        batch = build_end_transaction_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms
        )
        return self._append_carefully(
            memoryview(batch),
            leader_epoch,
            now_ms,
            Origin.COORDINATOR,
            transaction_version=transaction_version,
        )

    def _append_carefully(
        self,
        batches: memoryview,
        leader_epoch: int,
        now_ms: int,
        origin: Origin,
        guard: Verification | None = None,
        transaction_version: int = 0,
        *,
        is_long: bool = False,
    ) -> AppendResult:
        """The append with all its cases."""
        if self._writer.refuses_all:
            return self._refuse_all(batches if origin is CLIENT else None)
        view = prepare(batches, self._rules, now_ms, from_client=origin is CLIENT, is_long=is_long)
        if isinstance(view, BatchError):
            return self._refuse(view)
        if isinstance(view, Inspection):
            return Deferred(view, self._reader.start_offset)
        return self._append_prepared(view, leader_epoch, now_ms, origin, guard, transaction_version)

    def _append_prepared(
        self,
        view: BatchView,
        leader_epoch: int,
        now_ms: int,
        origin: Origin,
        guard: Verification | None,
        transaction_version: int,
    ) -> AppendResult:
        start_offset = self._reader.start_offset
        base = self._writer.log_end_offset
        verdict = self._judge_producer(view, origin, guard, transaction_version)
        lost, numbered = self._writer.lost, origin is CLIENT and view.producer_id >= 0
        if lost and numbered and not (verdict is None and self._is_next(view)):
            number = view.producer_id, view.producer_epoch, view.base_sequence
            verdict = lost.judge(*number, verdict, now_ms)
        if isinstance(verdict, ProducerBatch):
            return Repeated(verdict.base_offset, verdict.last_offset, -1, start_offset)
        if verdict is not None:
            return self._refuse(verdict)
        try:
            self._writer.stage(view, base, leader_epoch, now_ms)
        except OSError as error:
            if numbered:
                lost.note(view.producer_id, view.producer_epoch, view.base_sequence)
            message = f"the batch could not be written: {error.strerror or error}"
            return self._refuse(BatchError(ErrorCode.KAFKA_STORAGE_ERROR, message))
        append_time_ms = now_ms if self._rules.append_time else -1
        return Appended(base, base + view.last_offset_delta, append_time_ms, start_offset)

    # -- judging -----------------------------------------------------------------------------------

    def _judge_producer(
        self, view: BatchView, origin: Origin, guard: Verification | None, transaction_version: int
    ) -> BatchError | ProducerBatch | None:
        if view.producer_id < 0:
            return None
        producers = self._producers
        if view.is_control:
            try:
                markers = [parse_end_transaction_marker(record) for record in view.records()]
            except ValueError as error:
                return BatchError(ErrorCode.INVALID_RECORD, str(error))
            coordinator_epoch = max((marker.coordinator_epoch for marker in markers if marker), default=-1)
            return producers.judge_marker(
                view.producer_id, view.producer_epoch, coordinator_epoch, transaction_version
            )
        if origin is not CLIENT:
            state = self._states.get(view.producer_id)
            return producers.judge_epoch(state, view.producer_id, view.producer_epoch) if state else None
        return producers.judge(
            view.producer_id,
            view.producer_epoch,
            view.base_sequence,
            view.last_offset_delta,
            view.is_transactional,
            guard,
        )

    def _is_next(self, view: BatchView) -> bool:
        """Whether an accepted batch follows on one of its producer's: also one that was refused before, and
        was staged again in this turn.
        """
        state = self._states.get(view.producer_id)
        return state is not None and state.producer_epoch == view.producer_epoch

    def _refuse_all(self, batch: Readable | None) -> Refused:
        """Refuse a batch (a client's, if it is given) unread; what its producer sends behind it waits for
        it (lost_writes.py).
        """
        if batch is not None:
            self.note_refused(batch)
        return self._refuse(BatchError(ErrorCode.KAFKA_STORAGE_ERROR, "the log's directory is not writable"))

    def note_refused(self, batch: Readable) -> None:
        """A client's batch is refused unread, to be sent again: what its producer sends behind it waits for
        it (lost_writes.py).
        """
        if len(batch) >= HEADER_BYTES and not self._writer.offline:
            header = HEADER.unpack_from(batch)
            if header[3] == MAGIC and header[9] >= 0:
                self._writer.lost.note(*header[9:12])

    def _refuse(self, refusal: BatchError) -> Refused:
        return Refused(
            int(refusal.error_code), refusal.message, self._reader.start_offset, refusal.record_errors
        )
