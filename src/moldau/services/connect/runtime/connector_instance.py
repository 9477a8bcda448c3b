"""A connector's instance, one in the cluster: says which tasks there shall be.

A sink has as many as `tasks.max`; the group distributes partitions among them. A source is asked what there
is to read, again every `moldau.partitions.interval.ms` and when it says so itself; its partitions are dealt
out to at most `tasks.max` tasks, so that a partition stays where it is when others come.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.sink import Sink
from moldau.connect.source import Source, SourceContext
from moldau.services.connect.runtime.building import (
    Shared,
    connector_class,
    connector_settings,
    secret_rows,
)
from moldau.services.connect.runtime.control import Control
from moldau.services.connect.runtime.engine_choice import EngineChoice
from moldau.services.connect.runtime.engines import (
    AUTO,
    LOCAL,
    SPARK,
    TASK_ENGINE,
    TASK_WHY,
    Engine,
    asked_engine,
    auto_records,
)
from moldau.services.connect.runtime.hiding import Hiding
from moldau.services.connect.runtime.interface import State, Status, TaskId
from moldau.services.connect.runtime.problems import sentence_and_details
from moldau.services.connect.runtime.restarts import Restarts
from moldau.services.connect.runtime.rows import RESTART_ROWS, SOURCE_ROWS, settings_of
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.sink_demand import SinkDemand
from moldau.services.connect.runtime.source_offsets import partition_text
from moldau.services.connect.runtime.source_task import PARTITIONS

log = logging.getLogger("moldau.connect")

Configs = Sequence[Mapping[str, str]]
_LOOK_SECONDS = 10.0
"""How often it is asked which engine fits."""


class ConnectorInstance:
    """See the module. A source's has a thread, which sleeps between two looks."""

    def __init__(
        self,
        name: str,
        config: Mapping[str, str],
        target: State,
        shared: Shared,
        tell: Callable[[Status], None],
        task_configs: Callable[[Configs], None],
        before: Configs = (),
    ) -> None:
        """`before`: the tasks that it has, of another instance: an engine that was chosen for them stays."""
        self._name = name
        self._config = config
        self._shared = shared
        self._tell = tell
        self._task_configs = task_configs
        self._target = target
        self._control = Control(target)
        self._version = ""
        self._dealt: list[list[Mapping[str, Any]]] = []
        self._told: Configs | None = None
        self._engine = chosen_before(before)
        self._look = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"connector-thread-{name}", daemon=True)

    def start(self) -> None:
        """Begin; what comes of it is told."""
        self._thread.start()

    def set_target(self, target: State) -> None:
        """RUNNING, PAUSED or STOPPED."""
        self._target = target
        self._control.set_target(target)
        self._look.set()

    def partitions_changed(self) -> None:
        """Look again now."""
        self._look.set()

    def stop(self) -> None:
        """End soon."""
        self._control.stop()
        self._look.set()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the end; False: it was left behind."""
        self._thread.join(max(timeout_seconds, 0))
        if self._thread.is_alive():
            self._control.abandon()
            return False
        return True

    def _work(self) -> None:
        hiding = Hiding(self._config)
        try:
            kind = connector_class(self._config)
            hiding = Hiding(self._config, secret_rows(kind))
            self._version = kind.version
            restarts = Restarts(settings_of(RESTART_ROWS, self._config, self._name))
        except Exception as wrong:
            self._say(State.FAILED, hiding.text(sentence_and_details(wrong)))
            return
        while not self._control.stopping():
            began_ms = self._shared.clock.monotonic_ms()
            try:
                self._once(kind)
            except BaseException as failure:
                if self._control.stopping():
                    return
                delay_ms = restarts.failed(self._shared.clock.monotonic_ms() - began_ms)
                if not self._failed(hiding.text(sentence_and_details(failure)), delay_ms):
                    return

    def _failed(self, trace: str, delay_ms: int | None) -> bool:
        log.error("the connector %s failed: %s", self._name, trace)
        at_ms = None if delay_ms is None else self._shared.clock.now_ms() + delay_ms
        self._say(State.FAILED, trace, at_ms)
        return delay_ms is not None and not self._control.wait(delay_ms / 1000)

    def _once(self, kind: type[Source] | type[Sink]) -> None:
        """Until stopped, or until it is to be STOPPED and RUNNING again."""
        if self._target is State.STOPPED:
            self._say(State.STOPPED)
            self._told = None  # its tasks are taken away: what it wants is said again when it runs
            self._rest(None)
            return
        settings = connector_settings(kind, self._config)
        if issubclass(kind, Sink):
            self._say(self._target)
            self._run_sink(kind)
            return
        interval = settings_of(SOURCE_ROWS, self._config, self._name)["moldau.partitions.interval.ms"]
        source = kind()
        try:
            source.start(
                settings,
                SourceContext(self._name, None, self._control.stopping, self._control.wait, self._look.set),
            )
            self._deal(source)
            self._watch(source, float(interval) / 1000)
        finally:
            source.stop()

    def _run_sink(self, kind: type[Sink]) -> None:
        """Until its target changes."""
        asked = asked_engine(self._config, self._shared.worker)
        if asked != AUTO:
            self._tasks([{} for _ in range(1 if asked == SPARK else self._tasks_max())])
            self._rest(None)
            return
        if self._shared.spark is None or kind.keeps_open or not kind.gains_on_spark:
            why = "this worker has no Spark"
            if self._shared.spark is not None:
                why = f"{kind.__name__} does not say that it gains on Spark"
            self._tasks(self._for_engine(Engine(LOCAL, f"auto: {why}")))
            self._rest(None)
            return
        if self._target is not State.RUNNING:
            self._tasks(self._for_engine(self._engine or Engine(LOCAL, "")))
            self._rest(None)
            return
        choice = EngineChoice(
            auto_records(self._config, self._shared.worker), self._engine or Engine(LOCAL, "")
        )
        demand = SinkDemand(
            TaskSetup(TaskId(self._name, 0), self._config, self._shared.worker), self._shared.clock
        )
        try:
            while not self._control.stopping() and self._target is State.RUNNING:
                self._tasks(self._for_engine(choice.engine))
                self._rest(_LOOK_SECONDS)
                try:
                    self._engine = choice.looked(demand.look())
                except Retriable as failed:
                    choice.missed()
                    log.info("%s: which engine fits is not known: %s", self._name, failed)
        finally:
            demand.close()

    def _for_engine(self, engine: Engine) -> Configs:
        """The tasks of a sink whose engine was chosen."""
        more = {TASK_ENGINE: engine.name, TASK_WHY: engine.why} if engine.why else {}
        return [dict(more) for _ in range(1 if engine.name == SPARK else self._tasks_max())]

    def _watch(self, source: Source, interval_seconds: float) -> None:
        said = self._target
        self._say(said)
        while not self._control.stopping() and self._target is not State.STOPPED:
            self._rest(interval_seconds if self._target is State.RUNNING else None)
            wanted = State(self._target)
            if wanted is State.STOPPED:
                return
            if wanted is not said:
                said = wanted
                self._say(said)
            if wanted is State.RUNNING and not self._control.stopping():
                try:
                    self._deal(source)
                except Exception as failed:
                    why = Hiding(self._config, secret_rows(type(source))).text(str(failed))
                    log.warning("%s: what there is to read cannot be listed: %s", self._name, why)

    def _rest(self, seconds: float | None) -> None:
        self._look.wait(seconds)
        self._look.clear()

    def _tasks_max(self) -> int:
        text = self._config.get("tasks.max", "1")
        try:
            count = int(text)
        except ValueError:
            count = 0
        if count < 1:
            raise ConnectError(f"Invalid value {text} for configuration tasks.max: Value must be at least 1")
        return count

    def _deal(self, source: Source) -> None:
        found = {partition_text(each): each for each in source.partitions()}
        self._dealt = dealt(found, self._dealt, self._tasks_max())
        self._tasks(
            [
                {PARTITIONS: json.dumps(each, separators=(",", ":"), ensure_ascii=False)}
                for each in self._dealt
            ]
        )

    def _tasks(self, configs: Configs) -> None:
        if configs != self._told:
            self._told = configs
            self._task_configs(configs)

    def _say(self, state: State, trace: str = "", restarts_at_ms: int | None = None) -> None:
        if not self._control.stopping():
            self._tell(Status(state, trace, "", self._version, restarts_at_ms))


def chosen_before(tasks: Configs) -> Engine | None:
    """The engine that was chosen for these tasks; None: none was."""
    for each in tasks:
        if each.get(TASK_ENGINE) == SPARK:
            return Engine(SPARK, each.get(TASK_WHY, ""))
    return None


def dealt(
    found: Mapping[str, Mapping[str, Any]], before: Sequence[Sequence[Mapping[str, Any]]], tasks_max: int
) -> list[list[Mapping[str, Any]]]:
    """Partitions a task, evenly; those that had a task keep it as long as it has not too many."""
    count = min(tasks_max, len(found))
    if not count:
        return []
    most = -(-len(found) // count)
    made: list[list[Mapping[str, Any]]] = [[] for _ in range(count)]
    left = dict(found)
    for task, partitions in enumerate(before[:count]):
        for each in partitions:
            text = partition_text(each)
            if text in left and len(made[task]) < most:
                made[task].append(left.pop(text))
    for each in left.values():
        min(made, key=len).append(each)
    return made
