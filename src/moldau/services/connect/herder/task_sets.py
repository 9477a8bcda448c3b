"""What connectors want as tasks, written by the leader: tried again until it is done, the connector wants
others, or is not this worker's any more.

    runtime: wants ──> wanted ── leader: write (task-N-i, commit-N)
                              └─ else: ask the leader
    reconcile: see_to ──> what is written is not what is wanted: once more
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from moldau.services.connect.herder.interface import HerderProblem
from moldau.services.connect.herder.leading import Leading
from moldau.services.connect.herder.loop import Loop
from moldau.services.connect.herder.parts import RETRY_SECONDS, RETRY_SECONDS_MAX, Parts
from moldau.services.connect.herder.plan import RunningConnector
from moldau.services.connect.herder.problems import not_found
from moldau.services.connect.herder.tasks import task_class, task_configs, too_many
from moldau.services.connect.herder.telling import Telling
from moldau.services.connect.runtime.interface import State, Status, TaskId
from moldau.services.connect.stores.configs import Config, task_records
from moldau.services.connect.stores.kafka_log import LogFailed, NotWritten

log = logging.getLogger("moldau.connect.herder")


@dataclass
class Here:
    """What runs here. Changed on the loop alone."""

    connectors: dict[str, RunningConnector] = field(default_factory=dict)
    tasks: dict[TaskId, Config] = field(default_factory=dict)
    resolved: dict[str, Config] = field(default_factory=dict)
    """Connectors' settings with references filled in."""


class TaskSets:
    """On the loop."""

    def __init__(
        self,
        parts: Parts,
        loop: Loop,
        pool: ThreadPoolExecutor,
        leading: Leading,
        telling: Telling,
        here: Here,
        is_closing: Callable[[], bool],
    ) -> None:
        """`pool`: for requests to the leader."""
        self._stores, self._membership, self._peer = parts.stores, parts.membership, parts.peer
        self._loop, self._pool, self._leading, self._telling = loop, pool, leading, telling
        self._here, self._is_closing = here, is_closing
        self._wanted: dict[str, Sequence[Mapping[str, str]]] = {}
        """What each connector that runs here wanted last, as it said it."""
        self._proposed: dict[str, Sequence[Config]] = {}
        """The same as records have it: what it wanted before is not tried again."""
        self._pending: set[str] = set()
        """Those whose proposal is on its way, or waits to be tried again."""

    def forget(self, name: str) -> None:
        """The connector is started anew, or deleted: what it wanted does not count any more."""
        self._wanted.pop(name, None)
        self._proposed.pop(name, None)
        self._pending.discard(name)

    def wants(self, name: str, wanted: Sequence[Mapping[str, str]]) -> None:
        """A connector wants these tasks."""
        if name in self._here.connectors:
            self._wanted[name] = wanted
            self._see_that(name, wanted)

    def see_to(self, name: str) -> None:
        """What a connector wanted may have been overwritten since (by a stop that was taken back at once)."""
        wanted = self._wanted.get(name)
        if wanted is not None and name not in self._pending:
            self._see_that(name, wanted)

    def none_for(self, name: str) -> None:
        """A stopped connector shall have no tasks."""
        self._propose(name, [], for_stopped=True)

    def _see_that(self, name: str, wanted: Sequence[Mapping[str, str]]) -> None:
        running = self._here.connectors[name]
        before = self._stores.configs().configs_of_tasks(name)
        java_class = task_class(running.config, before)
        made = task_configs(running.config, self._here.resolved.get(name, {}), wanted, java_class)
        complaint = too_many(name, running.config, len(made))
        if complaint is not None:
            self._telling.connector(name, Status(State.FAILED, complaint))
            return
        self._propose(name, made)

    def _is_written(self, name: str, configs: Sequence[Config]) -> bool:
        state = self._stores.configs()
        return (
            name not in state.inconsistent
            and name in state.task_counts
            and state.configs_of_tasks(name) == list(configs)
        )

    def _propose(
        self,
        name: str,
        configs: Sequence[Config],
        after_seconds: float = RETRY_SECONDS,
        *,
        for_stopped: bool = False,
    ) -> None:
        state = self._stores.configs()
        if name not in state.connectors or name not in self._here.connectors or self._is_closing():
            return
        if (state.target(name) is State.STOPPED) is not for_stopped:
            return
        self._proposed[name] = configs
        self._pending.discard(name)
        if self._is_written(name, configs):
            return
        self._pending.add(name)

        def done() -> None:
            if self._proposed.get(name) is configs:
                self._pending.discard(name)

        def again(problem: Exception) -> None:
            log.warning("the tasks of %s are not written yet: %s", name, problem)
            later = min(after_seconds * 2, RETRY_SECONDS_MAX)
            self._loop.soon(lambda: retry(later), after_seconds)

        def retry(later: float) -> None:
            if self._proposed.get(name) is configs:
                self._propose(name, configs, later, for_stopped=for_stopped)

        if self._membership.is_leader:
            try:
                self.write(name, configs)
                done()
            except NotWritten as problem:
                if problem.too_large:
                    self._telling.connector(name, Status(State.FAILED, f"its tasks: {problem}"))
                else:
                    again(problem)
            except (HerderProblem, LogFailed, TimeoutError) as problem:
                again(problem)
            return
        self._pool.submit(self._ask, name, configs, done, again)

    def _ask(
        self,
        name: str,
        configs: Sequence[Config],
        done: Callable[[], None],
        again: Callable[[Exception], None],
    ) -> None:
        """On a thread of the pool."""
        try:
            self._peer.put_tasks(self._membership.leader_url, name, configs)
        except Exception as problem:  # whatever it was: else the tasks would never be written
            again(problem)
        else:
            self._loop.soon(done)

    def write(self, name: str, configs: Sequence[Config]) -> None:
        """As the leader. HerderProblem 404, NotWritten, LogFailed, TimeoutError."""
        state = self._stores.configs()
        if name not in state.connectors:
            raise not_found(f"Connector {name} not found")
        if self._is_written(name, configs):
            return
        before = state.task_counts.get(name, 0)
        self._leading.write(task_records(name, configs))
        for index in range(len(configs), before):
            self._stores.put_task_status(TaskId(name, index), None)
