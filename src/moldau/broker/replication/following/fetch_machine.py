"""What is fetched from one leader over one connection, as a state machine that does no I/O.

As in the role (role.py), inputs are method calls and outputs are returned values (fetch_outputs.py); there is
no clock, event loop, connection or log in here. leader_fetch.py makes the calls and carries the outputs out.

    in    follow, stop                          the role wants to fetch from here, or no more
          tick                                  time passes
          request, row_asked, session_told      a request is made
          request_failed, refused, answered     its result as a whole
          row                                   and for one partition
          appended, append_failed,
          not_truncated, not_restarted,
          start_found, handling_failed          how an output went
          ask_again, hold_back                  something to tell the leader; the rate is exceeded
    out   Append, Truncate, Restart, FindStart, Report

Each partition is in one state (followed.py):

                 ┌───────────────── follow ─────────────────┐
                 v                                          │
    follow ──> FETCHING ── records, diverging epoch ──> STORING ── 100 ms ──> LATE ── follow ──> FETCHING
               │  │  └──── offset out of range ──> SEARCHING ── start found ──> STORING
               │  └─────── error, damaged records, nothing found ──> PAUSED ── its time ──> FETCHING
               └────────── rate exceeded ──> THROTTLED ── rate not exceeded any more ──> FETCHING

`follow` with another leader epoch leads to FETCHING (or THROTTLED) from every state: what kept the partition
out was true of the leader before. With the same epoch it ends STORING, LATE and a search for another offset,
but no pause. A pause that ends before all is stored goes on as LATE.

Pauses grow from 50 ms to `replica.fetch.backoff.ms`, with a fifth of jitter: a leader that restarts is not
asked by all its followers at once. The request as a whole pauses the same way.

While newcomers come, as they do a slice at a time when a topic has many partitions, requests wait at the
leader for a short time only: those that come next need no request of their own, which would name all of
them each time. Each request costs by the partitions that it is for, so the more there are, the longer it
waits. Nor does a request wait much longer than until the next pause ends.

Invariants: a partition is in the next request if and only if it is FETCHING; a row counts only for the
position that it was asked for; at most one Append, Truncate, Restart or FindStart of a partition is under
way.
"""

import heapq
import logging
import math
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.replication.following.fetch_errors import EXPECTED_ERRORS, SESSION_ERRORS
from moldau.broker.replication.following.fetch_outputs import (
    NOTHING,
    Append,
    FindStart,
    Outputs,
    Report,
    Restart,
    Truncate,
)
from moldau.broker.replication.following.followed import FetchState, Followed, Position
from moldau.broker.replication.following.follower_session import FetchLimits, FollowerSession
from moldau.broker.replication.following.out_of_range import NewStart
from moldau.common.protocol.errors import ErrorCode, error_name
from moldau.common.protocol.replica_fetch import FetchedRow, ReplicaFetchRequest

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition
    from moldau.broker.replication.role_outputs import FetchFrom

PAUSE_MS_FIRST = 50.0
JITTER = 0.2
LATE_MS = 100.0
THROTTLED_MS = 100.0
RELEASED_AT_ONCE = 256
RESUMED_AT_ONCE = 1000
SHORT_WAIT_MS = 20
SHORT_WAIT_MS_MAX = 100
NEWCOMERS_MS = 100.0

_FETCHING, _STORING, _LATE = FetchState.FETCHING, FetchState.STORING, FetchState.LATE
_SEARCHING, _PAUSED = FetchState.SEARCHING, FetchState.PAUSED
_THROTTLED, _STOPPED = FetchState.THROTTLED, FetchState.STOPPED


class Failing(NamedTuple):
    """Requests fail as a whole."""

    since_ms: float
    """Monotonic."""
    reason: str


class FetchMachine:
    """The partitions that are fetched from one leader over one connection."""

    def __init__(
        self,
        leader: int,
        random: Random,
        *,
        pause_ms_max: Callable[[], float],
        must_wait: Callable[["Partition"], bool] = lambda _: False,
        incremental: bool = True,
    ) -> None:
        """`pause_ms_max`: pauses after errors grow up to this. `must_wait`: whether a partition is throttled,
        and the rate is exceeded. Not `incremental`: every request is a full one.
        """
        self.leader = leader
        self.failing: Failing | None = None
        """None: requests do not fail as a whole."""
        self.silent_until_ms = 0.0
        """No request before this, monotonic."""
        self._random = random
        self._pause_ms_max = pause_ms_max
        self._must_wait = must_wait
        self._session = FollowerSession(incremental=incremental)
        self._by_id: dict[bytes, dict[int, Followed]] = {}
        self._storing: dict[Followed, None] = {}
        self._late_ms: float | None = None  # when those that are storing are late
        self._paused: list[tuple[float, int, Followed]] = []  # a heap; an entry may be out of date
        self._pause_count = 0
        self._is_resuming = False  # more pauses are over than one tick ends
        self._throttled: dict[Followed, None] = {}  # those that waited longest come first
        self._release_ms: float | None = None
        self._failures = 0
        self._has_newcomers = False
        self._newcomers_until_ms = 0.0

    # What to follow

    def follow(self, partition: "Partition", fetch: "FetchFrom") -> None:
        """The role wants to fetch from here next."""
        held = self._by_id.setdefault(partition.topic_id, {})
        followed = held.get(partition.index)
        if followed is None or followed.partition is not partition:
            if followed is not None:
                self._enter(followed, _STOPPED)
            held[partition.index] = followed = Followed(partition, fetch)
            self._has_newcomers = True
            self._go_on(followed)
            return
        before, state = followed.position, followed.state
        followed.position = Position(fetch.leader_epoch, fetch.offset)
        followed.is_stored = True
        if fetch.leader_epoch != before.leader_epoch:
            followed.failures = 0
        elif state in (_PAUSED, _THROTTLED) or (state is _SEARCHING and followed.position == before):
            return
        self._go_on(followed)

    def _go_on(self, followed: Followed) -> None:
        self._enter(followed, _THROTTLED if self._must_wait(followed.partition) else _FETCHING)

    def _enter(self, followed: Followed, state: FetchState) -> None:
        """Every transition, and what the next request follows from."""
        if followed.state is _STORING:
            self._storing.pop(followed, None)
        elif followed.state is _THROTTLED:
            self._throttled.pop(followed, None)
        followed.state = state
        if state is _FETCHING:
            self._session.ask_for(followed)
        elif state is _STORING:
            self._storing[followed] = None  # the leader's session keeps it: it is fetched again soon
        else:
            self._session.leave_out(followed)
            if state is _THROTTLED:
                self._throttled[followed] = None

    def stop(self, partition: "Partition") -> None:
        """Follow this partition no more."""
        held = self._by_id.get(partition.topic_id)
        followed = None if held is None else held.get(partition.index)
        if held is None or followed is None or followed.partition is not partition:
            return
        del held[partition.index]
        if not held:
            del self._by_id[partition.topic_id]
        self._enter(followed, _STOPPED)
        if not self._by_id:
            self._paused.clear()  # nobody calls `tick` any more, and each entry holds a log

    def close(self) -> None:
        """Follow nothing more."""
        for followed in self.all():
            self._enter(followed, _STOPPED)
        self._by_id.clear()
        self._paused.clear()

    def all(self) -> Iterator[Followed]:
        """The partitions that are followed here."""
        for held in self._by_id.values():
            yield from held.values()

    def find(self, topic_id: bytes, index: int) -> Followed | None:
        """The partition with this index, if it is followed here."""
        held = self._by_id.get(topic_id)
        return None if held is None else held.get(index)

    def holds(self, partition: "Partition") -> bool:
        """Whether exactly this partition is followed here."""
        followed = self.find(partition.topic_id, partition.index)
        return followed is not None and followed.partition is partition

    @property
    def is_empty(self) -> bool:
        """Whether nothing is followed here."""
        return not self._by_id

    @property
    def is_storing(self) -> bool:
        """Whether the next request waits until what came is safe on this disk."""
        return bool(self._storing)

    # Time

    def tick(self, now_ms: float) -> None:
        """It is this late, monotonic: what is late is left out, and pauses end."""
        if self._has_newcomers:
            self._has_newcomers = False
            self._newcomers_until_ms = now_ms + NEWCOMERS_MS
        if not self._storing:
            self._late_ms = None
        elif self._late_ms is None:
            self._late_ms = now_ms + LATE_MS
        elif now_ms >= self._late_ms:
            for followed in list(self._storing):
                self._enter(followed, _LATE)
            self._late_ms = None
        self._resume(now_ms)
        self._release(now_ms)

    def _resume(self, now_ms: float) -> None:
        """End the pauses that are over, some at a time; the next request waits for the rest."""
        paused = self._paused
        for _ in range(RESUMED_AT_ONCE):
            if not paused or paused[0][0] > now_ms:
                break
            resume_ms, _, followed = heapq.heappop(paused)
            if followed.state is not _PAUSED or followed.resume_ms != resume_ms:
                continue
            if followed.is_stored:
                self._go_on(followed)
            else:
                self._enter(followed, _LATE)
        self._is_resuming = bool(paused) and paused[0][0] <= now_ms

    def _release(self, now_ms: float) -> None:
        """Go on with those that waited longest, if they need not wait any more: some at a time, as there may
        be thousands.
        """
        if not self._throttled:
            self._release_ms = None
        elif self._release_ms is None:
            self._release_ms = now_ms + THROTTLED_MS
        elif now_ms >= self._release_ms:
            count = RELEASED_AT_ONCE * (1 + int((now_ms - self._release_ms) // THROTTLED_MS))
            for followed in list(islice(self._throttled, count)):
                self._go_on(followed)  # at the end of the line again, if it must wait on
            self._release_ms = now_ms + THROTTLED_MS if self._throttled else None

    def next_ms(self) -> float:
        """When to call `tick` again, and to send a request if one is due then; infinity: not before another
        input.
        """
        if self._is_resuming:
            return 0.0
        pause_ms = self._paused[0][0] if self._paused else math.inf
        release_ms = math.inf if self._release_ms is None else self._release_ms
        if self._storing:
            return min(pause_ms, release_ms, math.inf if self._late_ms is None else self._late_ms)
        if not self._session.is_empty:
            return self.silent_until_ms
        return min(pause_ms, release_ms)

    def may_request(self, now_ms: float) -> bool:
        """Whether a request is due."""
        if self._storing or self._is_resuming or self._session.is_empty:
            return False
        return now_ms >= self.silent_until_ms

    # A request and its result as a whole

    def hold_back(self) -> None:
        """The rate is exceeded: fetch throttled partitions no more, also those that have got nothing yet."""
        for followed in self._session.asked():
            if self._must_wait(followed.partition):
                self._enter(followed, _THROTTLED)

    def wait_ms_max(self, limit_ms: int, now_ms: float) -> int:
        """How long the next request may wait at the leader, of `replica.fetch.wait.max.ms`."""
        if not self._session.incremental:
            short_ms = SHORT_WAIT_MS + self._session.count // 5
        elif now_ms < self._newcomers_until_ms:
            short_ms = SHORT_WAIT_MS + self._session.count // 20
        else:
            short_ms = SHORT_WAIT_MS + self._session.count // 20
            pause_ms = math.ceil(self._paused[0][0] - now_ms) if self._paused else limit_ms
            return min(limit_ms, max(pause_ms, min(short_ms, SHORT_WAIT_MS_MAX)))
        return min(limit_ms, short_ms, SHORT_WAIT_MS_MAX)

    def request(self, limits: FetchLimits, wait_ms: int) -> tuple[ReplicaFetchRequest, list[Followed]] | None:
        """The next request, which waits at the leader for `wait_ms`, and the partitions for whose rows
        `row_asked` is to be called; None: nothing is fetched any more, and what would be left out is told
        with the next request.
        """
        if self._session.is_empty:
            return None
        return self._session.request(limits, wait_ms), self._session.take_changed()

    def row_asked(self, followed: Followed, request: ReplicaFetchRequest, limits: FetchLimits) -> None:
        """Add this partition's row, if it is still to be fetched."""
        if followed.state is _FETCHING:
            self._session.row(followed, request, limits)

    def session_told(self) -> bool:
        """Whether the request fetches anything. Else it is not sent; what it would have left out is not told,
        so that a new session begins.
        """
        if self._session.told:
            return True
        self._begin_anew()
        return False

    def request_failed(self, reason: str, now_ms: float) -> Outputs:
        """A request failed as a whole: begin a new session after a pause."""
        self.failing = Failing(now_ms if self.failing is None else self.failing.since_ms, reason)
        self._begin_anew()
        pause_ms = self._pause_ms(self._failures)
        self._failures += 1
        self.silent_until_ms = now_ms + pause_ms
        text = f"a fetch from broker {self.leader} failed: {reason}; the next in {pause_ms:.0f} ms"
        return (Report(logging.DEBUG, text),)

    def refused(self, error_code: int) -> bool:
        """The leader answered with this error code; whether the next request follows at once, with a new
        session. Else it counts as failed.
        """
        if error_code not in SESSION_ERRORS or self._failures:
            return False
        self._failures += 1
        self._begin_anew()
        return True

    def answered(self) -> None:
        """The leader has answered; its rows come next, and then `session_answered`."""
        self._failures = 0
        self.failing = None

    def session_answered(self, session_id: int) -> None:
        """All rows of the answer were taken; it named this session."""
        if not self._session.answered(session_id):
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._session.begin_anew(followed for followed in self.all() if followed.is_fetched)

    # Rows

    def asked(self, topic_id: bytes, index: int) -> Followed | None:
        """The partition of a row, if the row is about what is still wanted."""
        followed = self.find(topic_id, index)
        if followed is None or followed.state is not _FETCHING:
            return None
        return followed if self._session.told.get(followed) == followed.position else None

    def row(self, followed: Followed, row: FetchedRow, own_start_offset: int, now_ms: float) -> Outputs:
        """What came of a partition that is `asked`; `own_start_offset`: where its log begins here."""
        position = followed.position
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._enter(followed, _SEARCHING)
            return (FindStart(followed, position),)
        if row.error_code:
            first = not followed.failures
            self._pause(followed, now_ms)
            if row.error_code in EXPECTED_ERRORS or not first:
                return NOTHING
            text = (
                f"broker {self.leader} answers the fetch of {followed.name} at offset {position.offset} "
                f"with {error_name(row.error_code)}"
            )
            return (Report(logging.ERROR, text),)
        if row.diverging is not None:
            epoch, end_offset = row.diverging
            if own_start_offset < end_offset <= row.log_start_offset:
                # The leader deleted what it had in that epoch. Records kept below its start would be judged
                # by nobody, and a batch that its start cuts through could not be appended behind them.
                return self._restart(followed, row.log_start_offset)
            return self._truncate(followed, epoch, end_offset)
        self.store(followed)
        return (Append(followed, row.records, row.high_watermark, row.log_start_offset),)

    def store(self, followed: Followed) -> None:
        """(More of) what came is being stored."""
        followed.is_stored = False
        self._enter(followed, _STORING)

    def _truncate(self, followed: Followed, epoch: int, end_offset: int) -> Outputs:
        self.store(followed)
        return (Truncate(followed, followed.position.leader_epoch, epoch, end_offset),)

    def _restart(self, followed: Followed, offset: int) -> Outputs:
        followed.is_stored = False
        self._enter(followed, _LATE)  # an emptied log takes longer than the others' records
        text = (
            f"{followed.name} has nothing in common with its leader, broker {self.leader}: it is emptied and "
            f"goes on at {offset}"
        )
        restart = Restart(followed, followed.position.leader_epoch, offset)
        return (Report(logging.WARNING, text), restart)

    # How outputs went

    def appended(self, followed: Followed) -> None:
        """Records were appended, or there were none; `follow` comes once they are stored."""
        followed.failures = 0

    def append_failed(self, followed: Followed, message: str | None, now_ms: float) -> Outputs:
        """Records were not appended: `message` says how they are damaged; None: for another reason."""
        first, offset = not followed.failures, followed.position.offset
        self._pause(followed, now_ms)
        if message is None or not first:
            return NOTHING
        text = (
            f"what broker {self.leader} sent of {followed.name} from offset {offset} is damaged and was not "
            f"appended: {message}. It is asked again; if this does not end, the copy on that broker's disk "
            "is damaged"
        )
        return (Report(logging.ERROR, text),)

    def not_truncated(self, truncate: Truncate, now_ms: float) -> Outputs:
        """Nothing was truncated."""
        followed = truncate.followed
        first = not followed.failures
        followed.is_stored = True
        self._pause(followed, now_ms)
        if not first:
            return NOTHING
        text = (
            f"{followed.name} diverges from broker {self.leader} at epoch {truncate.epoch}, which ended at "
            f"{truncate.end_offset} there, and could not be truncated; this is tried again"
        )
        return (Report(logging.ERROR, text),)

    def not_restarted(self, followed: Followed, now_ms: float) -> None:
        """The log was not emptied."""
        followed.is_stored = True
        self._pause(followed, now_ms)

    def start_found(
        self, followed: Followed, position: Position, start: NewStart | None, now_ms: float
    ) -> Outputs:
        """What the leader has instead of this position; None: it did not say."""
        if followed.state is not _SEARCHING or followed.position != position:
            return NOTHING
        if start is None:
            self._pause(followed, now_ms)
            return NOTHING
        if start.anew:
            return self._restart(followed, start.offset)
        return self._truncate(followed, 0, start.offset)

    def handling_failed(self, followed: Followed, log_end_offset: int, now_ms: float) -> None:
        """An output could not be carried out, which is a bug; the log ends there."""
        followed.position = followed.position._replace(offset=log_end_offset)
        followed.is_stored = True
        self._pause(followed, now_ms)

    def ask_again(self, followed: Followed) -> None:
        """Something that requests tell the leader about this partition has changed."""
        if followed.state is _FETCHING:
            self._go_on(followed)

    # Pauses

    def _pause(self, followed: Followed, now_ms: float) -> None:
        if followed.state is _STOPPED:
            return
        self._enter(followed, _PAUSED)
        followed.resume_ms = now_ms + self._pause_ms(followed.failures)
        followed.failures += 1
        self._pause_count += 1
        heapq.heappush(self._paused, (followed.resume_ms, self._pause_count, followed))

    def _pause_ms(self, failures: int) -> float:
        pause_ms: float = min(float(self._pause_ms_max()), PAUSE_MS_FIRST * 2 ** min(failures, 20))
        return pause_ms * (1 + JITTER * (2 * self._random.random() - 1))
