"""A sink's task: polls its partitions, converts, writes, flushes, and commits what is lasting.

    poll ── runs ── convert, transform ── note the runs' ends (one commit) ── Sink.write(batch, first offset)
                                                                                     │
    every offset.flush.interval.ms, before partitions go, at a pause and at the end: Sink.flush, commit

A crash at any point repeats what is noted, run by run, under the same numbers (sink_notes.py). A sink that
keeps positions is not noted for: reading begins where it says.

Not here: who watches over the thread, restarts (task_thread.py); rows that a sink refuses (sink_writing.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from moldau.common.core.clock import Clock
from moldau.common.core.java_patterns import compile_java
from moldau.connect.batch import TopicPartition
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.sink import Sink
from moldau.services.connect.runtime.control import Control
from moldau.services.connect.runtime.metrics import TaskMetrics
from moldau.services.connect.runtime.problems import Pauses
from moldau.services.connect.runtime.rows import SINK_ROWS, settings_of
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.sink_keeper import Keeper, SlowCall
from moldau.services.connect.runtime.sink_lag import Lag
from moldau.services.connect.runtime.sink_member import (
    Committed,
    Member,
    RebalanceUnderWay,
    SessionLost,
    offset_of,
)
from moldau.services.connect.runtime.sink_notes import notes_from
from moldau.services.connect.runtime.sink_partitions import Run, SinkPartition
from moldau.services.connect.runtime.sink_writing import Dropped, SinkWriting, Work

log = logging.getLogger("moldau.connect")

_POLL_SECONDS = 1.0
_RUN_RECORDS_MAX = 5_000
_RUN_BYTES_MAX = 32 * 1024 * 1024
_UNFLUSHED_BYTES_MAX = 256 * 1024 * 1024
_KEPT_BYTES_MAX = 64 * 1024 * 1024
"""Of runs that are held until they are flushed, since their rows may become dead letters."""
_REBALANCE_SECONDS = 0.05


class SinkTask:
    """One run of it, from start to stop or failure; made anew for each."""

    def __init__(
        self,
        setup: TaskSetup,
        sink: Sink,
        writing: SinkWriting,
        control: Control,
        keeper: Keeper,
        clock: Clock,
        metrics: TaskMetrics,
        topic_used: Callable[[str], None],
    ) -> None:
        self._topic_used = topic_used
        self._setup = setup
        self._sink = sink
        self._writing = writing
        self._control = control
        self._keeper = keeper
        self._clock = clock
        self._metrics = metrics
        self._partitions: dict[TopicPartition, SinkPartition] = {}
        self._keeps_positions = False
        self._busy = False
        """In the middle of a write that is repeated: a rebalance cannot flush now."""
        self._revoking = False
        """In the callback of a rebalance, where nothing can be polled."""
        self._lost = False
        self._unflushed_bytes = 0
        self._flush_pauses: Pauses | None = None
        self._lag = Lag(clock, metrics)
        self._flush_every_ms = float(setup.setting("offset.flush.interval.ms", "60000"))
        self._flush_at_ms = clock.monotonic_ms() + self._flush_every_ms
        self._count_max = int(setup.config.get("consumer.override.max.poll.records", _RUN_RECORDS_MAX))
        self._topics = settings_of(SINK_ROWS, setup.config, setup.connector)
        self._pattern = compile_java(self._topics["topics.regex"]) if self._topics["topics.regex"] else None
        self._subscribed: frozenset[str] = frozenset()
        self._look_at_ms = 0.0
        required: dict[str, Any] = {"enable_partition_eof": True}
        strategy = setup.config.get("consumer.override.partition.assignment.strategy", "cooperative")
        self._member = Member(
            setup.consumer(**required), "cooperative" in strategy, self._assigned, self._revoked
        )
        poll_interval_ms = float(setup.config.get("consumer.override.max.poll.interval.ms", "300000"))
        self._slow = SlowCall(self._kept_alive, poll_interval_ms / 4000)

    def run(self) -> None:
        """Until stopped. ConnectError, Retriable, SessionLost (start anew), Failed."""
        self._keeper.add(self._slow)
        self._writing.bind(self._call, self._commit_notes, self._once)
        try:
            self._subscribe()
            while not self._control.stopping():
                if self._control.paused:
                    self._stand_still()
                    continue
                self._turn()
            if not self._control.abandoned:
                self._flush()
                self._sink.closed(list(self._partitions))
        except Retriable:
            if not self._control.stopping():
                raise
        finally:
            self._keeper.remove(self._slow)
            self._lost = True  # what is not committed by now stays so
            self._member.close()

    def abandon(self) -> None:
        """From another thread: leave the group, so that others get the partitions."""
        self._lost = True
        self._member.close()

    def _turn(self) -> None:
        """Poll once, and write what came."""
        self._subscribe()
        polled = self._member.poll(self._count_max, self._poll_seconds())
        self._check_session()
        if polled is None:
            self._realign()
            return
        runs: list[Run] = []
        for place, messages in polled.messages.items():
            partition = self._partitions.get(place)
            if partition is not None:
                self._topic_used(place.topic)
                runs += partition.take(messages, _RUN_BYTES_MAX)
                self._metrics.add("sink-record-read-total", len(messages))
                self._lag.read(place, messages[-1])
        for place, end in polled.ends.items():
            if place in self._partitions:
                runs += self._partitions[place].reached_end(end)
        self._lag.measure(self._member.consumer, self._partitions)
        if runs:
            self._write(runs)
        bytes_max = _KEPT_BYTES_MAX if self._writing.keeps_runs else _UNFLUSHED_BYTES_MAX
        if self._clock.monotonic_ms() >= self._flush_at_ms or self._unflushed_bytes >= bytes_max:
            self._flush()

    def _poll_seconds(self) -> float:
        if all(each.written is None for each in self._partitions.values()):
            return _POLL_SECONDS
        left_ms = self._flush_at_ms - self._clock.monotonic_ms()
        return min(max(left_ms / 1000, 0.0), _POLL_SECONDS)

    def _subscribe(self) -> None:
        """Subscribe to the topics; with a pattern, look from time to time which there are."""
        if self._pattern is None and self._subscribed:
            return
        now_ms = self._clock.monotonic_ms()
        if self._pattern is None:
            found = frozenset(self._topics["topics"])
            if not found:
                raise ConnectError("give topics or topics.regex: there is nothing to read")
        elif now_ms < self._look_at_ms:
            return
        else:
            self._look_at_ms = now_ms + float(self._setup.setting("metadata.max.age.ms", "30000"))
            known = self._member.consumer.list_topics(timeout=30).topics
            found = frozenset(
                each for each in known if not each.startswith("__") and self._pattern.fullmatch(each)
            )
        if found and found != self._subscribed:
            self._member.subscribe(sorted(found))
            self._subscribed = found

    def _write(self, runs: Sequence[Run]) -> None:
        if any(self._partitions[run.origin].notes.is_full for run in runs):
            self._flush()
        works = [self._writing.prepare(run, self._partitions[run.origin]) for run in runs]
        if not self._keeps_positions:
            self._writing.note(works)
        else:
            self._writing.note_letters(works)
        for work in works:
            if self._control.stopping():
                return
            if self._partitions.get(work.run.origin) is work.partition:
                try:
                    self._writing.write(work, exact=not self._keeps_positions)
                except Dropped as dropped:
                    self._check_session()
                    self._go_back(dropped.failed)
                    return
                self._written(work)

    def _written(self, work: Work) -> None:
        work.partition.written = work.run.end
        self._unflushed_bytes += sum(len(each.value() or b"") + 50 for each in work.run.messages)
        self._metrics.add("sink-record-send-total", len(work.run.messages))
        self._lag.written(work.run.origin, work.run.messages[-1])

    def _flush(self) -> None:
        """Make lasting and commit; what the sink cannot make lasting is read and written again."""
        self._flush_at_ms = self._clock.monotonic_ms() + self._flush_every_ms
        if not self._partitions:
            return  # otherwise the sink is asked also where nothing is new: files may be old enough by now
        written = {place: each for place, each in self._partitions.items() if each.written is not None}
        began_ms = self._clock.monotonic_ms()
        try:
            self._once(self._sink.flush)
        except Dropped as dropped:
            self._check_session()
            self._go_back(dropped.failed)
            return
        self._writing.forget()
        self._flush_pauses = None
        self._unflushed_bytes = 0
        for each in written.values():
            if each.written is not None:
                each.notes.advance(each.written)
        if not written:
            return
        try:
            self._member.commit(
                [offset_of(place, each.notes.committed, each.notes.text()) for place, each in written.items()]
            )
        except RebalanceUnderWay:
            self._metrics.add("offset-commit-skip-total")
            return  # it is lasting; the next commit says so
        for each in written.values():
            each.written = None
        self._metrics.add("offset-commit-completion-total")
        self._metrics.took("offset-commit", self._clock.monotonic_ms() - began_ms)

    def _go_back(self, failed: Retriable) -> None:
        """After a flush that failed, or a write of a sink that keeps positions: read again from what is
        lasting, once the sink may be asked again."""
        self._writing.forget()
        if self._busy:
            raise failed
        if self._flush_pauses is None:
            self._flush_pauses = self._writing.policy.pauses(endless=True)
        if self._wait_in_group(self._flush_pauses.next_seconds(failed)):
            return
        positions = self._call(lambda: self._sink.positions(list(self._partitions))) or {}
        for place, each in self._partitions.items():
            each.rewind(positions.get(place, each.notes.committed))
        self._unflushed_bytes = 0
        self._realign()

    def _call(self, operation: Any) -> Any:
        """Call the sink, again and again while it is Retriable, and stay in the group meanwhile."""
        self._busy = True
        try:
            result = self._writing.policy.repeated(
                lambda: self._slow.run(operation), self._wait_in_group, endless=True
            )
        finally:
            self._busy = False
        self._check_session()
        return result

    def _once(self, operation: Any) -> Any:
        """Call the sink; Dropped where it is Retriable, since what it has staged may have gone with that."""
        was_busy, self._busy = self._busy, True
        try:
            result = self._slow.run(operation)
        except Retriable as failed:
            raise Dropped(failed) from failed
        finally:
            self._busy = was_busy
        self._check_session()
        return result

    def _wait_in_group(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        self._member.pause()
        while (left := until - time.monotonic()) > 0 and not self._control.stopping():
            self._member.poll(1, min(left, 0.5))
            if self._lost:
                raise SessionLost("a rebalance came while the sink did not answer")
        self._member.resume()
        self._realign()
        return self._control.stopping()

    def _stand_still(self) -> None:
        """Paused: commit, fetch nothing, stay in the group."""
        self._flush()
        self._member.pause()
        while self._control.paused and not self._control.stopping():
            self._member.poll(1, _POLL_SECONDS)
            self._check_session()
        self._member.resume()
        self._realign()

    def _check_session(self) -> None:
        if self._slow.was_kept:
            self._slow.was_kept = False
            self._member.resume()
            self._realign()
        if self._lost or self._control.abandoned:
            raise SessionLost("the group has gone on without this task")

    def _realign(self) -> None:
        self._member.realign({place: each.position for place, each in self._partitions.items()})

    def _kept_alive(self) -> None:
        """In the keeper's thread, while the sink takes its time."""
        if not self._control.abandoned:
            self._member.pause()
            self._member.poll(1, 0)

    def _commit_notes(self, works: Sequence[Work], commit: Any) -> None:
        """`commit` the notes, over rebalances. SessionLost."""
        while True:
            held = [each for each in works if self._partitions.get(each.run.origin) is each.partition]
            if not held:
                return
            try:
                commit(held, self._member)
                return
            except RebalanceUnderWay as under_way:
                if self._revoking:  # the rebalance waits for this call
                    raise SessionLost("a rebalance came before dead letters were written") from under_way
                if self._wait_in_group(_REBALANCE_SECONDS):
                    raise SessionLost("stopped before notes were written") from under_way

    def _assigned(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        if self._busy or not self._member.in_own_thread or self._control.abandoned:
            self._lost = True
            return dict.fromkeys(places)
        found = self._member.committed(places)
        positions = self._sink.positions(places)
        self._keeps_positions = positions is not None
        starts: dict[TopicPartition, int | None] = {}
        for place in places:
            group = found.get(place, Committed(None, None))
            notes = notes_from(*group)
            start = group.offset
            if positions is not None:
                notes.ends = []
                start = positions.get(place, start)
            if start is None:
                start = notes.committed = self._reset(place)
            self._partitions[place] = SinkPartition(place, start, notes)
            starts[place] = start
        self._sink.opened(places)
        log.info("%s: reads %s", self._setup.client_id, _named(starts))
        return starts

    def _reset(self, place: TopicPartition) -> int | None:
        """Where to begin without an offset; None: at the first record there is. ConnectError, Retriable."""
        match self._setup.offset_reset:
            case "latest":
                return self._member.end(place)
            case "none":
                raise ConnectError(
                    f"the group {self._setup.group} has no offset of {place.topic}-{place.partition}, and "
                    "auto.offset.reset is none: set the connector's offsets, or earliest or latest"
                )
        return None

    def _revoked(self, places: Sequence[TopicPartition], lost: bool) -> None:
        gone = lost or self._lost or self._control.abandoned
        if gone or self._busy or not self._member.in_own_thread:
            self._lost = True
            return
        self._busy = self._revoking = True
        try:
            self._flush()
        except (Retriable, SessionLost) as failed:
            log.warning("%s: partitions go before they are flushed: %s", self._setup.client_id, failed)
            self._lost = True
            return
        finally:
            self._busy = self._revoking = False
        for each in places:
            self._partitions.pop(each, None)
            self._lag.forget(each)
        self._sink.closed(places)


def _named(starts: dict[TopicPartition, int | None]) -> str:
    shown = [
        f"{place.topic}-{place.partition} from {'the start' if start is None else start}"
        for place, start in list(starts.items())[:20]
    ]
    return ", ".join(shown) + (" …" if len(starts) > 20 else "")
