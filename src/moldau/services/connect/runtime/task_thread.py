"""A task's thread: runs the task, and after a failure again, with pauses that grow (restarts.py).

    RUNNING ── failure ──> FAILED (why; restarts_at_ms) ── pause ──> RESTARTING ──> RUNNING
    PAUSED  the task stands still
A bug in a connector's class is a failure like others. A sink that lost its place in the group starts again at
once. After a stop nothing is told any more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from moldau.connect.errors import ConnectError
from moldau.connect.sink import Sink
from moldau.services.connect.runtime.building import Run, Shared, build, connector_class, secret_rows
from moldau.services.connect.runtime.control import Control
from moldau.services.connect.runtime.engines import (
    AUTO,
    LOCAL,
    SPARK,
    TASK_ENGINE,
    TASK_WHY,
    Engine,
    asked_engine,
    engine_of,
)
from moldau.services.connect.runtime.hiding import Hiding
from moldau.services.connect.runtime.interface import State, Status
from moldau.services.connect.runtime.metrics import TaskMetrics
from moldau.services.connect.runtime.problems import sentence_and_details
from moldau.services.connect.runtime.restarts import Restarts
from moldau.services.connect.runtime.rows import RESTART_ROWS, settings_of
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.sink_member import SessionLost
from moldau.services.connect.runtime.spark_commits import NotAlone

log = logging.getLogger("moldau.connect")

_REJOIN_SECONDS = 0.5
_SPARK_FAILURES_MAX = 3


class TaskThread:
    """One task of this worker."""

    def __init__(
        self, setup: TaskSetup, shared: Shared, target: State, tell: Callable[[Status], None]
    ) -> None:
        self.metrics = TaskMetrics(shared.clock)
        self._is_sink = False
        self._setup = setup
        self._shared = shared
        self._tell = tell
        self._control = Control(target)
        self._run: Run | None = None
        self._version = ""
        self._engine = Engine("", "")
        self._spark_failures = 0
        self.state = State.UNASSIGNED
        name = f"task-thread-{setup.connector}-{setup.task.task}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        """Begin; what comes of it is told."""
        self._thread.start()

    def set_target(self, target: State) -> None:
        """RUNNING or PAUSED."""
        self._control.set_target(target)
        if self.state in (State.RUNNING, State.PAUSED):
            self._say(State.PAUSED if self._control.paused else State.RUNNING)

    def stop(self) -> None:
        """End soon; see `join`."""
        self._control.stop()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the end; False: it does not end, and is left behind: nothing it does has an effect now."""
        self._thread.join(max(timeout_seconds, 0))
        if not self._thread.is_alive():
            return True
        self._control.abandon()
        run = self._run
        if run is not None:
            threading.Thread(target=run.abandon, name="connect-abandon", daemon=True).start()
        return False

    def values(self) -> Mapping[str, Mapping[str, float]]:
        """What it counted, by the group of the metric."""
        return self.metrics.values(self._is_sink)

    def _work(self) -> None:
        try:
            kind = connector_class(self._setup.config)
            self._version = kind.version
            self._is_sink = issubclass(kind, Sink)
            rows = secret_rows(kind)
            self._engine = engine_of(kind, self._setup.config, self._shared.worker)
        except Exception:
            rows = ()  # told by the first run
        hiding = Hiding(self._setup.config, rows)
        try:
            restarts = Restarts(settings_of(RESTART_ROWS, self._setup.config, self._setup.connector))
        except ConnectError as wrong:
            self._say(State.FAILED, hiding.text(str(wrong)))
            return
        while not self._control.stopping():
            began_ms = self._shared.clock.monotonic_ms()
            try:
                self._once()
            except SessionLost as lost:
                log.info("%s joins its group anew: %s", self._setup.client_id, lost)
                self._control.wait(_REJOIN_SECONDS)
            except BaseException as failure:
                if self._control.stopping():
                    log.info("%s: at its stop: %s", self._setup.client_id, hiding.text(str(failure)))
                    return
                ran_ms = self._shared.clock.monotonic_ms() - began_ms
                if not isinstance(failure, NotAlone):
                    self._away_from_spark(hiding.text(str(failure)), ran_ms)
                if not self._failed(hiding.text(sentence_and_details(failure)), restarts.failed(ran_ms)):
                    return

    def _away_from_spark(self, why: str, ran_ms: float) -> None:
        """A sink that `auto` moved to Spark, and that fails there again and again, runs here. (Both engines
        begin where its group stands.)"""
        config, worker = self._setup.config, self._shared.worker
        if self._engine.name != SPARK or asked_engine(config, worker) != AUTO:
            return
        ran_well = (
            ran_ms >= settings_of(RESTART_ROWS, config, self._setup.connector)["moldau.restart.reset.ms"]
        )
        self._spark_failures = 1 if ran_well else self._spark_failures + 1
        if self._spark_failures >= _SPARK_FAILURES_MAX:
            reason = (
                f"auto: it failed on Spark {self._spark_failures} times: {why.partition(chr(10))[0][:300]}"
            )
            self._setup = replace(self._setup, config={**config, TASK_ENGINE: LOCAL, TASK_WHY: reason})

    def _once(self) -> None:
        run = build(self._setup, self._shared, self._control, self.metrics)
        self._run, self._engine = run, run.engine
        try:
            self._say(State.PAUSED if self._control.paused else State.RUNNING)
            run.run()
        finally:
            self._run = None
            run.close()

    def _failed(self, trace: str, delay_ms: int | None) -> bool:
        """Tell, and wait; whether to start again."""
        log.error("%s failed: %s", self._setup.client_id, trace)
        if delay_ms is None:
            self._say(State.FAILED, trace)
            return False
        self._say(State.FAILED, trace, self._shared.clock.now_ms() + delay_ms)
        if self._control.wait(delay_ms / 1000):
            return False
        self._say(State.RESTARTING, trace)
        return True

    def _say(self, state: State, trace: str = "", restarts_at_ms: int | None = None) -> None:
        self.state = state
        if not self._control.stopping():
            engine = self._engine
            self._tell(Status(state, trace, engine.name, self._version, restarts_at_ms, engine.why))
