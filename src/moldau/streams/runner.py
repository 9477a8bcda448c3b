"""Runs an app: turns its flows into Spark queries, until it is stopped.

    prepare   call every flow's function; check that its input topics exist; create its output topics; claim
              its checkpoint; become the app's driver
    start     a query for each flow, in one session; with `once`, flows that read others' output start later
    watch     twice a second: is this still the app's driver? did a flow fail, or end?
    stop      finish the running micro-batches, then end the session

Nothing is started before all is prepared: an error in one flow's function is reported before another flow
writes.

Not here: restarts of a failed flow (running.py), output (the command line).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from moldau.streams.building import build_all
from moldau.streams.checkpoints import Owner, claim
from moldau.streams.errors import AppError, Fenced, StreamsError, require_spark
from moldau.streams.failures import sentence
from moldau.streams.flow import Output
from moldau.streams.folder import Folder
from moldau.streams.lease import Lease
from moldau.streams.movement import Movement
from moldau.streams.running import RunningFlow
from moldau.streams.spark_work import Work, work_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from moldau.streams.app import App
    from moldau.streams.flow import Flow
    from moldau.streams.output_topics import Cluster
    from moldau.streams.spark_log import SparkLog

TICK_SECONDS = 0.25
STOP_SECONDS = 120.0
"""A micro-batch that is to be the last one is given up when none of its tasks has ended for so long."""
STOP_TOLD_SECONDS = 10.0


def quiet(text: str) -> None:
    """Print nothing."""


class Runner:
    """An app in this process."""

    def __init__(
        self,
        app: App,
        session: SparkSession,
        *,
        once: bool = False,
        say: Callable[[str], None] = quiet,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.app = app
        self.flows: list[RunningFlow] = []
        self.owners: dict[str, Owner] = {}
        self._session = session
        self._once = once
        self._say = say
        self._clock = clock
        self._root = Folder(app.checkpoints) / app.name
        self._lease = Lease(self._root, app.name, str(session.conf.get("spark.master", "") or ""))
        self._listener: Any = None
        self._trouble = ""
        self._stop = threading.Event()
        self._stop_now = threading.Event()

    def prepare(self, cluster: Cluster) -> None:
        """Do everything that can fail before anything runs. StreamsError."""
        built = build_all(list(self.app.flows.values()), lambda flow: (flow, *self._built(flow, cluster)))
        made = {flow.output.topic for flow in self.app.flows.values() if isinstance(flow.output, Output)}
        for flow, _, owner in built:
            cluster.require({*owner.streams, *owner.tables} - made, flow.name)
        for flow, _, owner in built:
            if isinstance(flow.output, Output):
                cluster.make(flow.output, owner.streams, self._say)
            claim(self._root / flow.name, owner)
            self.owners[flow.name] = owner
        for flow, rows, _ in built:
            folder = self._root / flow.name
            self.flows.append(
                RunningFlow(flow, rows, self.app.place, folder.uri, once=self._once, look=self._lease.check)
            )
        before = self._lease.take()
        if before is not None:
            self._say(f"took app {self.app.name} over from {before}, which stops when it notices")

    def _built(self, flow: Flow, cluster: Cluster) -> tuple[DataFrame, Owner]:
        from moldau.streams.encoding import encoded

        with self.app.building(flow) as reading:
            try:
                rows = flow.rows()
                if isinstance(flow.output, Output):
                    self.app.place.register(flow, flow.output, encoded(rows, flow.output))
            except StreamsError:
                raise
            except Exception as failure:
                raise StreamsError(f"flow {flow.name} cannot be built: {sentence(failure)}") from failure
        owner = Owner(
            self.app.name,
            flow.name,
            tuple(sorted(reading.streams)),
            tuple(sorted(reading.tables)),
            flow.target,
            cluster.cluster_id,
            self.app.bootstrap_servers,
            self.app.delivery,
        )
        return rows, owner

    def run(self, watch: Callable[[], None] = lambda: None) -> None:
        """Start the flows, return when they have ended; `watch` is called twice a second."""
        self._listener = progress_listener(self.flows)
        self._session.streams.addListener(self._listener)
        try:
            for group in self._in_order() if self._once else [self.flows]:
                for each in group:
                    if not self._stop.is_set():
                        each.start()
                self._watch(group, watch)
            self._end_gracefully(watch)
        finally:
            for each in self.flows:
                if not each.is_over:
                    each.stop_now()
            self._session.streams.removeListener(self._listener)
            with suppress(OSError, StreamsError):
                self._lease.leave()
            watch()

    def _watch(self, group: list[RunningFlow], watch: Callable[[], None]) -> None:
        told: dict[str, str] = {}
        while not self._stop.wait(TICK_SECONDS) and not all(each.is_over for each in group):
            self._renew()
            now = time.monotonic()
            for each in group:
                each.poll(now)
                if (
                    each.state in ("restarting", "failed", "fenced")
                    and told.get(each.flow.name) != each.reason
                ):
                    told[each.flow.name] = each.reason
                    self._say(f"flow {each.flow.name} {each.state}: {each.reason}")
            watch()

    def _renew(self) -> None:
        try:
            self._lease.renew()
            self._trouble = ""
        except Fenced as failure:
            for each in self.flows:
                each.reason = str(failure)
                each.stop_now("fenced")
        except (OSError, StreamsError) as failure:
            # It may pass; meanwhile the look before each micro-batch lets none write that should not.
            if str(failure) != self._trouble:
                self._say(f"the folder of checkpoints gives trouble: {failure}")
            self._trouble = str(failure)

    def _end_gracefully(self, watch: Callable[[], None]) -> None:
        for each in self.flows:
            if not each.is_over:
                each.ask_to_stop()
        left = [each for each in self.flows if not each.is_over]
        movement = Movement(self._clock)
        told_at = self._clock()
        while left and not self._stop_now.wait(0.05):
            for each in left:
                each.poll(self._clock())
            left = [each for each in left if not each.is_over and not each.stop_if_idle()]
            watch()
            work = self.work()
            movement.note((work, *((each.state, each.numbers.batches) for each in left)))
            names = ", ".join(each.flow.name for each in left)
            if left and self._clock() - told_at >= STOP_TOLD_SECONDS:
                told_at = self._clock()
                self._say(f"waiting for the last micro-batch of {names}: {work}")
            if left and movement.still_seconds > STOP_SECONDS:
                self._say(
                    f"no task of {names} has ended for {STOP_SECONDS:.0f} s: stopped in the middle of a "
                    "micro-batch, which is done again when the app is started"
                )
                return

    def _in_order(self) -> Iterator[list[RunningFlow]]:
        """Flows in groups, so that none reads what a later one writes (as far as possible)."""
        left = list(self.flows)
        while left:
            writes = {each.flow.output.topic for each in left if isinstance(each.flow.output, Output)}
            ready = [each for each in left if not writes & {*self._reads(each)}] or left
            yield ready
            left = [each for each in left if each not in ready]

    def _reads(self, running: RunningFlow) -> tuple[str, ...]:
        owner = self.owners[running.flow.name]
        return (*owner.streams, *owner.tables)

    def work(self) -> Work:
        """Spark's active work."""
        return work_of(self._session)

    def stop(self) -> None:
        """End the app after the running micro-batches. May be called repeatedly, and in a signal handler."""
        self._stop.set()

    def stop_now(self) -> None:
        """End the app at once, in the middle of a micro-batch. May be called in a signal handler."""
        self._stop_now.set()
        self._stop.set()

    @property
    def is_stopping(self) -> bool:
        """Whether the app is to end."""
        return self._stop.is_set()

    @property
    def failures(self) -> list[RunningFlow]:
        """Flows that failed."""
        return [each for each in self.flows if each.state in ("failed", "fenced")]


def progress_listener(flows: list[RunningFlow]) -> Any:
    """Spark's reports of completed micro-batches."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    by_name = {each.query_name: each for each in flows}

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            running = by_name.get(event.progress.name)
            if running is not None:
                running.numbers.add(event.progress)

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    return Listener()


@contextmanager
def stopped_by_signals(runner: Runner) -> Iterator[None]:
    """SIGINT and SIGTERM stop the runner; the second one does not wait for micro-batches. Installed
    after Spark's own SIGINT handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    for each in before:
        signal.signal(each, lambda *_: runner.stop_now() if runner.is_stopping else runner.stop())
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def run_app(
    app: App,
    *,
    once: bool = False,
    master: str | None = None,
    say: Callable[[str], None] | None = None,
    watch: Callable[[Runner], None] | None = None,
    spark_log: SparkLog | None = None,
) -> Runner:
    """Run an app until a signal, or with `once` until all is read; StreamsError if a flow has failed.

    What Spark's processes write to standard error goes to `spark_log`, if Spark is started here.
    """
    require_spark()
    from moldau.streams.checking import check_options
    from moldau.streams.launching import started_session
    from moldau.streams.output_topics import Cluster

    if not app.flows:
        raise AppError(
            f"app {app.name} has no flow: decorate a function with @app.to(...) or @app.table(...)"
        )
    check_options(app, say or print)
    cluster = Cluster(app)
    with started_session(app, master, spark_log) as session:
        runner = Runner(app, session, once=once, say=say or print)

        def look() -> None:
            for line in spark_log.own_lines() if spark_log is not None else ():
                (say or print)(line)
            if watch is not None:
                watch(runner)

        with stopped_by_signals(runner):
            try:
                runner.prepare(cluster)
            finally:
                cluster.close()
            runner.run(look)
    if runner.failures:
        raise StreamsError(
            "; ".join(f"flow {each.flow.name} {each.state}: {each.reason}" for each in runner.failures)
        )
    return runner
