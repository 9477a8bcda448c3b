"""The transactions that hold back the last stable offset of one log: those that are open, and those that have
ended but whose marker is not yet below the high watermark (KIP-98).

    offset      10      20          30            40
                begin A  begin B    commit A      high watermark here: B is open, A is decided;
                                                  the last stable offset is 20

`ongoing` stays in the order of the first offsets, which is the order in which transactions begin, so the
first unstable offset is looked up and not searched. Taking back what was staged keeps that order.

HOT: `first_unstable_offset` runs for every read of a log with transactions; constant time, and logarithmic
for every transaction that has ended since. Not here: the producers' state (producers.py).
"""

from collections import OrderedDict
from heapq import heapify, heappop, heappush
from typing import NamedTuple

_SETTLE_FROM = 256


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The marker's."""
    aborted: bool


class OpenTransactions:
    """The undecided transactions of one log."""

    __slots__ = ("_settle_from", "is_unknown", "ongoing", "unreplicated")

    def __init__(self) -> None:
        self.ongoing: OrderedDict[int, int] = OrderedDict()
        """First offset of an open transaction -> producer id; ascending."""
        self.unreplicated: list[tuple[int, int]] = []
        """A heap of (first offset, marker's offset): ended, but perhaps above the high watermark."""
        self._settle_from = _SETTLE_FROM
        self.is_unknown = False
        """Whether the log was cut, and its transactions are still to be read anew."""

    def begin(self, first_offset: int, producer_id: int) -> None:
        """A transaction begins with the newest batch of the log."""
        self.ongoing[first_offset] = producer_id

    def end(self, completed: CompletedTransaction) -> None:
        """A marker, the newest batch of the log, has ended a transaction."""
        self.ongoing.pop(completed.first_offset, None)
        heappush(self.unreplicated, (completed.first_offset, completed.last_offset))

    def stable_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once this transaction, just ended, is replicated: what its index entry
        says.
        """
        return next(iter(self.ongoing), completed.last_offset + 1)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of a transaction that is open, or whose end lies at or above the high
        watermark.
        """
        unreplicated = self.unreplicated
        while unreplicated and unreplicated[0][1] < high_watermark:
            heappop(unreplicated)
        ongoing = next(iter(self.ongoing), None)
        if not unreplicated:
            return ongoing
        first = unreplicated[0][0]
        return first if ongoing is None or first < ongoing else ongoing

    def settle(self, high_watermark: int) -> None:
        """Forget what has ended below the high watermark, also when the stable offset is never read.

        Costs next to nothing when called after every marker: it looks only once there are twice as many.
        """
        if len(self.unreplicated) < self._settle_from:
            return
        self.unreplicated = [each for each in self.unreplicated if each[1] >= high_watermark]
        heapify(self.unreplicated)
        self._settle_from = max(_SETTLE_FROM, 2 * len(self.unreplicated))

    def reopen(self, first_offset: int, producer_id: int) -> None:
        """Undo: the transaction is open again. `truncate` must follow."""
        self.ongoing[first_offset] = producer_id

    def truncate(self, end_offset: int) -> None:
        """Undo: the log ends here again, and markers from here on have not been."""
        self.unreplicated = [each for each in self.unreplicated if each[1] < end_offset]
        heapify(self.unreplicated)
        if len(self.ongoing) > 1:
            for first_offset in sorted(self.ongoing):
                self.ongoing.move_to_end(first_offset)

    def clear(self) -> None:
        """Forget all."""
        self.ongoing.clear()
        self.unreplicated.clear()
