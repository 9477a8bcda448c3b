"""What a worker has to stop and to start, so that it runs what is its own, as it is configured now. Pure.

    held - revoked ──> what shall run ──> against what runs ──> stop | start | set_target | let go

A connector whose settings changed, or that was stopped and shall run again, is started anew; so is a task
whose settings changed. Pausing and resuming change what runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.services.connect.group.protocol import CONNECTOR, Work
from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.stores.configs import Config, ConfigsState


@dataclass(frozen=True, slots=True)
class RunningConnector:
    """A connector as it was started, and the target it has."""

    config: Config
    target: State


@dataclass
class Plan:
    """In this order: stop, let go, start, set targets."""

    stop_connectors: list[str] = field(default_factory=list)
    stop_tasks: list[TaskId] = field(default_factory=list)
    let_go: set[TaskId] = field(default_factory=set)
    start_connectors: list[str] = field(default_factory=list)
    start_tasks: list[TaskId] = field(default_factory=list)
    set_targets: list[str] = field(default_factory=list)
    without_tasks: list[str] = field(default_factory=list)
    """Connectors of this worker that are stopped and have tasks: they are to have none."""


def plan(
    held: Work,
    revoked: Work,
    state: ConfigsState,
    connectors: Mapping[str, RunningConnector],
    tasks: Mapping[TaskId, Config],
) -> Plan:
    """`connectors`, `tasks`: what runs here."""
    made = Plan()
    own = held - revoked
    own_connectors = {each.connector for each in own if each.task == CONNECTOR}
    wanted_connectors = own_connectors & state.connectors.keys()
    valid_tasks = {each for name in {work.connector for work in own} for each in state.tasks(name)}
    wanted_tasks = {each for each in own & valid_tasks if state.target(each.connector) is not State.STOPPED}
    for name in sorted({*connectors, *wanted_connectors}):
        _connector(made, name, name in wanted_connectors, state, connectors.get(name))
    for task in sorted({*tasks, *wanted_tasks}):
        running, wanted = tasks.get(task), state.task_configs.get(task) if task in wanted_tasks else None
        if running is not None and running != wanted:
            made.stop_tasks.append(task)
        if wanted is not None and running != wanted:
            made.start_tasks.append(task)
    made.let_go = set(held - {*wanted_tasks, *(TaskId(name, CONNECTOR) for name in wanted_connectors)})
    kept = {each for each in own & valid_tasks if each not in wanted_tasks}
    made.let_go -= kept  # stopped connectors' tasks stay this worker's until they are gone
    return made


def _connector(
    made: Plan, name: str, is_wanted: bool, state: ConfigsState, running: RunningConnector | None
) -> None:
    if not is_wanted:
        made.stop_connectors.append(name)
        return
    target = state.target(name)
    if running is None:
        made.start_connectors.append(name)
    elif running.config != state.connectors[name] or _restarts(running.target, target):
        made.stop_connectors.append(name)
        made.start_connectors.append(name)
    elif running.target is not target:
        made.set_targets.append(name)
    if target is State.STOPPED and state.task_counts.get(name):
        made.without_tasks.append(name)


def _restarts(before: State, now: State) -> bool:
    return before is State.STOPPED and now is not State.STOPPED
