"""Appends that wait for the high watermark (or for this replica), in offset order, with their timeouts.

    end offset    10   12   12   15   20         reached up to 12: the first three are taken
    timeout       30s  -    5s   30s  30s        -: as long as it takes

There is no timer per append. `expire` is called periodically while anything waits, and counts a timeout from
the first call that sees the append; most appends are taken before that. Invariant: an append is taken once,
by the first of `reached`, `lost`, `expire` and `clear`.

Hot: `add` (which role.py does by `append` where it can) and `reached` run for every Produce request; budget
with the partition (bench/hot_path.py). Not here: which offset is reached when (role.py).
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Any

Entry = tuple[int, Any, int | None]
"""End offset, waiter, timeout in milliseconds or None."""

_SPARE_ENTRIES = 64
_NONE: frozenset[int] = frozenset()  # most partitions never need a set of their own


class WaitingAppends:
    """One partition's appends that wait for the same kind of progress."""

    __slots__ = ("_due", "_gone", "_reached", "_seen", "_serial", "entries", "last_end_offset")

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()
        """Always this object."""
        self.last_end_offset = -1
        """At least that of the last entry."""
        self._gone: set[int] | frozenset[int] = _NONE  # ids of entries that have timed out: passed over
        self._due: list[tuple[float, int, Entry]] = []  # a heap, by deadline
        self._seen: object = None  # the last entry that `expire` has seen
        self._reached = -1
        self._serial = 0

    def __len__(self) -> int:
        return len(self.entries) - len(self._gone)

    def add(self, end_offset: int, waiter: Any, timeout_ms: int | None) -> None:
        """`waiter` waits until `end_offset` is reached; `timeout_ms` None: without limit.

        A duplicate batch, which lies before others that wait, is settled with the last of them.
        """
        self.last_end_offset = end_offset = max(end_offset, self.last_end_offset)
        self.entries.append((end_offset, waiter, timeout_ms))

    def reached(self, end_offset: int) -> list[Any]:
        """Take those that waited for this offset, or for one before it."""
        self._reached = end_offset
        entries, gone = self.entries, self._gone
        if entries and not gone and entries[-1][0] <= end_offset:  # as after most turns: all of them
            waiters = [entry[1] for entry in entries]
            entries.clear()
            return waiters
        waiters = []
        while entries and entries[0][0] <= end_offset:
            entry = entries.popleft()
            if gone and id(entry) in gone:
                self._forget(entry)
            else:
                waiters.append(entry[1])
        return waiters

    def lost(self, end_offset: int) -> list[Any]:
        """Take those whose records were rolled back: the log ends at this offset again."""
        waiters = []
        entries = self.entries
        while entries and entries[-1][0] > end_offset:
            entry = entries.pop()
            if id(entry) in self._gone:
                self._forget(entry)
            else:
                waiters.append(entry[1])
            if entry is self._seen:
                self._seen = entries[-1] if entries else None
        waiters.reverse()
        self._due = [each for each in self._due if each[2][0] <= end_offset]
        heapify(self._due)
        self.last_end_offset = end_offset
        return waiters

    def clear(self) -> list[Any]:
        """Take all."""
        waiters = [entry[1] for entry in self.entries if id(entry) not in self._gone]
        self.entries.clear()
        self._gone = _NONE
        self._due = []
        self._seen = None
        self._reached = self.last_end_offset = -1
        return waiters

    def expire(self, now_ms: float) -> list[Any]:
        """Take those whose timeout has passed since an earlier call saw them."""
        due = self._due
        late = []
        while due and due[0][0] <= now_ms:
            entry = heappop(due)[2]
            if self._waits(entry):
                late.append(entry)
        self._pass_over(late)
        for entry in reversed(self.entries):
            if entry is self._seen:
                break
            if entry[2] is not None and id(entry) not in self._gone:
                self._serial += 1
                heappush(due, (now_ms + max(0, entry[2]), self._serial, entry))
        self._seen = self.entries[-1] if self.entries else None
        self._tidy()
        return [entry[1] for entry in late]

    def _pass_over(self, entries: list[Entry]) -> None:
        if entries:
            if not isinstance(self._gone, set):
                self._gone = set()
            self._gone.update(map(id, entries))

    def _forget(self, entry: Entry) -> None:
        """A timed-out entry leaves the queue."""
        assert isinstance(self._gone, set)
        self._gone.discard(id(entry))

    def _waits(self, entry: Entry) -> bool:
        return entry[0] > self._reached and id(entry) not in self._gone

    def _tidy(self) -> None:
        """Drop settled entries once they outnumber the waiting ones, and all of them once nothing waits: a
        waiter keeps its connection in memory.
        """
        if not len(self):
            self.entries.clear()
            self._due.clear()
            self._gone, self._seen = _NONE, None
            return
        if len(self._due) > 2 * len(self) + _SPARE_ENTRIES:
            self._due = [each for each in self._due if self._waits(each[2])]
            heapify(self._due)
        if len(self._gone) > len(self) + _SPARE_ENTRIES:
            kept = [entry for entry in self.entries if id(entry) not in self._gone]
            self._due = [each for each in self._due if self._waits(each[2])]
            heapify(self._due)
            self.entries.clear()
            self.entries.extend(kept)
            self._gone = _NONE
            self._seen = kept[-1] if kept else None
