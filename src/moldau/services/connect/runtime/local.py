"""The local engine: a thread a task, in the worker's process.

Calls return at once, and what came of them is told to the listener from the threads. An idle task sleeps in
its thread, or in the poll of its consumer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.common.core.clock import Clock, SystemClock
from moldau.services.connect.runtime.building import Shared
from moldau.services.connect.runtime.connector_instance import ConnectorInstance
from moldau.services.connect.runtime.interface import Listener, State, TaskId
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.sink_keeper import Keeper
from moldau.services.connect.runtime.source_offsets import SourceOffsets
from moldau.services.connect.runtime.task_thread import TaskThread


class LocalRuntime:
    """See `Runtime` in interface.py."""

    def __init__(
        self,
        worker: Mapping[str, str],
        listener: Listener,
        clock: Clock | None = None,
        spark: Callable[[], Any] | None = None,
    ) -> None:
        """`worker`: the worker's settings under Kafka's names. `spark`: gives a Spark session; it is asked
        for when a connector wants that engine."""
        self._listener = listener
        self._lock = threading.Lock()
        self._connectors: dict[str, ConnectorInstance] = {}
        self._tasks: dict[TaskId, TaskThread] = {}
        self._counts = {"connector-startup-attempts-total": 0.0, "task-startup-attempts-total": 0.0}
        self._shared = Shared(
            worker,
            clock if clock is not None else SystemClock(),
            Keeper(),
            SourceOffsets(worker),
            listener.topic_used,
            spark,
        )

    def start_connector(
        self,
        connector: str,
        config: Mapping[str, str],
        target: State,
        tasks: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """See Runtime. One that runs is stopped first."""
        self.stop_connectors([connector], 0.0)
        listener = self._listener
        made = ConnectorInstance(
            connector,
            dict(config),
            target,
            self._shared,
            lambda status: listener.connector_status(connector, status),
            lambda configs: listener.task_configs(connector, configs),
            tasks,
        )
        with self._lock:
            self._connectors[connector] = made
            self._counts["connector-startup-attempts-total"] += 1
        made.start()

    def start_task(self, task: TaskId, config: Mapping[str, str], target: State) -> None:
        """See Runtime. One that runs is stopped first."""
        self.stop_tasks([task], 0.0)
        listener = self._listener
        made = TaskThread(
            TaskSetup(task, dict(config), self._shared.worker),
            self._shared,
            target,
            lambda status: listener.task_status(task, status),
        )
        with self._lock:
            self._tasks[task] = made
            self._counts["task-startup-attempts-total"] += 1
        made.start()

    def set_target(self, connector: str, target: State) -> None:
        """See Runtime."""
        with self._lock:
            instance = self._connectors.get(connector)
            tasks = [each for task, each in self._tasks.items() if task.connector == connector]
        if instance is not None:
            instance.set_target(target)
        for each in tasks:
            each.set_target(target)

    def stop_connectors(self, connectors: Sequence[str], timeout_seconds: float) -> Sequence[str]:
        """See Runtime."""
        with self._lock:
            found = {each: self._connectors.pop(each) for each in connectors if each in self._connectors}
        for each in found.values():
            each.stop()
        until = time.monotonic() + timeout_seconds
        return [name for name, each in found.items() if not each.join(until - time.monotonic())]

    def stop_tasks(self, tasks: Sequence[TaskId], timeout_seconds: float) -> Sequence[TaskId]:
        """See Runtime."""
        with self._lock:
            found = {task: self._tasks.pop(task) for task in tasks if task in self._tasks}
        for each in found.values():
            each.stop()
        until = time.monotonic() + timeout_seconds
        return [task for task, each in found.items() if not each.join(until - time.monotonic())]

    def metrics(self) -> Mapping[str, Mapping[str, float]]:
        """See Runtime."""
        with self._lock:
            tasks = dict(self._tasks)
            counts = dict(self._counts) | {
                "connector-count": float(len(self._connectors)),
                "task-count": float(len(self._tasks)),
            }
        found: dict[str, Mapping[str, float]] = {"connect-worker-metrics": counts}
        for task, each in tasks.items():
            for group, values in each.values().items():
                found[f"{group},connector={task.connector},task={task.task}"] = values
        return found

    def close(self, timeout_seconds: float) -> None:
        """See Runtime."""
        with self._lock:
            connectors, tasks = list(self._connectors), list(self._tasks)
        until = time.monotonic() + timeout_seconds
        self.stop_connectors(connectors, 0.0)
        self.stop_tasks(tasks, until - time.monotonic())
