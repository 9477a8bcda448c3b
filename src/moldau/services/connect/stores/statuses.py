"""connect-status: how connectors and tasks go, and which topics a connector has used; compacted.

    status-connector-N            {"state":"RUNNING","trace":null,"worker_id":"host:8083","generation":3,
                                   "version":".."}
    status-task-N-i               the same
    status-topic-T:connector-N    {"topic":{"name":T,"connector":N,"task":i,"discoverTimestamp":ms}}

A worker that takes something over may write before the one that had it has said that it let go: what arrives
late from an older generation is not written (`may_write`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.stores.configs import Record
from moldau.services.connect.stores.java_json import decode_object, encode

log = logging.getLogger("moldau.connect.stores.statuses")
_CONNECTOR, _TASK, _TOPIC, _BETWEEN = "status-connector-", "status-task-", "status-topic-", ":connector-"


class WorkerStatus(NamedTuple):
    """A connector's or task's state, and who says so."""

    state: State
    worker_id: str
    generation: int
    trace: str = ""
    version: str = ""
    engine: str = ""
    """Ours: `local` or `spark`; Kafka's workers skip what they do not know."""
    restarts_at_ms: int | None = None
    """Ours: when a failed task is started again by itself."""
    engine_why: str = ""
    """Ours: why it is that engine."""


class TopicUse(NamedTuple):
    """A topic that a connector has used (KIP-558)."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


@dataclass
class StatusesState:
    """What the topic says."""

    connectors: dict[str, WorkerStatus] = field(default_factory=dict)
    tasks: dict[TaskId, WorkerStatus] = field(default_factory=dict)
    topics: dict[str, dict[str, TopicUse]] = field(default_factory=dict)
    """By connector and topic."""
    _numbers: dict[str, set[int]] = field(default_factory=dict)
    """Of tasks, by connector: asked for one connector, nobody looks at the tasks of all."""

    def replay(self, key: str, value: bytes | None) -> None:
        """Take a record."""
        try:
            if key.startswith(_CONNECTOR):
                _set(self.connectors, key.removeprefix(_CONNECTOR), _status(value))
            elif key.startswith(_TASK):
                name, _, index = key.removeprefix(_TASK).rpartition("-")
                task, status = TaskId(name, int(index)), _status(value)
                _set(self.tasks, task, status)
                self._note(task, is_there=status is not None)
            elif key.startswith(_TOPIC):
                self._topic(key.removeprefix(_TOPIC), value)
            else:
                log.warning("the status record %r has a key that is not known: it is skipped", key[:100])
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as problem:
            log.warning("the status record %r is not understood and skipped: %s", key[:100], problem)

    def _topic(self, rest: str, value: bytes | None) -> None:
        topic, _, connector = rest.partition(_BETWEEN)
        if value is None:
            self.topics.get(connector, {}).pop(topic, None)
            return
        body = decode_object(value)["topic"]
        use = TopicUse(topic, connector, int(body["task"]), int(body["discoverTimestamp"]))
        self.topics.setdefault(connector, {})[topic] = use

    def tasks_of(self, connector: str) -> dict[int, WorkerStatus]:
        """The states of a connector's tasks, by number."""
        numbers = sorted(self._numbers.get(connector, ()))
        return {number: self.tasks[TaskId(connector, number)] for number in numbers}

    def _note(self, task: TaskId, *, is_there: bool) -> None:
        numbers = self._numbers.setdefault(task.connector, set())
        if is_there:
            numbers.add(task.task)
            return
        numbers.discard(task.task)
        if not numbers:
            del self._numbers[task.connector]

    def may_write(self, known: WorkerStatus | None, new: WorkerStatus) -> bool:
        """Whether a state that a worker leaves behind may replace what is known (another's newer word may
        not)."""
        return known is None or known.worker_id == new.worker_id or known.generation <= new.generation


def _set(found: dict[Any, WorkerStatus], key: Any, status: WorkerStatus | None) -> None:
    if status is None:
        found.pop(key, None)
    else:
        found[key] = status


def _status(value: bytes | None) -> WorkerStatus | None:
    if value is None:
        return None
    body: Mapping[str, Any] = decode_object(value)
    if body["state"] == "DESTROYED":
        return None
    restarts_at = body.get("restarts_at")
    return WorkerStatus(
        State(body["state"]),
        str(body["worker_id"]),
        int(body["generation"]),
        str(body.get("trace") or ""),
        str(body.get("version") or ""),
        str(body.get("engine") or ""),
        restarts_at if isinstance(restarts_at, int) else None,
        str(body.get("engine_reason") or ""),
    )


def _value(status: WorkerStatus | None) -> bytes | None:
    if status is None:
        return None
    body: dict[str, Any] = {
        "state": status.state.value,
        "trace": status.trace or None,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version or None,
    }
    if status.engine:
        body["engine"] = status.engine
    if status.engine_why:
        body["engine_reason"] = status.engine_why
    if status.restarts_at_ms is not None:
        body["restarts_at"] = status.restarts_at_ms
    return encode(body)


def connector_status_record(name: str, status: WorkerStatus | None) -> Record:
    """None: the connector is gone."""
    return f"{_CONNECTOR}{name}", _value(status)


def task_status_record(task: TaskId, status: WorkerStatus | None) -> Record:
    """None: the task is gone."""
    return f"{_TASK}{task.connector}-{task.task}", _value(status)


def topic_record(use: TopicUse) -> Record:
    """A topic is used."""
    body = {
        "name": use.topic,
        "connector": use.connector,
        "task": use.task,
        "discoverTimestamp": use.discovered_ms,
    }
    return f"{_TOPIC}{use.topic}{_BETWEEN}{use.connector}", encode({"topic": body})


def topic_removal(topic: str, connector: str) -> Record:
    """That note is erased."""
    return f"{_TOPIC}{topic}{_BETWEEN}{connector}", None
