"""connect-configs: one partition, compacted; the state of a cluster of workers is what replaying it gives.

    connector-N         {"properties":{..}}                          null: the connector is deleted
    task-N-i            {"properties":{..}}                          counts only after ...
    commit-N            {"tasks":n}                                  ... this, if 0..n-1 are all there
    target-state-N      {"state":"PAUSED","state.v2":"STOPPED"}      `state` is for workers before 3.5
    tasks-fencing-N     {"task-count":n}                             so many transactional ids are in use
    session-key         {"key":base64,"algorithm":..,"creation-timestamp":ms}
    restart-connector-N {"include-tasks":b,"only-failed":b}
    logger-cluster-X    {"level":"DEBUG"}

Compaction may have taken tasks of an older set: a commit whose tasks are not all there makes the connector
*inconsistent*, and its tasks are asked for anew. `replay` is the only way the state changes; what it returns
says what happened. A record that cannot be understood is skipped and logged, as Kafka does: whatever it is,
none may end the reading of the topic.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.stores.java_json import decode_object, encode

log = logging.getLogger("moldau.connect.stores.configs")

Record = tuple[str, bytes | None]
"""Key and value."""
Config = Mapping[str, str]
NAME_BYTES_MAX = 1024
"""Of a connector. Workers tell each other names with a length of two bytes (group/protocol.py): a longer one
would keep them from sharing work at all. Kafka has no limit of its own, and fails at the same place."""
_COUNT_MAX = 1_000_000

_TARGETS = {"STARTED": State.RUNNING, "PAUSED": State.PAUSED, "STOPPED": State.STOPPED}
_TARGET_NAMES = {state: name for name, state in _TARGETS.items()}


class SessionKey(NamedTuple):
    """What requests between workers are signed with."""

    key: bytes
    algorithm: str
    created_ms: int


class ConnectorChanged(NamedTuple):
    """A connector's settings were written."""

    name: str


class ConnectorRemoved(NamedTuple):
    """A connector was deleted."""

    name: str


class TasksChanged(NamedTuple):
    """A connector's set of tasks was written."""

    name: str


class TargetChanged(NamedTuple):
    """A connector is to run, pause or stop."""

    name: str


class KeyChanged(NamedTuple):
    """Workers sign with another key."""


class FencingDone(NamedTuple):
    """Older tasks of a connector cannot write any more: its present ones may start."""

    name: str


class RestartAsked(NamedTuple):
    """A connector, and perhaps its tasks, is to be started again (KIP-745)."""

    name: str
    include_tasks: bool
    only_failed: bool


class LevelChanged(NamedTuple):
    """A logger of all workers (KIP-976)."""

    logger: str
    level: str


Change = (
    ConnectorChanged
    | ConnectorRemoved
    | TasksChanged
    | TargetChanged
    | FencingDone
    | KeyChanged
    | RestartAsked
    | LevelChanged
)


@dataclass
class ConfigsState:
    """What the topic says, up to `offset`."""

    offset: int = -1
    """Of the record after the last that was replayed; -1: there was none."""
    connectors: dict[str, Config] = field(default_factory=dict)
    targets: dict[str, State] = field(default_factory=dict)
    task_counts: dict[str, int] = field(default_factory=dict)
    task_configs: dict[TaskId, Config] = field(default_factory=dict)
    applied: dict[str, Config] = field(default_factory=dict)
    """The settings that a connector's present tasks were made from."""
    inconsistent: set[str] = field(default_factory=set)
    fenced_counts: dict[str, int] = field(default_factory=dict)
    pending_fencing: set[str] = field(default_factory=set)
    """Connectors whose present tasks were written after the last fencing."""
    session_key: SessionKey | None = None
    levels: dict[str, str] = field(default_factory=dict)
    _deferred: dict[str, dict[TaskId, Config]] = field(default_factory=dict)

    def copy(self) -> ConfigsState:
        """One that does not change when this one does."""
        return replace(
            self,
            connectors=dict(self.connectors),
            targets=dict(self.targets),
            task_counts=dict(self.task_counts),
            task_configs=dict(self.task_configs),
            applied=dict(self.applied),
            inconsistent=set(self.inconsistent),
            fenced_counts=dict(self.fenced_counts),
            pending_fencing=set(self.pending_fencing),
            levels=dict(self.levels),
            _deferred={},
        )

    def target(self, name: str) -> State:
        """What a connector is to do; RUNNING where nothing is said."""
        return self.targets.get(name, State.RUNNING)

    def tasks(self, name: str) -> list[TaskId]:
        """A connector's tasks; none while they are inconsistent."""
        if name in self.inconsistent or name not in self.connectors:
            return []
        return [TaskId(name, index) for index in range(self.task_counts.get(name, 0))]

    def configs_of_tasks(self, name: str) -> list[Config]:
        """The settings of a connector's tasks."""
        return [self.task_configs[each] for each in self.tasks(name)]

    def replay(self, key: str, value: bytes | None, offset: int) -> Sequence[Change]:
        """Take a record; what it changed."""
        self.offset = offset + 1
        for start, take in _READERS.items():
            if key.startswith(start):
                try:
                    body = None if value is None else decode_object(value)
                    change = take(self, key[len(start) :], body)
                except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as problem:
                    log.error(
                        "the record %s at offset %d is not understood and skipped: %s",
                        key[:100],
                        offset,
                        problem,
                    )
                    return ()
                return () if change is None else (change,)
        log.warning(
            "the record %r at offset %d has a key that is not known: it is skipped", key[:100], offset
        )
        return ()

    def _connector(self, name: str, body: dict[str, Any] | None) -> Change | None:
        if body is None:
            known = self.connectors.pop(name, None)
            self.task_counts.pop(name, None)
            self._deferred.pop(name, None)
            self.applied.pop(name, None)
            self.targets.pop(name, None)
            self.inconsistent.discard(name)
            for each in [each for each in self.task_configs if each.connector == name]:
                del self.task_configs[each]
            return None if known is None else ConnectorRemoved(name)
        if len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX:
            raise ValueError(f"the connector's name has more than {NAME_BYTES_MAX} bytes")
        self.connectors[name] = _properties(body)
        return ConnectorChanged(name)

    def _task(self, rest: str, body: dict[str, Any] | None) -> Change | None:
        name, _, index = rest.rpartition("-")
        task = TaskId(name, int(index))
        if body is not None:
            self._deferred.setdefault(name, {})[task] = _properties(body)
        return None

    def _commit(self, name: str, body: dict[str, Any] | None) -> Change | None:
        if body is None:
            return None
        count = _count(body["tasks"])
        deferred = self._deferred.pop(name, {})
        if all(TaskId(name, index) in deferred for index in range(count)):
            self.task_configs.update(deferred)
            self.inconsistent.discard(name)
            self.applied[name] = self.connectors.get(name, {})
        else:  # compacted while a newer set was being written: the connector is asked again
            self.inconsistent.add(name)
        self.task_counts[name] = count
        self.pending_fencing.add(name)
        return TasksChanged(name)

    def _target(self, name: str, body: dict[str, Any] | None) -> Change | None:
        if body is None:
            self.targets.pop(name, None)
            return None
        before = self.target(name)
        self.targets[name] = _TARGETS[str(body.get("state.v2") or body["state"])]
        return None if self.targets[name] is before else TargetChanged(name)

    def _fencing(self, name: str, body: dict[str, Any] | None) -> Change | None:
        if body is None:
            self.fenced_counts.pop(name, None)
            return None
        self.fenced_counts[name] = _count(body["task-count"])
        self.pending_fencing.discard(name)
        return FencingDone(name)

    def _session_key(self, rest: str, body: dict[str, Any] | None) -> Change | None:
        if rest or body is None:
            return None
        key = base64.b64decode(body["key"], validate=True)
        self.session_key = SessionKey(key, str(body["algorithm"]), int(body["creation-timestamp"]))
        return KeyChanged()

    def _restart(self, name: str, body: dict[str, Any] | None) -> Change | None:
        if body is None:
            return None
        return RestartAsked(name, body.get("include-tasks") is True, body.get("only-failed") is True)

    def _level(self, logger: str, body: dict[str, Any] | None) -> Change | None:
        if body is None:
            return None
        self.levels[logger] = str(body["level"])
        return LevelChanged(logger, str(body["level"]))


_READERS = {
    "connector-": ConfigsState._connector,
    "task-": ConfigsState._task,
    "commit-": ConfigsState._commit,
    "target-state-": ConfigsState._target,
    "tasks-fencing-": ConfigsState._fencing,
    "session-key": ConfigsState._session_key,
    "restart-connector-": ConfigsState._restart,
    "logger-cluster-": ConfigsState._level,
}


def _properties(body: dict[str, Any]) -> Config:
    found = body["properties"]
    if not isinstance(found, dict):
        raise ValueError("its properties are no object")
    return {str(name): str(value) for name, value in found.items() if value is not None}


def _count(found: Any) -> int:
    count = int(found)
    if not 0 <= count <= _COUNT_MAX:
        raise ValueError(f"{count} is no number of tasks")
    return count


def connector_record(name: str, config: Config) -> Record:
    """The connector's settings."""
    return f"connector-{name}", encode({"properties": dict(config)})


def removal_records(name: str) -> list[Record]:
    """Delete a connector."""
    return [(f"connector-{name}", None), (f"target-state-{name}", None)]


def task_records(name: str, configs: Sequence[Config]) -> list[Record]:
    """A set of tasks, and what makes it valid."""
    made: list[Record] = [
        (f"task-{name}-{index}", encode({"properties": dict(config)})) for index, config in enumerate(configs)
    ]
    return [*made, (f"commit-{name}", encode({"tasks": len(configs)}))]


def target_record(name: str, target: State) -> Record:
    """What the connector is to do."""
    word = _TARGET_NAMES[target]
    older = "PAUSED" if target is State.STOPPED else word
    return f"target-state-{name}", encode({"state": older, "state.v2": word})


def fencing_record(name: str, count: int) -> Record:
    """So many tasks may have used their transactional ids since the fencing before this."""
    return f"tasks-fencing-{name}", encode({"task-count": count})


def session_key_record(key: SessionKey) -> Record:
    """A key for signatures between workers."""
    text = base64.b64encode(key.key).decode()
    return "session-key", encode(
        {"key": text, "algorithm": key.algorithm, "creation-timestamp": key.created_ms}
    )


def restart_record(asked: RestartAsked) -> Record:
    """A restart."""
    body = {"include-tasks": asked.include_tasks, "only-failed": asked.only_failed}
    return f"restart-connector-{asked.name}", encode(body)


def level_record(logger: str, level: str) -> Record:
    """The level of a logger on all workers."""
    return f"logger-cluster-{logger}", encode({"level": level})
