"""One share-partition: which records of a partition a share group's members have, and who has dealt with
what.

    Available ── acquire ──> Acquired ── accept ──> Acknowledged          (count +1 with each delivery)
        ^                      │  ├─ reject ──────> Archived
        └── release, time-out ─┘  └─ renew: the lock begins anew           at the limit a release archives

A pure state machine: calls and times in, `Acquired` and errors out, and what has to be written. Nothing is
told to a member before it is written: `acknowledge` returns a version, and the caller waits until `written`
reaches it. What is not written yet is given to nobody, so that a release that is lost was not delivered again
either. Acquisitions are not written: after a change of leader such records are available, with their count as
it was last written.

    changes ──> take_write() ──> WriteShareGroupState ──> written(version) ──> answers, records available
        └─ later ones wait for the next write

A write is repeated until its outcome is known; it says what states are, so that repeating it changes nothing.
An acknowledgement that comes again meanwhile waits for the same write.

Times are of the monotonic clock, in milliseconds. Not here: writing, reading the log, who waits for records.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from moldau.broker.share.record_runs import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    ENDED,
    Lock,
    RecordRuns,
    RecordState,
    Run,
)
from moldau.common.protocol.errors import ErrorCode

STALE_LOCKS_MAX = 64
"""Locks that hold nothing any more are kept in the heap until they are more than these, and than the
others."""

RANGES_MAX = 20_000
"""Ranges of one acknowledgement; looking at more would hold the loop for too long."""


class AckType(IntEnum):
    """What a member says of a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_KNOWN_TYPES = frozenset(int(each) for each in AckType)


class Ack(NamedTuple):
    """Offsets (both inclusive), and one type for all or one for each."""

    first: int
    last: int
    types: Sequence[int]


class StateBatch(NamedTuple):
    """Offsets (both inclusive) in one state, as it is written."""

    first: int
    last: int
    state: int
    deliveries: int


class StateWrite(NamedTuple):
    """What is to be written; `ended_count` is that of offsets from the start offset on."""

    version: int
    start_offset: int
    ended_count: int
    batches: tuple[StateBatch, ...]


class LogPart(NamedTuple):
    """Neighbouring offsets (both inclusive) of one batch, or between two: records, or none that anybody gets:
    control records, aborted ones, gaps. `batch` tells batches apart."""

    first: int
    last: int
    deliverable: bool
    batch: int


class Acquired(NamedTuple):
    """Records that a member got: offsets, both inclusive."""

    first: int
    last: int
    delivery_count: int


class Acknowledged(NamedTuple):
    """What became of acknowledgements: an error code, or the version that must be written before the member
    is told that there is none."""

    error_code: int
    version: int


class Limits(NamedTuple):
    """The group's settings; `locks_max` bounds the offsets between the start and the end."""

    lock_ms: int
    deliveries_max: int
    locks_max: int


class Wanted(NamedTuple):
    """What a member asks for: `strict` gets no more than `records_max`, else whole batches."""

    records_max: int
    batch_size: int
    strict: bool


class SharePartition:
    """See the module."""

    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        """As read from the coordinator; what no batch names is available, and was never delivered."""
        self.records = RecordRuns(start_offset)
        self._version = 0  # of the last write taken
        self._written = 0
        self._dirty: list[StateBatch] = []
        self._start_dirty = False
        self._start_is_new = False
        self._in_flight: tuple[StateBatch, ...] | None = None
        self._locks: list[tuple[float, int, Lock]] = []
        self._lock_number = 0
        self._locks_of: dict[str, dict[Lock, None]] = {}
        for batch in sorted(batches):
            self._load(batch)
        self.records.advance()

    def _load(self, batch: StateBatch) -> None:
        records = self.records
        first, last, state, count = batch
        first = max(first, records.end_offset)
        if last < first:
            return
        if first > records.end_offset:
            records.extend(Run(records.end_offset, first - 1, AVAILABLE))
        ended = state in (ACKNOWLEDGED, ARCHIVED)
        records.extend(Run(first, last, RecordState(state) if ended else AVAILABLE, 0 if ended else count))

    # Questions

    @property
    def start_offset(self) -> int:
        """The first offset that is not ended."""
        return self.records.start_offset

    @property
    def end_offset(self) -> int:
        """Nobody has had anything from here on."""
        return self.records.end_offset

    @property
    def pending_version(self) -> int:
        """Once this is written, everything is that changed so far."""
        return self._version + 1 if self._has_changes() else self._version

    def is_written(self, version: int) -> bool:
        """Whether everything up to this version is written."""
        return version <= self._written

    def acquired_count(self, member_id: str | None = None) -> int:
        """How many offsets this member, or all, hold."""
        held = self._locks_of.values() if member_id is None else [self._locks_of.get(member_id, {})]
        return sum(lock.held for locks in held for lock in locks)

    def next_offset(self, limits: Limits) -> int | None:
        """Where to read for the next acquisition; None: nothing can be acquired now."""
        if self._start_is_new:
            return None
        for run in self.records.runs:
            if run.state is AVAILABLE and run.version <= self._written:
                return run.first
        if self.records.in_flight_count >= limits.locks_max:
            return None
        return self.records.end_offset

    def earliest_ms(self) -> float | None:
        """When the first lock ends."""
        return self._locks[0][0] if self._locks else None

    # Acquiring

    def acquire(
        self, member_id: str, parts: Sequence[LogPart], wanted: Wanted, limits: Limits, now_ms: float
    ) -> list[Acquired]:
        """Give the member what the log has and others have not. `parts` touch one another, and begin at
        `next_offset` or after it."""
        taken = list(self._taken(parts, wanted, limits))
        if not taken:
            self._advance()
            return []
        lock = Lock(member_id, now_ms + limits.lock_ms, taken[0][0], taken[-1][1])
        rows = _Rows(wanted.batch_size)

        def take(run: Run, batch: int) -> None:
            run.state, run.lock, run.by, run.version = ACQUIRED, lock, None, 0
            run.count += 1
            lock.held += run.last - run.first + 1
            rows.add(run, batch)

        self.records.rewrite(taken, take)
        self._keep(lock)
        self._advance()
        return rows.rows

    def _taken(
        self, parts: Sequence[LogPart], wanted: Wanted, limits: Limits
    ) -> Iterator[tuple[int, int, int]]:
        """Offsets to acquire, with their batch; what is new is added to the runs."""
        left = wanted.records_max
        gaps: list[tuple[int, int, None]] = []
        previous_batch = -1
        full = False
        for part in parts:
            if left <= 0 and (wanted.strict or part.batch != previous_batch):
                break
            if part.last < self.records.start_offset:
                continue
            if part.last >= self.records.end_offset:
                full = not self._look_at(part, limits)
            for first, last in self._free(part):
                if not part.deliverable:
                    gaps.append((first, last, None))
                    continue
                if wanted.strict:
                    last = min(last, first + left - 1)
                    if last < first:
                        break
                left -= last - first + 1
                previous_batch = part.batch
                yield first, last, part.batch
            if full:
                break
        self.records.rewrite(gaps, _become_gap)

    def _look_at(self, part: LogPart, limits: Limits) -> bool:
        """Add what is new in this part of the log to the runs; whether there was room for all of it."""
        records = self.records
        first = max(part.first, records.end_offset)
        if first > records.end_offset:
            records.extend(Run(records.end_offset, first - 1, ARCHIVED, gap=True))
        if not part.deliverable:
            records.extend(Run(first, part.last, ARCHIVED, gap=True))
            return True
        room = limits.locks_max - records.in_flight_count
        if room > 0:
            records.extend(Run(first, min(part.last, first + room - 1), AVAILABLE))
        return records.end_offset > part.last

    def _free(self, part: LogPart) -> list[tuple[int, int]]:
        first, end = max(part.first, self.records.start_offset), self.records.end_offset
        last = min(part.last, end - 1)
        if last < first:
            return []
        return [
            (max(run.first, first), min(run.last, last))
            for run in self.records.between(first, last)
            if run.state is AVAILABLE and run.version <= self._written
        ]

    # Acknowledging

    def acknowledge(
        self, member_id: str, acks: Sequence[Ack], limits: Limits, now_ms: float, *, may_renew: bool = True
    ) -> Acknowledged:
        """Do what the member says of its records: all of it, or nothing and an error code."""
        parts = self._checked(member_id, acks, may_renew=may_renew)
        if isinstance(parts, ErrorCode):
            return Acknowledged(parts, 0)
        lock: Lock | None = None

        def settle(run: Run, kind: int) -> None:
            nonlocal lock
            if run.state is not ACQUIRED:
                return  # it has come before
            if kind == AckType.RENEW:
                if lock is None:
                    lock = Lock(member_id, now_ms + limits.lock_ms, parts[0][0], parts[-1][1])
                self._let_go(run)
                run.lock = lock
                lock.held += run.last - run.first + 1
                return
            self._end_hold(run, kind, member_id, limits)

        self.records.rewrite(parts, settle)
        if lock is not None:
            self._keep(lock)
        self._advance()
        return Acknowledged(ErrorCode.NONE, self.pending_version)

    def _checked(
        self, member_id: str, acks: Sequence[Ack], *, may_renew: bool
    ) -> list[tuple[int, int, int]] | ErrorCode:
        """The acknowledgements as offsets with one type each, if all of them may be."""
        if len(acks) > RANGES_MAX:
            return ErrorCode.INVALID_REQUEST
        parts: list[tuple[int, int, int]] = []
        start_offset, end_offset = self.records.start_offset, self.records.end_offset
        before = -1
        for first, last, types in acks:
            if first > last or first <= before or len(types) not in (1, last - first + 1):
                return ErrorCode.INVALID_REQUEST
            before = last
            if last < start_offset:
                continue
            if last >= end_offset:
                return ErrorCode.INVALID_RECORD_STATE
            for each in _of_one_type(first, last, types, start_offset):
                if each[2] not in _KNOWN_TYPES or (each[2] == AckType.RENEW and not may_renew):
                    return ErrorCode.INVALID_REQUEST
                parts.append(each)
        return parts if self._may_all(member_id, parts) else ErrorCode.INVALID_RECORD_STATE

    def _may_all(self, member_id: str, parts: list[tuple[int, int, int]]) -> bool:
        if not parts:
            return True
        runs = self.records.runs
        index = self.records.index_at(parts[0][0])
        for first, last, kind in parts:
            while runs[index].last < first:
                index += 1
            while True:
                run = runs[index]
                holds = run.state is ACQUIRED and run.lock is not None and run.lock.member_id == member_id
                if (
                    not holds
                    and not run.gap
                    and (run.by != (member_id, kind) or run.version <= self._written)
                ):
                    return False
                if run.last >= last:
                    break
                index += 1
        return True

    def _end_hold(self, run: Run, kind: int, member_id: str, limits: Limits) -> None:
        """An acquired run gets another state, which is to be written."""
        self._let_go(run)
        count = run.count
        if kind == AckType.ACCEPT:
            state = ACKNOWLEDGED
        elif kind == AckType.RELEASE and count < limits.deliveries_max:
            state = AVAILABLE
        else:
            state = ARCHIVED
        self._note(run.first, run.last, state, count)
        run.state, run.lock, run.gap = state, None, kind == AckType.GAP
        run.count = 0 if state in ENDED else count
        run.version, run.by = self._version + 1, (member_id, kind)

    # Letting go

    def release(self, member_id: str, limits: Limits) -> bool:
        """The member's session is gone: what it holds is available again. Whether it held anything."""
        return self._release_locks(list(self._locks_of.get(member_id, ())), limits)

    def expire(self, limits: Limits, now_ms: float) -> bool:
        """Release what has been locked for too long. Whether anything was."""
        due: list[Lock] = []
        while self._locks and self._locks[0][0] <= now_ms:
            lock = heapq.heappop(self._locks)[2]
            if lock.held:
                due.append(lock)
        return self._release_locks(due, limits)

    def _release_locks(self, locks: Sequence[Lock], limits: Limits) -> bool:
        parts: list[tuple[int, int, str]] = []
        ended = {lock for lock in locks if lock.first < self.end_offset and lock.last >= self.start_offset}
        if ended:  # one walk for all: each may lie between the others' records
            first, last = min(lock.first for lock in ended), max(lock.last for lock in ended)
            for run in self.records.between(max(first, self.start_offset), min(last, self.end_offset - 1)):
                if run.lock is not None and run.lock in ended:
                    parts.append((run.first, run.last, run.lock.member_id))
        for lock in locks:
            self._forget(lock)
        if not parts:
            return False
        self.records.rewrite(
            parts, lambda run, member_id: self._end_hold(run, AckType.RELEASE, member_id, limits)
        )
        self._advance()
        return True

    def log_starts_at(self, offset: int) -> None:
        """What lies before this offset is not in the log any more."""
        records = self.records
        if offset <= records.start_offset:
            return
        for run in records.runs:
            if run.first >= offset:
                break
            if run.lock is not None:
                run.lock.held -= min(run.last, offset - 1) - run.first + 1
                if not run.lock.held:
                    self._forget(run.lock)
        records.drop_before(offset)
        self._start_dirty = True

    def _keep(self, lock: Lock) -> None:
        self._locks_of.setdefault(lock.member_id, {})[lock] = None
        self._lock_number += 1
        heapq.heappush(self._locks, (lock.until_ms, self._lock_number, lock))
        live = sum(map(len, self._locks_of.values())) if len(self._locks) > STALE_LOCKS_MAX else 0
        if live and len(self._locks) > 2 * live + STALE_LOCKS_MAX:
            self._locks = [each for each in self._locks if each[2].held]
            heapq.heapify(self._locks)

    def _let_go(self, run: Run) -> None:
        lock = run.lock
        if lock is not None:
            lock.held -= run.last - run.first + 1
            if not lock.held:
                self._forget(lock)

    def _forget(self, lock: Lock) -> None:
        locks = self._locks_of.get(lock.member_id)
        if locks is not None:
            locks.pop(lock, None)
            if not locks:
                del self._locks_of[lock.member_id]

    # Writing

    def _has_changes(self) -> bool:
        return bool(self._dirty) or self._start_dirty

    def _note(self, first: int, last: int, state: RecordState, count: int) -> None:
        dirty = self._dirty
        if dirty and dirty[-1][1] + 1 == first and dirty[-1][2:] == (state, count):
            dirty[-1] = StateBatch(dirty[-1].first, last, int(state), count)
        else:
            dirty.append(StateBatch(first, last, int(state), count))

    def _advance(self) -> None:
        if self.records.advance():
            self._start_dirty = True

    def start_chosen(self) -> None:
        """The start offset was chosen here, and is not written anywhere: until it is, nobody gets a record. A
        leader that comes after this one would choose again, perhaps behind what members had."""
        self._start_dirty = self._start_is_new = True

    def forget(self, batches: Iterable[StateBatch], end_offset: int) -> None:
        """The log ends at `end_offset`, and records that come there are not those that these are about: write
        the offsets as available, so that no leader after this one takes new records for dealt with."""
        for first, last, _, _ in batches:
            self._note(max(first, end_offset), last, AVAILABLE, 0)

    def take_write(self) -> StateWrite | None:
        """What is to be written now; None: nothing, or a write is under way."""
        if self._in_flight is not None or not self._has_changes():
            return None
        self._version += 1
        start_offset = self.records.start_offset
        batches = tuple(batch for batch in self._dirty if batch.last >= start_offset)
        self._in_flight = tuple(self._dirty)
        self._dirty, self._start_dirty = [], False
        return StateWrite(self._version, start_offset, self.records.ended_count, batches)

    def written(self) -> None:
        """The write that was taken last is committed."""
        batches, self._in_flight = self._in_flight or (), None
        self._written = self._version
        self._start_is_new = False
        records, start_offset, end_offset = self.records, self.start_offset, self.end_offset
        parts = sorted(
            (max(each.first, start_offset), min(each.last, end_offset - 1), None)
            for each in batches
            if each.last >= start_offset and each.first < end_offset
        )
        records.rewrite(_disjoint(parts), self._settle)

    def _settle(self, run: Run, _: None) -> None:
        if run.version <= self._written:
            run.version = 0
            if run.state is not ACQUIRED:
                run.by = None


def _become_gap(run: Run, _: None) -> None:
    run.state, run.count, run.gap, run.by = ARCHIVED, 0, True, None


class _Rows:
    """What is told to a member: neighbours with one count are one row, unless it has `batch_size` records
    already and another batch begins."""

    def __init__(self, batch_size: int) -> None:
        self.rows: list[Acquired] = []
        self._batch_size = max(batch_size, 1)
        self._batch = -1

    def add(self, run: Run, batch: int) -> None:
        """The next run, which lies in this batch."""
        rows = self.rows
        if rows:
            last = rows[-1]
            joins = last.last + 1 == run.first and last.delivery_count == run.count
            if joins and (self._batch == batch or last.last - last.first + 1 < self._batch_size):
                rows[-1] = Acquired(last.first, run.last, run.count)
                self._batch = batch
                return
        self._batch = batch
        rows.append(Acquired(run.first, run.last, run.count))


def _of_one_type(
    first: int, last: int, types: Sequence[int], start_offset: int
) -> Iterator[tuple[int, int, int]]:
    """Offsets from `start_offset` on, with one type each."""
    begin = max(first, start_offset)
    if len(types) == 1:
        yield begin, last, types[0]
        return
    kind = types[begin - first]
    for offset in range(begin + 1, last + 1):
        if types[offset - first] != kind:
            yield begin, offset - 1, kind
            begin, kind = offset, types[offset - first]
    yield begin, last, kind


def _disjoint(parts: list[tuple[int, int, None]]) -> list[tuple[int, int, None]]:
    """Sorted parts without overlaps."""
    out: list[tuple[int, int, None]] = []
    for first, last, _ in parts:
        if out and first <= out[-1][1]:
            if last > out[-1][1]:
                out[-1] = (out[-1][0], last, None)
        else:
            out.append((first, last, None))
    return out
