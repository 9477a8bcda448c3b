"""Appends that wait for an offset to be reached, in the order of their offsets, and how long they wait.

    end offset    10   12   12   15   20         reached up to 12: the first three are taken
    timeout       30s  -    5s   30s  30s        -: as long as it takes

There is no timer an append. `expire` is called now and then while anything waits, and counts a timeout from
the first call that sees the append: most appends are taken before there is one. Invariant: an append is taken
once, by whichever of `reached`, `lost`, `expire` and `clear` comes first.

Hot: `add` and `reached` run for every Produce request. Not here: what is reached when (role.py).
"""

from collections import deque
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final

_END_OFFSET: Final = 0
_WAITER: Final = 1
_TIMEOUT_MS: Final = 2
_SEEN: Final = 3
_SPARE_ENTRIES = 64


class WaitingAppends:
    """One partition's appends that wait for the same mark."""

    __slots__ = ("_due", "_entries", "_gone", "_reached", "_serial")

    def __init__(self) -> None:
        # [end offset, waiter (None: it has timed out), timeout in ms or None, whether `expire` has seen it]
        self._entries: deque[list[Any]] = deque()
        self._gone = 0  # entries without a waiter
        self._due: list[tuple[float, int, list[Any]]] = []  # a heap, by deadline; of what was seen to wait
        self._reached = -1
        self._serial = count()

    def __len__(self) -> int:
        return len(self._entries) - self._gone

    def add(self, end_offset: int, waiter: Any, timeout_ms: int | None) -> None:
        """`waiter` waits until all before `end_offset` is reached; `timeout_ms` None: however long."""
        entries = self._entries
        if entries and entries[-1][0] > end_offset:
            end_offset = entries[-1][0]  # a repeated batch: it is answered with the one before it
        entries.append([end_offset, waiter, timeout_ms, False])

    def reached(self, end_offset: int) -> list[Any]:
        """Take those that waited for this offset, or for one before it."""
        entries = self._entries
        waiters = []
        while entries and entries[0][0] <= end_offset:
            waiter = entries.popleft()[1]
            if waiter is None:
                self._gone -= 1
            else:
                waiters.append(waiter)
        self._reached = end_offset
        return waiters

    def lost(self, end_offset: int) -> list[Any]:
        """Take those whose records lay at or behind this offset: the log ends here again."""
        waiters = []
        entries = self._entries
        while entries and entries[-1][_END_OFFSET] > end_offset:
            entry = entries.pop()
            if entry[_WAITER] is None:
                self._gone -= 1
            else:
                waiters.append(entry[_WAITER])
                entry[_WAITER] = None
        waiters.reverse()
        return waiters

    def give_up(self) -> list[Any]:
        """Take those that wait only for so long."""
        waiters = []
        for entry in self._entries:
            if entry[_TIMEOUT_MS] is not None and entry[_WAITER] is not None:
                waiters.append(entry[_WAITER])
                entry[_WAITER] = None
        self._gone += len(waiters)
        self._tidy()
        return waiters

    def clear(self) -> list[Any]:
        """Take all."""
        waiters = [entry[_WAITER] for entry in self._entries if entry[_WAITER] is not None]
        self._entries = deque()
        self._due = []
        self._gone = 0
        self._reached = -1
        return waiters

    def expire(self, now_ms: float) -> list[Any]:
        """Take those whose timeout has passed since a former call saw them."""
        due = self._due
        waiters = []
        while due and due[0][0] <= now_ms:
            entry = heappop(due)[2]
            if self._waits(entry):
                waiters.append(entry[_WAITER])
                entry[_WAITER] = None
        self._gone += len(waiters)
        for entry in reversed(self._entries):
            if entry[_SEEN]:
                break
            entry[_SEEN] = True
            if entry[_TIMEOUT_MS] is not None:
                heappush(due, (now_ms + max(0, entry[_TIMEOUT_MS]), next(self._serial), entry))
        self._tidy()
        return waiters

    def _waits(self, entry: list[Any]) -> bool:
        return entry[_WAITER] is not None and entry[_END_OFFSET] > self._reached

    def _tidy(self) -> None:
        """Keep no more than twice what waits."""
        if self._gone > len(self) + _SPARE_ENTRIES:
            self._entries = deque(entry for entry in self._entries if entry[_WAITER] is not None)
            self._gone = 0
        if len(self._due) > 2 * len(self) + _SPARE_ENTRIES:
            self._due = [each for each in self._due if self._waits(each[2])]
            heapify(self._due)
