"""Running state machines on a replicated log: decide, replay, append, answer.

One shard is one partition of the coordinator's topic with the state that its records give. A request is a
function of that state; it returns a `Result` and does nothing. The runtime replays the records at once, so
that the next request builds on them, and appends them; what is decided while one append is on its way goes
together in the next one.

    decide ──> replay (uncommitted) ──> queue ──> one append in flight ──> committed ──> answers
                                                        └── failed ──> roll back ──> errors

Every answer, also that of a request which only read, waits until all that the shard had written before it is
committed: nobody is ever told something that a crash could take back. One append is in flight at a time, so
when it fails, nothing decided after it has reached the log, and the journal can undo all of it. If an append
fails in a way that leaves its outcome unknown (a timeout, lost leadership), the shard is loaded anew from the
log, which alone knows.

Records may be part of a producer's transaction (`Result.producer`); they are replayed as pending, and a
marker (`Result.marker`) settles them. Both take their place in the queue like everything else, but a batch
belongs to one producer or to none, and a marker stands alone.

Loading replays only the last value of every key, in the order of the last writes: the topic is compacted, so
a state must not depend on anything else (loading.py). It works in slices, and requests are refused with
COORDINATOR_LOAD_IN_PROGRESS meanwhile.

Hot: an offset commit passes here; the runtime's own share is about 10 µs. Not here: what the records mean
(machine.py says what the runtime asks of that).
"""

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar, cast

from moldau.coordinator.append_errors import CLIENT_ERRORS, PRODUCER_ERRORS, REFUSED_BEFORE_WRITING
from moldau.coordinator.loading import Gathering
from moldau.coordinator.machine import (
    Appended,
    CoordinatorLog,
    KeyValue,
    Loaded,
    Machine,
    TransactionalMachine,
)
from moldau.coordinator.markers import Marker
from moldau.coordinator.result import Parked, Producer, Result
from moldau.core.clock import Clock
from moldau.core.timers import TimerHandle, Timers
from moldau.protocol.errors import ErrorCode, error_name

R = TypeVar("R")
M = TypeVar("M", bound=Machine)

BATCH_BYTES_MAX = 64 * 1024
"""Records of one append: building it holds the loop for a millisecond or two. A larger single result
goes alone."""

LOAD_SLICE_RECORDS = 2000
"""Records read or replayed in one turn of the event loop while loading: some milliseconds."""

LOAD_RETRY_MS = 1000

_log = logging.getLogger(__name__)


class _Entry:
    """One result on its way: its records, and whom to tell what afterwards."""

    __slots__ = ("before", "parked", "records", "refuse", "result", "size_bytes", "writer")

    def __init__(
        self,
        result: Result[Any],
        parked: Parked[Any] | None,
        refuse: Callable[[int], Any] | None,
        before: int,
    ) -> None:
        self.result = result
        self.parked = parked
        self.refuse = refuse
        self.before = before
        self.records: list[KeyValue] = []
        self.size_bytes = 0
        self.writer: Producer | Marker | None = result.marker or result.producer

    @property
    def writes(self) -> bool:
        return bool(self.records) or self.result.marker is not None

    def fits(self, first: "_Entry", size_bytes: int) -> bool:
        """Whether this one may share a batch with `first`, which has grown to `size_bytes`. Who only reads
        fits anywhere."""
        if not self.writes:
            return True
        if self.writer != first.writer or self.result.marker is not None:
            return False
        return size_bytes + self.size_bytes <= BATCH_BYTES_MAX

    def release(self) -> None:
        if self.result.on_commit is not None:
            try:
                self.result.on_commit()
            except Exception:
                # What is committed is committed, and those who wait for it are to be told.
                _log.exception("what was to follow a commit failed")
        if self.result.response is not None and self.parked is not None:
            self.parked.answer(self.result.response)
        for parked, response in self.result.answers:
            parked.answer(response)


class _Shard(Generic[M]):
    """One partition: its state, what is queued, what is in flight."""

    __slots__ = (
        "failing",
        "flush_due",
        "in_flight",
        "loading",
        "partition",
        "queue",
        "state",
        "timer",
        "timer_at_ms",
        "token",
    )

    def __init__(self, partition: int, state: M) -> None:
        self.partition = partition
        self.state = state
        self.loading = True
        self.queue: deque[_Entry] = deque()
        self.in_flight: list[_Entry] | None = None
        self.flush_due = False
        self.failing = False  # so that the log tells of a failure once, and of its end
        self.timer: TimerHandle | None = None
        self.timer_at_ms = 0
        self.token = (
            object()
        )  # replaced when the shard is given up, so that late callbacks find themselves outdated


class CoordinatorRuntime(Generic[M]):
    """All shards of one coordinator topic that this broker leads."""

    def __init__(
        self,
        topic: str,
        *,
        log: CoordinatorLog,
        make_state: Callable[[int], M],
        clock: Clock,
        timers: Timers,
    ) -> None:
        self.topic = topic
        self._coordinator_log = log
        self._make_state = make_state
        self._clock = clock
        self._timers = timers
        self._shards: dict[int, _Shard[M]] = {}
        self._unloadable: set[int] = set()
        """Partitions whose last load failed, of which the log speaks once."""

    # Leadership.

    def start(self, partition: int) -> None:
        """This broker leads `partition` now: load it. Starting a shard that is loaded or loading does
        nothing."""
        if partition in self._shards:
            return
        shard = _Shard(partition, self._make_state(partition))
        shard.state.journal.recording = False
        self._shards[partition] = shard
        try:
            records = self._coordinator_log.committed_records(self.topic, partition)
        except Exception:
            self._load_failed(shard)
            return
        self._read_slice(shard, records, Gathering())

    def stop(self, partition: int, error_code: int = ErrorCode.NOT_COORDINATOR) -> None:
        """This broker leads `partition` no longer: whoever waits is sent away with `error_code`."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            self._give_up(shard, error_code)

    def partitions(self) -> list[int]:
        """The partitions that were started, loaded or not."""
        return list(self._shards)

    def is_active(self, partition: int) -> bool:
        """Whether `partition` is loaded and serves."""
        shard = self._shards.get(partition)
        return shard is not None and not shard.loading

    def loading(self) -> list[int]:
        """The partitions that are being loaded."""
        return [shard.partition for shard in self._shards.values() if shard.loading]

    def states(self) -> Iterator[tuple[int, M]]:
        """The state of every shard that serves (uncommitted changes included)."""
        return ((shard.partition, shard.state) for shard in list(self._shards.values()) if not shard.loading)

    def state(self, partition: int) -> M | None:
        """The state of one shard, if it serves (uncommitted changes included)."""
        shard = self._shards.get(partition)
        return None if shard is None or shard.loading else shard.state

    # Deciding.

    def decide(
        self,
        partition: int,
        operation: Callable[[M, int], Result[R]],
        refuse: Callable[[int], R],
        parked: Parked[R] | None = None,
    ) -> Any:
        """Run `operation(state, now_ms)`; return the response, or an `asyncio.Future` of it where it has to
        wait.

        `refuse(error_code)` builds the response for a shard that is not here, still loading, or cannot write.
        An operation that leaves its caller waiting for others is given the caller's `parked` by whoever made
        both.
        """
        shard = self._shards.get(partition)
        if shard is None:
            return refuse(ErrorCode.NOT_COORDINATOR)
        if shard.loading:
            return refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        result = operation(shard.state, self._clock.now_ms())
        if (
            not result.records
            and result.marker is None
            and not shard.queue
            and shard.in_flight is None
            and result.response is not None
            and result.on_commit is None
        ):
            for waiting, response in result.answers:
                waiting.answer(response)
            self._arm(shard)
            return result.response
        parked = parked if parked is not None else Parked()
        self._apply(shard, result, parked, refuse)
        if shard.in_flight is None and shard.queue:
            self._flush(shard)
        return parked.outcome()

    def submit(self, partition: int, operation: Callable[[M, int], Result[None]]) -> None:
        """Run an operation that nobody waits for; a shard that does not serve ignores it."""
        shard = self._shards.get(partition)
        if shard is not None and not shard.loading:
            self._apply(shard, operation(shard.state, self._clock.now_ms()), None, None)

    def _apply(
        self,
        shard: _Shard[M],
        result: Result[Any],
        parked: Parked[Any] | None,
        refuse: Callable[[int], Any] | None,
    ) -> None:
        state = shard.state
        entry = _Entry(result, parked, refuse, state.journal.mark())
        if result.records:
            entry.records = [state.encode(record) for record in result.records]
            entry.size_bytes = sum(len(key) + len(value or b"") + 16 for key, value in entry.records)
        if entry.writes:
            try:
                _replay(state, result)
            except BaseException:
                state.journal.roll_back(entry.before)
                raise
            shard.queue.append(entry)
            self._schedule_flush(shard)
        elif shard.queue:
            shard.queue.append(entry)
        elif shard.in_flight is not None:
            shard.in_flight.append(entry)
        else:
            entry.release()
        self._arm(shard)

    # Appending.

    def _schedule_flush(self, shard: _Shard[M]) -> None:
        if not shard.flush_due and shard.in_flight is None:
            shard.flush_due = True
            self._later(shard, 0, lambda: self._flush(shard))

    def _later(self, shard: _Shard[M], delay_ms: int, action: Callable[[], None]) -> TimerHandle:
        """Run `action` later, unless the shard has been given up by then."""
        token = shard.token

        def run() -> None:
            if token is shard.token:
                action()

        return self._timers.call_later(delay_ms, run)

    def _flush(self, shard: _Shard[M]) -> None:
        """Append what is queued, up to a batch's size, together with the readers that wait behind it."""
        shard.flush_due = False
        if shard.in_flight is not None or not shard.queue:
            return
        queue = shard.queue
        first = queue[0]
        entries: list[_Entry] = []
        records: list[KeyValue] = []
        size_bytes = 0
        while queue and (queue[0] is first or queue[0].fits(first, size_bytes)):
            entry = queue.popleft()
            entries.append(entry)
            records += entry.records
            size_bytes += entry.size_bytes
        shard.in_flight = entries
        try:
            appended = self._append(shard.partition, first.writer, records)
        except Exception as error:
            self._failed(shard, error)
            return
        token = shard.token
        appended.add_done_callback(lambda future: self._appended(shard, token, future))

    def _append(self, partition: int, writer: Producer | Marker | None, records: list[KeyValue]) -> Appended:
        log = self._coordinator_log
        if writer is None:
            return log.append_records(self.topic, partition, records)
        if isinstance(writer, Marker):
            return log.append_marker(self.topic, partition, writer)
        return log.append_records(self.topic, partition, records, writer)

    def _appended(self, shard: _Shard[M], token: object, future: Appended) -> None:
        error: BaseException | None = _Cancelled() if future.cancelled() else future.exception()
        if token is not shard.token:
            return
        if error is not None:
            self._failed(shard, error)
            return
        if shard.failing:
            shard.failing = False
            _log.info("%s-%d can be written again", self.topic, shard.partition)
        entries = shard.in_flight or []
        shard.in_flight = None
        shard.state.journal.commit(shard.queue[0].before if shard.queue else shard.state.journal.mark())
        for entry in entries:
            entry.release()
        if token is shard.token:  # whoever was told may have given the shard up
            self._flush(shard)

    def _failed(self, shard: _Shard[M], error: BaseException) -> None:
        """Undo everything that is not committed, tell everybody, and load anew if the log's content is in
        doubt."""
        append_error = getattr(error, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
        error_code = CLIENT_ERRORS.get(append_error, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not shard.failing and append_error not in PRODUCER_ERRORS:
            shard.failing = True
            _log.warning("%s-%d cannot be written: %s", self.topic, shard.partition, error)
        if append_error not in REFUSED_BEFORE_WRITING:
            partition = shard.partition
            self.stop(partition, error_code)
            self.start(partition)
            return
        in_flight = shard.in_flight or []
        entries = [*in_flight, *shard.queue]
        shard.in_flight = None
        shard.queue.clear()
        shard.state.journal.roll_back(entries[0].before)
        if append_error in PRODUCER_ERRORS:
            own = [entry for entry in in_flight if entry.writes]
            self._refuse([entry for entry in entries if entry not in own], error_code)
            self._refuse(own, append_error)
        else:
            self._refuse(entries, error_code)
        for parked, response in shard.state.rolled_back(error_code):
            parked.answer(response)
        self._arm(shard)

    def _refuse(self, entries: list[_Entry], error_code: int) -> None:
        """Mend, then send everybody away. Answers to callers parked earlier rest on what lives in memory
        only, which a failed append does not undo; so they are given all the same, unless mending gave another
        one."""
        for entry in reversed(entries):
            if entry.result.on_failure is not None:
                entry.result.on_failure(error_code)
        for entry in entries:
            if entry.parked is not None and entry.refuse is not None and entry.result.response is not None:
                entry.parked.answer(entry.refuse(error_code))
            for parked, response in entry.result.answers:
                parked.answer(response)

    def _give_up(self, shard: _Shard[M], error_code: int) -> None:
        shard.token = object()
        if shard.timer is not None:
            shard.timer.cancel()
        self._refuse([*(shard.in_flight or []), *shard.queue], error_code)
        for parked, response in shard.state.unloaded(error_code):
            parked.answer(response)

    # Timers.

    def _arm(self, shard: _Shard[M]) -> None:
        """Keep one real timer behind the shard's earliest deadline."""
        earliest_ms = shard.state.deadlines.earliest_ms()
        if earliest_ms is None or (shard.timer is not None and shard.timer_at_ms <= earliest_ms):
            return
        if shard.timer is not None:
            shard.timer.cancel()
        shard.timer_at_ms = earliest_ms
        shard.timer = self._later(shard, earliest_ms - self._clock.now_ms(), lambda: self._ring(shard))

    def _ring(self, shard: _Shard[M]) -> None:
        shard.timer = None
        now_ms = self._clock.now_ms()
        for key in shard.state.deadlines.pop_due(now_ms):
            self._apply(shard, shard.state.due(key, now_ms), None, None)
        self._arm(shard)

    # Loading.

    def _read_slice(
        self,
        shard: _Shard[M],
        records: Iterator[Loaded],
        gathering: Gathering,
    ) -> None:
        """Read a slice of the log."""
        try:
            chunk = list(islice(records, LOAD_SLICE_RECORDS))
            gathering.take(chunk)
        except Exception:
            self._load_failed(shard)
            return
        if len(chunk) == LOAD_SLICE_RECORDS:
            self._later(shard, 0, lambda: self._read_slice(shard, records, gathering))
        else:
            self._replay_slice(shard, iter(gathering.latest.items()), gathering)

    def _replay_slice(
        self, shard: _Shard[M], items: Iterator[tuple[bytes, bytes]], gathering: Gathering
    ) -> None:
        chunk = list(islice(items, LOAD_SLICE_RECORDS))
        for key, value in chunk:
            try:
                shard.state.load(key, value)
            except Exception:
                self._unreadable(shard, key)
        if len(chunk) == LOAD_SLICE_RECORDS:
            self._later(shard, 0, lambda: self._replay_slice(shard, items, gathering))
            return
        if isinstance(shard.state, TransactionalMachine):
            for producer, key, pending in gathering.pending():
                try:
                    shard.state.load_pending(producer, key, pending)
                except Exception:
                    self._unreadable(shard, key)
        shard.state.journal.recording = True
        shard.loading = False
        self._unloadable.discard(shard.partition)
        self._apply(shard, shard.state.loaded(self._clock.now_ms()), None, None)

    def _unreadable(self, shard: _Shard[M], key: bytes) -> None:
        _log.exception("%s-%d: skipping a record that cannot be read: %r", self.topic, shard.partition, key)

    def _load_failed(self, shard: _Shard[M]) -> None:
        """Loading failed: try again later, for as long as nobody says that this broker leads no longer."""
        if shard.partition not in self._unloadable:
            # Fifty partitions that fail twice a second would fill the disk whose fullness made them fail.
            first = not self._unloadable
            self._unloadable.add(shard.partition)
            error = sys.exc_info()[1]
            error_code = getattr(error, "error_code", None)
            if error_code is None:
                _log.exception("%s-%d cannot be loaded; trying again", self.topic, shard.partition)
            elif first:
                # The log itself refuses, and has said why: no fault of this code.
                _log.error(
                    "%s-%d cannot be loaded (%s): it is tried again, as are others of the topic that fail so",
                    self.topic,
                    shard.partition,
                    error_name(error_code),
                )

        def again() -> None:
            del self._shards[shard.partition]
            self.start(shard.partition)

        self._later(shard, LOAD_RETRY_MS, again)


def _replay(state: Machine, result: Result[Any]) -> None:
    """Apply what a result is about to write. Only a machine that knows transactions hands out theirs."""
    if result.marker is not None:
        marker = result.marker
        cast("TransactionalMachine", state).end_transaction(marker.producer_id, marker.committed)
    elif result.producer is not None:
        for record in result.records:
            cast("TransactionalMachine", state).replay_pending(record, result.producer)
    else:
        for record in result.records:
            state.replay(record)


class _Cancelled(Exception):
    """The append was cancelled; nobody knows how far it got."""

    error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
