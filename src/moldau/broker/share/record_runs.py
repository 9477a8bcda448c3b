"""The states of a share-partition's records, as runs of neighbouring offsets in the same state.

    offset   100        140   141        160                 161 ...
             Acquired   Gap   Available  (end of the runs)   not looked at yet
             by m1, 1st       2nd time
             ^ start offset: everything before it is ended

A run stands for any number of offsets, so that ten million offsets without records cost as much as one. The
runs are sorted, touch one another, and cover everything from the start offset to the end. Whoever changes a
part of a run cuts it first.

Invariants: `runs` covers [start_offset, end_offset) without holes or overlaps; the first run is not ended (or
there is none). Not here: who may change what (share_partition.py).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import TypeVar

T = TypeVar("T")


class RecordState(IntEnum):
    """The state of a record, numbered as it is written; ACQUIRED never is."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState
ENDED = frozenset({ACKNOWLEDGED, ARCHIVED})

_first = attrgetter("first")


class Lock:
    """What one member acquired at once, or renewed at once, until a moment of the monotonic clock."""

    __slots__ = ("first", "held", "last", "member_id", "until_ms")

    def __init__(self, member_id: str, until_ms: float, first: int, last: int) -> None:
        """It lies within these offsets, both inclusive; between them there may be others' records."""
        self.member_id = member_id
        self.until_ms = until_ms
        self.first = first
        self.last = last
        self.held = 0  # how many offsets it still has


class Run:
    """Neighbouring offsets (both inclusive) in the same state.

    count     how often they were delivered
    lock      of acquired ones
    version   the write that has their state: until it is committed, nobody gets them
    by        who acknowledged or released them, and how, while that is not committed: it may come again
    gap       no record has these offsets
    """

    __slots__ = ("by", "count", "first", "gap", "last", "lock", "state", "version")

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        count: int = 0,
        lock: Lock | None = None,
        version: int = 0,
        by: tuple[str, int] | None = None,
        gap: bool = False,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        self.lock = lock
        self.version = version
        self.by = by
        self.gap = gap

    def continues(self, other: "Run") -> bool:
        """Whether this and the next run are one."""
        return (
            self.state is other.state
            and self.count == other.count
            and self.lock is other.lock
            and self.version == other.version
            and self.by == other.by
            and self.gap == other.gap
        )

    def head(self, last: int) -> "Run":
        """Cut off what lies up to `last`, and return it."""
        head = Run(self.first, last, self.state, self.count, self.lock, self.version, self.by, self.gap)
        self.first = last + 1
        return head

    def __repr__(self) -> str:
        return f"{self.first}-{self.last} {self.state.name} x{self.count}"


class RecordRuns:
    """See the module."""

    __slots__ = ("end_offset", "ended_count", "gap_count", "runs", "start_offset")

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.runs: list[Run] = []
        self.ended_count = 0
        """How many offsets of the runs are ended."""
        self.gap_count = 0
        """How many of the runs' offsets have no record."""

    # Questions

    @property
    def in_flight_count(self) -> int:
        """From the start to the end, those without records not counted."""
        return self.end_offset - self.start_offset - self.gap_count

    def index_at(self, offset: int) -> int:
        """The index of the run that holds `offset`, which must lie in the runs."""
        return bisect_right(self.runs, offset, key=_first) - 1

    def between(self, first: int, last: int) -> Iterator[Run]:
        """The runs that hold any of these offsets; not to be changed meanwhile."""
        runs = self.runs
        index = max(0, self.index_at(first)) if runs else 0
        while index < len(runs) and runs[index].first <= last:
            if runs[index].last >= first:
                yield runs[index]
            index += 1

    # Changes

    def extend(self, run: Run) -> None:
        """Add a run that begins at the end."""
        assert run.first == self.end_offset
        self._count(run, 1)
        if self.runs and self.runs[-1].continues(run):
            self.runs[-1].last = run.last
        else:
            self.runs.append(run)
        self.end_offset = run.last + 1

    def rewrite(self, parts: Sequence[tuple[int, int, T]], change: Callable[[Run, T], None]) -> None:
        """Call `change` with each run in each part (first and last offset, what it is to be), cut out of the
        others. Parts are sorted, disjoint, and lie in the runs. It takes one walk over the runs between the
        first and the last part, however many there are."""
        if not parts:
            return
        runs = self.runs
        begin = index = self.index_at(parts[0][0])
        run = runs[index]
        out: list[Run] = []
        for first, last, what in parts:
            while run.last < first:
                _append(out, run)
                index += 1
                run = runs[index]
            if run.first < first:
                _append(out, run.head(first - 1))
            while run.last <= last:
                self._changed(run, what, change)
                _append(out, run)
                index += 1
                if run.last == last or index == len(runs):
                    break
                run = runs[index]
            else:
                head = run.head(last)
                self._changed(head, what, change)
                _append(out, head)
                continue
            if index < len(runs):
                run = runs[index]
        if index < len(runs):
            _append(out, run)
            index += 1
        if begin:
            before = runs[begin - 1]
            if before.continues(out[0]):
                before.last = out[0].last
                del out[0]
        runs[begin:index] = out

    def _changed(self, run: Run, what: T, change: Callable[[Run, T], None]) -> None:
        self._count(run, -1)
        change(run, what)
        self._count(run, 1)

    def _count(self, run: Run, sign: int) -> None:
        if run.state in ENDED:
            self.ended_count += sign * (run.last - run.first + 1)
        if run.gap:
            self.gap_count += sign * (run.last - run.first + 1)

    def advance(self) -> bool:
        """Drop ended runs at the start; whether the start offset moved."""
        runs = self.runs
        count = 0
        for run in runs:
            if run.state not in ENDED:
                break
            self._count(run, -1)
            count += 1
        if not count:
            return False
        del runs[:count]
        self.start_offset = runs[0].first if runs else self.end_offset
        return True

    def drop_before(self, offset: int) -> bool:
        """Everything before `offset` is gone from the log; whether the start offset moved."""
        if offset <= self.start_offset:
            return False
        if offset >= self.end_offset:
            self.runs.clear()
            self.ended_count = self.gap_count = 0
            self.start_offset = self.end_offset = offset
            return True
        index = self.index_at(offset)
        for run in self.runs[:index]:
            self._count(run, -1)
        del self.runs[:index]
        if self.runs[0].first < offset:
            self._count(self.runs[0].head(offset - 1), -1)
        self.start_offset = offset
        self.advance()
        return True


def _append(out: list[Run], run: Run) -> None:
    if out and out[-1].continues(run):
        out[-1].last = run.last
    else:
        out.append(run)
