"""The transactions of one log (KIP-98): which are open, the last stable offset, and which were aborted.

    offset      10       20        30         40        50
                begin A  begin B   abort A    commit B

    aborted_in(10, 50)   A, offsets 10 to 30: found in the index of the segment that holds its marker

Invariant: nothing here changes a log. Transactions begin and end by batches (Producers.record,
end_transaction). Guards, which live in memory only, are taken here (verification.py). Aborted transactions
are found segment by segment; full segments without any are skipped.

Not here: who takes part in which transaction (coordinator/transaction/), appending (leader_append.py),
whether a batch may begin one (producers.py).
"""

from bisect import bisect_right

from moldau.broker.log.appending.verification import Verification
from moldau.broker.log.files.segment import CorruptSegment, Segment
from moldau.broker.log.reading.reader import Reader
from moldau.broker.log.state.producers import Producers
from moldau.broker.log.state.transaction_index import AbortedTransaction, DamagedIndex


class Transactions:
    """The transactions of one log."""

    __slots__ = ("_open", "_producers", "_reader")

    def __init__(self, producers: Producers, reader: Reader) -> None:
        self._producers = producers
        self._open = producers.transactions
        self._reader = reader

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has a transaction open here, in this very epoch: its next batch needs no
        guard.
        """
        return self._producers.is_open(producer_id, producer_epoch)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below this offset every transaction is decided; the high watermark when none is open.

        While a cut's producers are read anew, none is known to be decided: a marker that was cut off may have
        ended what is open again.
        """
        transactions = self._open
        if transactions.is_unknown:
            return min(self._reader.start_offset, high_watermark)
        if not transactions.ongoing and not transactions.unreplicated:
            return high_watermark
        unstable = transactions.first_unstable_offset(high_watermark)
        if unstable is None or unstable > high_watermark:
            return high_watermark
        # The beginning of an open transaction may have been deleted.
        return max(unstable, self._reader.start_offset)

    def settle(self, high_watermark: int) -> None:
        """Forget what has been decided below the high watermark, so that a log without readers does not
        keep every transaction; cheap enough to be called after every marker.
        """
        self._open.settle(high_watermark)

    # -- guards ------------------------------------------------------------------------------------

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int = -1, *, bumps_epoch: bool = False
    ) -> Verification:
        """A guard for the batch that shall begin a transaction, to be taken before its coordinator is asked
        (KIP-890).

        `base_sequence` is the batch's, so that none behind it gets ahead when it has to be tried again.
        `bumps_epoch`: the producer uses transaction version 2.
        """
        return self._producers.verifications.begin(producer_id, producer_epoch, base_sequence, bumps_epoch)

    def verification_holds(self, verification: Verification) -> bool:
        """Whether nothing has broken the guard since it was taken."""
        return self._producers.verifications.is_current(verification, verification.producer_id)

    # -- aborted ones ------------------------------------------------------------------------------

    def aborted_for_fetch(self, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
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
