"""What the herder asks of a runtime, and what it is told by it.

A *connector instance* (one in the cluster) lists what there is to read and so makes task configurations;
*tasks*
move records. A sink's tasks share the consumer group `connect-NAME`, which divides partitions among them.

    herder                                  runtime
    start_connector(name, config)  ──────>  asks the source for partitions now and from time to time
           task_configs(name, configs) <──  they changed
    start_task(id, config)         ──────>  a thread: poll, convert, transform, write, commit
           status(id, State, trace)    <──  RUNNING, PAUSED, FAILED, RESTARTING, UNASSIGNED
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol


class State(Enum):
    """Of a connector or a task, in connect-status and in REST."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"


class TaskId(NamedTuple):
    """A task of a connector."""

    connector: str
    task: int


@dataclass(frozen=True, slots=True)
class Status:
    """What a connector or task says of itself."""

    state: State
    trace: str = ""
    """Why it failed: the sentence first, then details."""
    engine: str = ""
    """`local` or `spark`; empty for a connector."""
    version: str = ""
    restarts_at_ms: int | None = None
    """When a failed task is started again by itself."""
    engine_why: str = ""
    """Why it is that engine."""


class Listener(Protocol):
    """The herder's side. Called from any thread."""

    def connector_status(self, connector: str, status: Status) -> None:
        """The connector instance is in this state now."""

    def task_status(self, task: TaskId, status: Status) -> None:
        """The task is in this state now."""

    def task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """The connector wants these tasks (a list as long as there shall be tasks)."""

    def topic_used(self, connector: str, topic: str) -> None:
        """The connector has read or written this topic for the first time since its start (KIP-558)."""


class Runtime(Protocol):
    """What runs in this worker. Calls return at once; what came of them is told to the listener."""

    def start_connector(
        self,
        connector: str,
        config: Mapping[str, str],
        target: State,
        tasks: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """`target`: RUNNING, PAUSED or STOPPED; `tasks`: those that it has by now."""

    def start_task(self, task: TaskId, config: Mapping[str, str], target: State) -> None:
        """`config`: the connector's, and what `task_configs` added."""

    def set_target(self, connector: str, target: State) -> None:
        """Pause, resume or stop the connector and its tasks that run here."""

    def stop_connectors(self, connectors: Sequence[str], timeout_seconds: float) -> Sequence[str]:
        """Stop and forget them, all at once; returns those that did not end in time (left behind)."""

    def stop_tasks(self, tasks: Sequence[TaskId], timeout_seconds: float) -> Sequence[TaskId]:
        """Stop and forget them, all at once; returns those that did not end in time (left behind, fenced)."""

    def metrics(self) -> Mapping[str, Mapping[str, float]]:
        """By group and tags (`connector-task-metrics,connector=x,task=0`), under Kafka Connect's names."""

    def close(self, timeout_seconds: float) -> None:
        """Stop everything."""
