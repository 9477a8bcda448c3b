"""Transactions as one log sees them: the batch that begins one, the marker that ends it, and what readers are
told of those that were aborted (KIP-98, KIP-890).

    begin_verification ── the coordinator is asked ── append_verified ── append ... append ── append_marker
                                                      opens             goes on (hot path)    ends

Most of this is the append of appender.py with another judgement. Aborted transactions are found segment by
segment; full segments without any are not even looked at.

Not here: who takes part in which transaction (coordinator/transaction/), the judgement (producers.py).
"""

from bisect import bisect_right

from moldau.log.append_result import AppendResult
from moldau.log.appender import Appender, Origin
from moldau.log.reader import Reader
from moldau.log.segment import CorruptSegment, Segment
from moldau.log.transaction_index import AbortedTransaction, DamagedIndex
from moldau.log.verification import Verification
from moldau.records.control import EndTransactionMarker, build_end_transaction_marker


class TransactionalAppender(Appender):
    """A log's growing end that knows transactions."""

    __slots__ = ()

    # -- writing -----------------------------------------------------------------------------------

    def transaction_is_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has a transaction open here, in this very epoch: its next batch needs no
        guard.
        """
        return self.producers.is_open(producer_id, producer_epoch)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int = -1, *, bumps_epoch: bool = False
    ) -> Verification:
        """A guard for the batch that shall begin a transaction, to be taken before its coordinator is asked
        (KIP-890).

        `base_sequence` is the batch's, so that none behind it gets ahead when it has to be tried again.
        `bumps_epoch`: the producer uses transaction version 2.
        """
        return self.producers.verifications.begin(producer_id, producer_epoch, base_sequence, bumps_epoch)

    def verification_holds(self, verification: Verification) -> bool:
        """Whether nothing has broken the guard since it was taken."""
        return self.producers.verifications.is_current(verification, verification.producer_id)

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

        Refused with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED when somebody newer has been
        here.
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

    def settle_transactions(self, high_watermark: int) -> None:
        """Forget what has been decided below the high watermark, so that a log that nobody reads does not
        remember every transaction; cheap enough to be called after every marker.
        """
        self._transactions.settle(high_watermark)

    # -- reading -----------------------------------------------------------------------------------

    @property
    def read_end_offset(self) -> int:
        """The offset behind the last batch that the last `read` returned."""
        return self._reader.read_end

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions with an offset in this range, as a Fetch
        answer lists them; CorruptSegment when an index has been damaged since the log was opened.
        """
        return [(each.producer_id, each.first_offset) for each in self.aborted_in(start_offset, end_offset)]

    def aborted_in(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with an offset in this range, by the offset of their end."""
        found: list[AbortedTransaction] = []
        for segment in _with_aborts(self._reader, start_offset):
            try:
                hits, complete = segment.transaction_index.overlapping(start_offset, end_offset)
            except (DamagedIndex, FileNotFoundError) as error:
                raise CorruptSegment(str(error)) from error
            found += hits
            if complete:
                break
        return found


def _with_aborts(reader: Reader, start_offset: int) -> list[Segment]:
    """The segments in which transactions were aborted, from the one on that holds `start_offset`."""
    segments = reader.segments
    full = len(segments) - 1
    if reader.aborts_known != full:
        for segment in segments[reader.aborts_known : full]:
            if len(segment.transaction_index):
                reader.aborts.append(segment)
        reader.aborts_known = full
    aborts = reader.aborts
    first = 0
    if aborts and aborts[0].base_offset < start_offset:
        first = bisect_right(aborts, start_offset, key=lambda segment: segment.base_offset) - 1
    active = segments[-1]
    found = aborts[first:]
    if len(active.transaction_index):
        found.append(active)
    return found
