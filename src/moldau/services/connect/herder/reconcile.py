"""What runs here follows what shall run here: plan.py says what to stop and to start, this does it.

A crash between a record and its effect is made good by whoever has the work next: the records say all that
is to be done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from moldau.connect.errors import ConnectError
from moldau.services.connect.group.protocol import CONNECTOR
from moldau.services.connect.herder.fencing import FencingRequests
from moldau.services.connect.herder.loop import Loop
from moldau.services.connect.herder.parts import RETRY_SECONDS, RETRY_SECONDS_MAX, Parts
from moldau.services.connect.herder.plan import RunningConnector, plan
from moldau.services.connect.herder.task_sets import Here, TaskSets
from moldau.services.connect.herder.tasks import restart_plan
from moldau.services.connect.herder.telling import Telling
from moldau.services.connect.runtime.interface import Runtime, State, Status, TaskId
from moldau.services.connect.stores.configs import ConfigsState, RestartAsked
from moldau.services.connect.stores.kafka_log import LogFailed, NotWritten

log = logging.getLogger("moldau.connect.herder")


class Reconciler:
    """On the loop, but for `soon`. Calls of a runtime return at once, but for stopping, which has a limit."""

    def __init__(
        self,
        parts: Parts,
        loop: Loop,
        runtime: Callable[[], Runtime],
        telling: Telling,
        task_sets: TaskSets,
        here: Here,
        is_closing: Callable[[], bool],
    ) -> None:
        self._settings, self._stores, self._membership = parts.settings, parts.stores, parts.membership
        self._secrets = parts.secrets
        self._loop, self._runtime, self._telling, self._task_sets = loop, runtime, telling, task_sets
        self._here, self._is_closing = here, is_closing
        self.fencing: FencingRequests
        """Set when all is put together: it comes back here."""
        self.offset_wanted = -1
        """How far the configuration has to be read before anything is done."""
        self.has_run = False
        self._waits = False
        self._comes_again = False

    def soon(self) -> None:
        """Something has changed. On any thread; however often it is said, one run waits."""
        if not self._waits and not self._is_closing():
            self._waits = True
            self._loop.soon(self._run_waiting)

    def _run_waiting(self) -> None:
        self._waits = False
        try:
            self.run()
        except (LogFailed, TimeoutError, NotWritten) as problem:
            log.error("what runs here cannot be brought up to date yet: %s", problem)
            self._later(RETRY_SECONDS)

    def _later(self, after_seconds: float) -> None:
        """However many want it, one waits."""
        if not self._comes_again:
            self._comes_again = True
            self._loop.soon(self._again, after_seconds)

    def _again(self) -> None:
        self._comes_again = False
        self.soon()

    def run(self) -> None:
        """LogFailed, TimeoutError."""
        if self._is_closing() or self._membership.generation < 0:
            return
        if self._stores.configs().offset < self.offset_wanted:
            self._stores.read_configs(self._settings.worker_sync_timeout_ms / 1000)
        state, here = self._stores.configs(), self._here
        made = plan(self._membership.held(), self._membership.revoked(), state, here.connectors, here.tasks)
        gone = [each for each in made.stop_tasks if each not in made.start_tasks]
        self._stop_tasks(made.stop_tasks, told=gone)
        gone_connectors = [each for each in made.stop_connectors if each not in made.start_connectors]
        self._stop_connectors(made.stop_connectors, told=gone_connectors)
        if made.let_go:
            self._membership.let_go(frozenset(made.let_go))
        for name in made.start_connectors:
            self._start_connector(name, state)
        for task in made.start_tasks:
            self._start_task(task, state)
        for name in made.set_targets:
            here.connectors[name] = RunningConnector(state.connectors[name], state.target(name))
        targeted = {*made.set_targets, *(task.connector for task in here.tasks)}
        for name in targeted - set(made.start_connectors):
            self._runtime().set_target(name, state.target(name))
        for name in made.without_tasks:
            self._task_sets.none_for(name)
        for name in list(here.connectors):
            if name not in made.without_tasks:
                self._task_sets.see_to(name)
        self.has_run = True

    def restart_asked(self, asked: RestartAsked) -> None:
        """By a record (KIP-745): start again what of it runs here."""
        state = self._stores.configs()
        if asked.name not in state.connectors:
            return
        statuses = self._stores.statuses_of_tasks(asked.name)
        parts = restart_plan(asked, state, self._stores.connector_status(asked.name), statuses)
        own = self._membership.held()
        is_connector = parts.connector and TaskId(asked.name, CONNECTOR) in own
        self.restart(asked.name, [each for each in parts.tasks if each in own], is_connector=is_connector)

    def restart(self, name: str, tasks: Sequence[TaskId], *, is_connector: bool) -> None:
        """Start these again, which run here."""
        if is_connector:
            self._telling.connector(name, Status(State.RESTARTING))
            self._stop_connectors([name])
        if tasks:
            for each in tasks:
                self._telling.task(each, Status(State.RESTARTING))
            self._stop_tasks(tasks)
        self.run()

    def stop_all(self) -> None:
        """Nothing runs here any more."""
        tasks, connectors = list(self._here.tasks), list(self._here.connectors)
        self._stop_tasks(tasks, told=tasks)
        self._stop_connectors(connectors, told=connectors)

    def _stop_tasks(self, tasks: Sequence[TaskId], told: Sequence[TaskId] = ()) -> None:
        running = [each for each in tasks if each in self._here.tasks]
        if not running:
            return
        seconds = self._settings.task_shutdown_graceful_timeout_ms / 1000
        for each in self._runtime().stop_tasks(running, seconds):
            log.error("the task %s-%d did not end in time and was left behind", each.connector, each.task)
        for each in running:
            del self._here.tasks[each]
        self._telling.tasks_stopped([each for each in told if each in running])

    def _stop_connectors(self, names: Sequence[str], told: Sequence[str] = ()) -> None:
        running = [each for each in names if each in self._here.connectors]
        if not running:
            return
        seconds = self._settings.task_shutdown_graceful_timeout_ms / 1000
        for name in self._runtime().stop_connectors(running, seconds):
            log.error("the connector %s did not end in time and was left behind", name)
        for name in running:
            del self._here.connectors[name]
            self._task_sets.forget(name)
            if name in told:
                self._telling.connector_stopped(name)

    def _start_connector(self, name: str, state: ConfigsState) -> None:
        config, target = state.connectors[name], state.target(name)
        self._here.connectors[name] = RunningConnector(config, target)
        try:
            filled = self._here.resolved[name] = self._secrets.filled(config)
        except ConnectError as problem:
            self._telling.connector(name, Status(State.FAILED, str(problem)))
            self._loop.soon(lambda: self._try_connector_again(name), RETRY_SECONDS_MAX)
            return
        self._telling.hide(name, config, filled)
        self._runtime().start_connector(name, filled, target, state.configs_of_tasks(name))

    def _try_connector_again(self, name: str) -> None:
        found = self._stores.connector_status(name)
        if name in self._here.connectors and found is not None and found.state is State.FAILED:
            del self._here.connectors[name]
            self.soon()

    def _start_task(self, task: TaskId, state: ConfigsState) -> None:
        config = state.task_configs[task]
        if self.fencing.needed(task.connector, state):
            self.fencing.ask(task.connector, state.connectors[task.connector])
            return
        try:
            filled = self._secrets.filled(config)
        except ConnectError as problem:
            self._telling.task(task, Status(State.FAILED, str(problem)))
            self._later(RETRY_SECONDS_MAX)
            return
        self._telling.hide(task.connector, config, filled)
        self._here.tasks[task] = config
        self._runtime().start_task(task, filled, state.target(task.connector))

    def forget(self, name: str) -> None:
        """The connector is deleted."""
        self._here.resolved.pop(name, None)
        self._task_sets.forget(name)
        self._telling.forget(name)
        self.fencing.forget(name)
