"""Producer state of one log: epochs, sequence numbers, the last five batches, open transactions (KIP-98).

An idempotent producer numbers its records per partition. The number expected next is accepted, a number seen
among the last five batches is a repetition (answered with the first answer, not written again), anything else
is refused. A producer that is not known may begin with any number: its state may have expired, or the records
that held it may be gone.

A producer's state is a plain tuple that is replaced, never changed. So a log that stages batches and must
take them back only has to keep the tuples that were replaced; the rollback is exact.

Sequence numbers run from 0 to 2^31 - 1 and begin again at 0.

A transactional batch goes on with the transaction that its producer has open here, in the same epoch, or
begins one; only a batch that carries a current guard may begin one (verification.py). A marker ends it. With
transactions of version 2 (KIP-890) the marker carries the producer's next epoch, so that what arrives late in
the old one is refused, and the next batch begins at sequence 0.

HOT, with the append's budget (bench/hot_path.py): leader_append.py reads the tuple's fields by position for
the one usual case, the next number of a known producer; `judge` is the same decision with all its cases. Not
here: the snapshot files (snapshots.py), what open transactions mean to readers (open_transactions.py).
"""

from collections.abc import Sequence
from typing import NamedTuple

from moldau.broker.log.appending.batch_error import BatchError
from moldau.broker.log.appending.verification import Verification, Verifications
from moldau.broker.log.state.open_transactions import CompletedTransaction, OpenTransactions
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchView, last_sequence
from moldau.common.records.control import ControlType, EndTransactionMarker, parse_end_transaction_marker

BATCHES_KEPT = 5
NO_TRANSACTION = -1
UNKNOWN_COORDINATOR_EPOCH = -1
_NO_END = 1 << 63

__all__ = [
    "CompletedTransaction",
    "ProducerBatch",
    "ProducerState",
    "Producers",
    "Verification",
]


class ProducerBatch(NamedTuple):
    """One of a producer's latest batches."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int


class ProducerState(NamedTuple):
    """What is known of one producer. leader_append.py unpacks it whole, in this order."""

    producer_epoch: int
    last_sequence: int
    last_offset: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int
    batches: tuple[ProducerBatch, ...]


class Producers:
    """The producers of one log, by producer id."""

    __slots__ = ("all_expired", "ongoing", "states", "transactions", "verifications")

    def __init__(self) -> None:
        self.states: dict[int, ProducerState] = {}
        self.transactions = OpenTransactions()
        self.ongoing = self.transactions.ongoing
        """First offset of an open transaction -> producer id; ascending."""
        self.verifications = Verifications()
        self.all_expired = False
        """The last known producer has expired: the next start must not rebuild it from the batches."""

    # -- judging -----------------------------------------------------------------------------------

    def judge(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        last_offset_delta: int,
        transactional: bool,
        guard: Verification | None = None,
    ) -> BatchError | ProducerBatch | None:
        """Whether a client's batch may be appended: None if so; the earlier batch if it is a duplicate; or
        the refusal.

        `guard` was taken before the coordinator was asked about the transaction that the batch would begin.
        """
        state = self.states.get(producer_id)
        if state is not None and producer_epoch == state.producer_epoch:
            wanted = (base_sequence, last_sequence(base_sequence, last_offset_delta))
            for batch in state.batches:
                if (batch.base_sequence, batch.last_sequence) == wanted:
                    return batch
        refusal = self.judge_epoch(state, producer_id, producer_epoch) if state is not None else None
        if refusal is None and transactional and not self.is_open(producer_id, producer_epoch):
            refusal = self._judge_guard(state, producer_id, producer_epoch, base_sequence, guard)
        if refusal is not None or state is None:
            return refusal
        refusal = self._judge_sequence(state, producer_id, producer_epoch, base_sequence)
        if refusal is None and state.transaction_first_offset != NO_TRANSACTION and not transactional:
            return BatchError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has an open transaction here, and the batch is not part of one",
            )
        return refusal

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has a transaction open, begun or continued in this very epoch."""
        state = self.states.get(producer_id)
        return (
            state is not None
            and state.transaction_first_offset != NO_TRANSACTION
            and state.producer_epoch == producer_epoch
        )

    def _judge_guard(
        self,
        state: ProducerState | None,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        guard: Verification | None,
    ) -> BatchError | None:
        """Whether the batch may begin a transaction."""
        if guard is None or not self.verifications.is_current(guard, producer_id):
            return BatchError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has no open transaction here, and the batch may not begin one",
            )
        if guard.producer_epoch != producer_epoch:
            return None
        if guard.bumps_epoch and base_sequence and (state is None or not state.batches):
            return BatchError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} begins its transaction with sequence {base_sequence} instead of 0",
            )
        # Of a known producer the next number is known, too.
        if state is None and 0 <= guard.lowest_sequence < base_sequence:
            return BatchError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {base_sequence}, and {guard.lowest_sequence} before "
                "it is still to come",
            )
        return None

    def _judge_sequence(
        self, state: ProducerState, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> BatchError | None:
        """Whether the batch carries the number that is expected next."""
        if state.producer_epoch == NO_PRODUCER_EPOCH:
            return None
        if producer_epoch != state.producer_epoch:
            if base_sequence:
                return BatchError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} begins its epoch {producer_epoch} with sequence "
                    f"{base_sequence} instead of 0",
                )
        elif base_sequence != (state.last_sequence + 1) & 0x7FFFFFFF:
            return BatchError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {base_sequence} after {state.last_sequence}",
            )
        return None

    def judge_epoch(self, state: ProducerState, producer_id: int, producer_epoch: int) -> BatchError | None:
        """Refuse a producer epoch that a later one has fenced."""
        if producer_epoch >= state.producer_epoch:
            return None
        return BatchError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} is at epoch {state.producer_epoch}, the batch carries {producer_epoch}",
        )

    def judge_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int = 0
    ) -> BatchError | None:
        """Whether a transaction's end may be written: neither its producer nor its coordinator is
        outdated.

        From transaction version 2 on a marker has a later epoch than what it ends (KIP-1228); one of the
        producer's own epoch can only be the repetition of a marker that has come already, which is taken
        while no transaction is open, and changes nothing.
        """
        state = self.states.get(producer_id)
        if state is None:
            return None
        refusal = self.judge_epoch(state, producer_id, producer_epoch)
        if refusal is not None:
            return refusal
        if transaction_version >= 2 and self.is_open(producer_id, producer_epoch):
            return BatchError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has a transaction open in epoch {producer_epoch}, "
                "which a marker of the same epoch cannot end",
            )
        if state.coordinator_epoch > coordinator_epoch:
            return BatchError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the marker has coordinator epoch {coordinator_epoch}, known is {state.coordinator_epoch}",
            )
        return None

    # -- changing ----------------------------------------------------------------------------------

    def replay(self, batch: BatchView) -> CompletedTransaction | None:
        """Apply a batch that is in the log; returns the transaction that it ended, if any."""
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
            self.transactions.begin(base_offset, producer_id)
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
        self.verifications.end(producer_id)
        if first_offset == NO_TRANSACTION:
            return None
        completed = CompletedTransaction(
            producer_id, first_offset, offset, marker.control_type == ControlType.ABORT
        )
        self.transactions.end(completed)
        return completed

    def restore(self, before: Sequence[tuple[int, ProducerState | None]], end_offset: int) -> None:
        """Undo everything from `end_offset` on: `before` has the states (None: unknown) that were replaced,
        in the order in which they were.

        Guards that a marker has broken stay broken: their batches are refused, and asked for again.
        """
        for producer_id, state in reversed(before):
            current = self.states.get(producer_id)
            if current is not None and current.transaction_first_offset != NO_TRANSACTION:
                self.ongoing.pop(current.transaction_first_offset, None)
            if state is None:
                self.states.pop(producer_id, None)
                continue
            self.states[producer_id] = state
            if state.transaction_first_offset != NO_TRANSACTION:
                self.transactions.reopen(state.transaction_first_offset, producer_id)
        self.transactions.truncate(end_offset)

    def clear(self) -> None:
        """Forget all producers."""
        self.states.clear()
        self.transactions.clear()
        self.verifications.clear()

    def load(self, states: dict[int, ProducerState]) -> None:
        """Begin with these states (from a snapshot)."""
        self.clear()
        self.states.update(states)
        for producer_id, state in states.items():
            if state.transaction_first_offset != NO_TRANSACTION:
                self.transactions.reopen(state.transaction_first_offset, producer_id)
        self.transactions.truncate(_NO_END)

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
        self.all_expired |= bool(expired) and not self.states
        self.verifications.sweep()
        return len(expired)
