"""One partition of a coordinator's topic: its state, and the appends in flight.

    decide ──> replay (uncommitted) ──> queue ──> one append in flight ──> committed ──> answers
                                                        └── failed ──> roll back ──> errors

A request is a function of the state; it returns a `Result` and does nothing. Its records are replayed at
once, so that the next request builds on them, and appended; decisions made while one append is in flight
share the next one. Every response, also to a read, waits until everything the shard wrote before it is
committed: no client is told something that a crash could undo.

An append may also take long, because the replicas are away, or for ever, because another broker leads and
this one has not heard of it. Then callers are refused after `commit_timeout_ms`, and look for their
coordinator again; what they asked for stays in the queue, and may yet be committed.

An append fails in one of two ways. Refused before writing: one append is in flight at a time, so nothing
decided after it has reached the log, and the journal undoes all of it. Outcome unknown (a timeout, lost
leadership): the shard is dropped and loaded again from the log. Either way everyone who waits is answered.

Records may be part of a producer's transaction (`Result.producer`); they are replayed as pending, and a
marker (`Result.marker`) settles them. Both take their place in the queue, but a batch belongs to one producer
or to none, and a marker is appended alone.

Hot: an offset commit passes here; the shard's own share is about 10 µs. Not here: which shards this broker
has (runtime.py), reading the log back (loading.py), what records mean (machine.py).
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from moldau.broker.coordinator.append_errors import CLIENT_ERRORS, PRODUCER_ERRORS, REFUSED_BEFORE_WRITING
from moldau.broker.coordinator.entry import Entry, Refuse, refuse
from moldau.broker.coordinator.machine import Appended, CoordinatorLog, KeyValue, Machine
from moldau.broker.coordinator.markers import Marker
from moldau.broker.coordinator.result import Parked, Producer, Result
from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.protocol.errors import ErrorCode

M = TypeVar("M", bound=Machine)

COMMIT_TIMEOUT_MS = 5000
"""How long callers wait at least for the commit; at most half as long again."""

_log = logging.getLogger("moldau.coordinator.shard")


class Shard(Generic[M]):
    """A shard from its election, in one leader epoch, until it is given up.

    `reload(error_code)` is called when only the log can tell what the state is: it must give this shard up
    and load another.
    """

    __slots__ = (
        "_clock",
        "_closed",
        "_commit_timeout_ms",
        "_coordinator_log",
        "_failing",
        "_flush_due",
        "_in_flight",
        "_queue",
        "_reload",
        "_timer",
        "_timer_at_ms",
        "_timers",
        "_watch",
        "index",
        "leader_epoch",
        "loading",
        "state",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        leader_epoch: int,
        state: M,
        *,
        log: CoordinatorLog,
        clock: Clock,
        timers: Timers,
        reload: Callable[[int], None],
        commit_timeout_ms: int = COMMIT_TIMEOUT_MS,
    ) -> None:
        self.topic = topic
        self.index = index
        self.leader_epoch = leader_epoch
        self.state = state
        self.loading = True
        state.journal.recording = False
        self._coordinator_log = log
        self._clock = clock
        self._timers = timers
        self._reload = reload
        self._commit_timeout_ms = commit_timeout_ms
        self._watch: TimerHandle | None = None
        self._queue: deque[Entry] = deque()
        self._in_flight: list[Entry] | None = None
        self._flush_due = False
        self._failing = False  # so that a failure is logged once, and its end
        self._closed = False
        self._timer: TimerHandle | None = None
        self._timer_at_ms = 0

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    # Life.

    def serve(self) -> None:
        """The log is loaded: begin to take requests, and start the timers."""
        self.state.journal.recording = True
        self.loading = False
        self.submit(self.state.loaded(self._clock.now_ms()))

    def give_up(self, error_code: int) -> None:
        """Answer everyone who waits with `error_code`, and do nothing any more. The outcome of an append in
        flight is ignored."""
        self._closed = True
        for timer in (self._timer, self._watch):
            if timer is not None:
                timer.cancel()
        refuse([*(self._in_flight or []), *self._queue], error_code)
        for parked, response in self.state.unloaded(error_code):
            parked.answer(response)

    def later(self, delay_ms: float, action: Callable[[], None]) -> TimerHandle:
        """Run `action` later, unless the shard has been given up by then."""

        def run() -> None:
            if not self._closed:
                action()

        return self._timers.call_later(delay_ms, run)

    # Deciding.

    def decide(
        self, operation: Callable[[M, int], Result[Any]], refuse: Refuse, parked: Parked[Any] | None
    ) -> Any:
        """See `CoordinatorRuntime.decide`."""
        now_ms = self._clock.now_ms()
        result = operation(self.state, now_ms)
        for effect in result.effects:
            effect()
        if (
            not result.records
            and result.marker is None
            and not self._queue
            and self._in_flight is None
            and result.response is not None
            and result.on_commit is None
        ):
            for waiting, response in result.answers:
                waiting.answer(response)
            self._arm()
            return result.response
        parked = parked if parked is not None else Parked()
        self._accept(Entry(result, parked, refuse, self.state, now_ms))
        if self._in_flight is None and self._queue:
            self._flush()
        return parked.outcome()

    def submit(self, result: Result[None]) -> None:
        """Take a result that no caller waits for."""
        for effect in result.effects:
            effect()
        self._accept(Entry(result, None, None, self.state))

    def _accept(self, entry: Entry) -> None:
        if entry.writes:
            entry.replay(self.state)
            self._queue.append(entry)
            self._schedule_flush()
        elif self._queue:
            self._queue.append(entry)
        elif self._in_flight is not None:
            self._in_flight.append(entry)
        else:
            entry.release()
        self._arm()

    # Appending.

    def _schedule_flush(self) -> None:
        if not self._flush_due and self._in_flight is None:
            self._flush_due = True
            self.later(0, self._flush)

    def _flush(self) -> None:
        """Append what is queued, up to a batch's size, together with the readers that wait behind it."""
        self._flush_due = False
        if self._in_flight is not None or not self._queue:
            return
        queue = self._queue
        first = queue[0]
        entries: list[Entry] = []
        records: list[KeyValue] = []
        size_bytes = 0
        while queue and (queue[0] is first or queue[0].fits(first, size_bytes)):
            entry = queue.popleft()
            entries.append(entry)
            records += entry.records
            size_bytes += entry.size_bytes
        self._in_flight = entries
        if self._watch is None:
            self._watch_commits()
        try:
            appended = self._append(first.writer, records)
        except Exception as error:
            self._failed(error)
            return
        appended.add_done_callback(self._appended)

    def _append(self, writer: Producer | Marker | None, records: list[KeyValue]) -> Appended:
        log, place = self._coordinator_log, (self.topic, self.index, self.leader_epoch)
        if isinstance(writer, Marker):
            return log.append_marker(*place, writer)
        return log.append_records(*place, records, writer)

    def _appended(self, future: Appended) -> None:
        error: BaseException | None = _Cancelled() if future.cancelled() else future.exception()
        if self._closed:
            return
        if error is not None:
            self._failed(error)
            return
        if self._failing:
            self._failing = False
            _log.info("%s can be written again", self.name)
        entries = self._in_flight or []
        self._in_flight = None
        journal = self.state.journal
        journal.commit(self._queue[0].before if self._queue else journal.mark())
        for entry in entries:
            entry.release()
        if not self._closed:  # an `on_commit` may have given the shard up
            self._flush()

    def _failed(self, error: BaseException) -> None:
        """Undo everything that is not committed, and answer everyone who waits; load again if the log's
        content is in doubt."""
        append_error = getattr(error, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
        error_code = CLIENT_ERRORS.get(append_error, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not self._failing and append_error not in PRODUCER_ERRORS:
            self._failing = True
            _log.warning("%s cannot be written: %s", self.name, error)
        if append_error not in REFUSED_BEFORE_WRITING:
            self._reload(error_code)
            return
        in_flight = self._in_flight or []
        entries = [*in_flight, *self._queue]
        self._in_flight = None
        self._queue.clear()
        self.state.journal.roll_back(entries[0].before)
        if append_error in PRODUCER_ERRORS:
            own = [entry for entry in in_flight if entry.writes]
            refuse([entry for entry in entries if entry not in own], error_code)
            refuse(own, append_error)
        else:
            refuse(entries, error_code)
        for parked, response in self.state.rolled_back(error_code):
            parked.answer(response)
        self._arm()

    def _watch_commits(self) -> None:
        """While appends are in flight: look now and then for callers that have waited too long."""
        self._watch = self.later(self._commit_timeout_ms / 2, self._refuse_overdue)

    def _refuse_overdue(self) -> None:
        self._watch = None
        if self._in_flight is None:
            return
        since_ms_max = self._clock.now_ms() - self._commit_timeout_ms
        for entry in [*self._in_flight, *self._queue]:
            if entry.since_ms <= since_ms_max:
                entry.refuse_caller(CLIENT_ERRORS[ErrorCode.REQUEST_TIMED_OUT])
        self._watch_commits()

    # Timers.

    def _arm(self) -> None:
        """Keep one real timer behind the earliest deadline."""
        earliest_ms = self.state.deadlines.earliest_ms()
        if earliest_ms is None or (self._timer is not None and self._timer_at_ms <= earliest_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = earliest_ms
        self._timer = self.later(earliest_ms - self._clock.now_ms(), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        for key in self.state.deadlines.pop_due(now_ms):
            try:
                self.submit(self.state.due(key, now_ms))
            except Exception:  # the other deadlines are forgotten already: they must not be lost with it
                _log.exception("%s: the deadline %r could not be met: this is a bug", self.name, key)
        self._arm()


class _Cancelled(Exception):
    """The append was cancelled; its outcome is unknown."""

    error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
