"""What a log remembers of the producers that write to it: epochs, sequence numbers, their last batches
(KIP-98).

An idempotent producer numbers its records per partition. The number expected next is accepted, a number seen
among the last five batches is a repetition (answered with the first answer, not written again), anything else
is refused. A producer that is not known may begin with any number: its state may have expired, or the records
that held it may be gone.

A producer's state is a plain tuple that is replaced, never changed. So a log that stages batches and must
take them back only has to keep the tuples that were replaced; the rollback is exact.

Sequence numbers run from 0 to 2^31 - 1 and begin again at 0.

HOT: log.py reads the tuple's fields by position for the one usual case, the next number of a known producer;
`judge` is the same decision with all its cases. Not here: the snapshot files (snapshots.py).
"""

from typing import NamedTuple

from moldau.log.outcome import Outcome
from moldau.protocol.errors import ErrorCode
from moldau.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchView, last_sequence
from moldau.records.control import ControlType, EndTransactionMarker, parse_end_transaction_marker

BATCHES_KEPT = 5
NO_TRANSACTION = -1
UNKNOWN_COORDINATOR_EPOCH = -1


class ProducerBatch(NamedTuple):
    """One of a producer's latest batches."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int


class ProducerState(NamedTuple):
    """What is known of one producer. The order of the fields is relied upon in log.py."""

    producer_epoch: int
    last_sequence: int
    last_offset: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int
    batches: tuple[ProducerBatch, ...]


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class Producers:
    """The producers of one log, by producer id."""

    __slots__ = ("ongoing", "states", "unreplicated")

    def __init__(self) -> None:
        self.states: dict[int, ProducerState] = {}
        self.ongoing: dict[int, int] = {}
        """First offset of an open transaction -> producer id."""
        self.unreplicated: list[CompletedTransaction] = []
        """Ended, but the marker may still lie above the high watermark."""

    # -- judging -----------------------------------------------------------------------------------

    def judge(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        last_offset_delta: int,
        transactional: bool,
    ) -> Outcome | ProducerBatch | None:
        """Whether a client's batch may be appended: None if so; the batch it repeats; or the refusal."""
        state = self.states.get(producer_id)
        if state is None:
            return None
        if producer_epoch == state.producer_epoch:
            wanted = (base_sequence, last_sequence(base_sequence, last_offset_delta))
            for batch in state.batches:
                if (batch.base_sequence, batch.last_sequence) == wanted:
                    return batch
        refusal = self.judge_epoch(state, producer_id, producer_epoch)
        if refusal is not None:
            return refusal
        if producer_epoch != state.producer_epoch:
            if base_sequence != 0 and state.producer_epoch != NO_PRODUCER_EPOCH:
                return Outcome(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} begins its epoch {producer_epoch} with sequence "
                    f"{base_sequence} instead of 0",
                )
        elif (
            state.producer_epoch != NO_PRODUCER_EPOCH
            and base_sequence != (state.last_sequence + 1) & 0x7FFFFFFF
        ):
            return Outcome(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {base_sequence} after {state.last_sequence}",
            )
        if state.transaction_first_offset != NO_TRANSACTION and not transactional:
            return Outcome(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has an open transaction here, and the batch is not part of one",
            )
        return None

    def judge_epoch(self, state: ProducerState, producer_id: int, producer_epoch: int) -> Outcome | None:
        """Whether the producer has not been replaced by a later incarnation."""
        if producer_epoch >= state.producer_epoch:
            return None
        return Outcome(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} is at epoch {state.producer_epoch}, the batch carries {producer_epoch}",
        )

    def judge_marker(self, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> Outcome | None:
        """Whether a transaction's end may be written: neither its producer nor its coordinator is
        outdated.
        """
        state = self.states.get(producer_id)
        if state is None:
            return None
        if state.coordinator_epoch > coordinator_epoch:
            return Outcome(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the marker has coordinator epoch {coordinator_epoch}, known is {state.coordinator_epoch}",
            )
        return self.judge_epoch(state, producer_id, producer_epoch)

    # -- changing ----------------------------------------------------------------------------------

    def replay(self, batch: BatchView) -> CompletedTransaction | None:
        """Take up a batch that is in the log; returns the transaction that it ended, if it did."""
        if batch.producer_id < 0:
            return None
        if not batch.is_control:
            self.record(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.max_timestamp_ms,
                batch.is_transactional,
            )
            return None
        for record in batch.records():
            marker = parse_end_transaction_marker(record)
            if marker is not None:
                return self.end_transaction(
                    batch.producer_id, batch.producer_epoch, marker, record.offset, record.timestamp_ms
                )
        return None

    def record(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        base_offset: int,
        last_offset: int,
        max_timestamp_ms: int,
        transactional: bool,
    ) -> None:
        """A batch of this producer now is in the log."""
        final = last_sequence(base_sequence, last_offset - base_offset)
        latest = ProducerBatch(base_sequence, final, base_offset, last_offset, max_timestamp_ms)
        state = self.states.get(producer_id)
        batches: tuple[ProducerBatch, ...] = (latest,)
        coordinator_epoch, first_offset = UNKNOWN_COORDINATOR_EPOCH, NO_TRANSACTION
        if state is not None:
            coordinator_epoch, first_offset = state.coordinator_epoch, state.transaction_first_offset
            if state.producer_epoch == producer_epoch:
                batches = (*state.batches[1 - BATCHES_KEPT :], latest)
        if transactional and first_offset == NO_TRANSACTION:
            first_offset = base_offset
            self.ongoing[base_offset] = producer_id
        self.states[producer_id] = ProducerState(
            producer_epoch, final, last_offset, max_timestamp_ms, coordinator_epoch, first_offset, batches
        )

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: EndTransactionMarker,
        offset: int,
        timestamp_ms: int,
    ) -> CompletedTransaction | None:
        """A marker at `offset` ends the producer's transaction; None when none was open."""
        state = self.states.get(producer_id)
        first_offset = state.transaction_first_offset if state else NO_TRANSACTION
        batches = state.batches if state and state.producer_epoch == producer_epoch else ()
        self.states[producer_id] = ProducerState(
            producer_epoch,
            batches[-1].last_sequence if batches else NO_SEQUENCE,
            batches[-1].last_offset if batches else -1,
            timestamp_ms,
            marker.coordinator_epoch,
            NO_TRANSACTION,
            batches,
        )
        if first_offset == NO_TRANSACTION:
            return None
        self.ongoing.pop(first_offset, None)
        completed = CompletedTransaction(
            producer_id, first_offset, offset, marker.control_type == ControlType.ABORT
        )
        self.unreplicated.append(completed)
        return completed

    def restore(self, producer_id: int, state: ProducerState | None) -> None:
        """Undo: the producer's state is again what it was (None: unknown)."""
        current = self.states.get(producer_id)
        if current is not None and current.transaction_first_offset != NO_TRANSACTION:
            self.ongoing.pop(current.transaction_first_offset, None)
        if state is None:
            self.states.pop(producer_id, None)
            return
        self.states[producer_id] = state
        first_offset = state.transaction_first_offset
        if first_offset != NO_TRANSACTION:
            self.ongoing[first_offset] = producer_id
            self.unreplicated = [done for done in self.unreplicated if done.first_offset != first_offset]

    def clear(self) -> None:
        """Forget all producers."""
        self.states.clear()
        self.ongoing.clear()
        self.unreplicated.clear()

    def load(self, states: dict[int, ProducerState]) -> None:
        """Begin with these states (from a snapshot)."""
        self.clear()
        self.states.update(states)
        for producer_id, state in states.items():
            if state.transaction_first_offset != NO_TRANSACTION:
                self.ongoing[state.transaction_first_offset] = producer_id

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have not written for so long and have no open transaction; returns how
        many.
        """
        expired = [
            producer_id
            for producer_id, state in self.states.items()
            if state.transaction_first_offset == NO_TRANSACTION
            and now_ms - state.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self.states[producer_id]
        return len(expired)

    # -- the last stable offset --------------------------------------------------------------------

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of a transaction that is open, or whose end lies at or above the high
        watermark.
        """
        if self.unreplicated:
            self.unreplicated = [done for done in self.unreplicated if done.last_offset >= high_watermark]
        candidates = [*self.ongoing, *(done.first_offset for done in self.unreplicated)]
        return min(candidates) if candidates else None
