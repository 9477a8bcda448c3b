"""What a connector wants as tasks, as records have it; and which parts a restart is about (KIP-745). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.stores.configs import Config, ConfigsState, RestartAsked
from moldau.services.connect.stores.statuses import WorkerStatus

_TASK_CLASS, _CONNECTOR_CLASS = "task.class", "connector.class"


def task_class(config: Config, before: Sequence[Config]) -> str | None:
    """The Java class that Kafka Connect runs a task by, for when the cluster is given back to it.

    What the tasks had before, if the connector is of the same class; else by the usual naming of classes.
    Where that is wrong, Kafka's worker makes the tasks anew when the connector runs, and fails them until
    then.
    """
    name = config.get(_CONNECTOR_CLASS, "")
    for each in before:
        if each.get(_CONNECTOR_CLASS) == name and each.get(_TASK_CLASS):
            return each[_TASK_CLASS]
    is_java = "." in name and ":" not in name and name.endswith("Connector")
    return f"{name.removesuffix('Connector')}Task" if is_java else None


def task_configs(
    config: Config, resolved: Config, wanted: Sequence[Config], java_class: str | None = None
) -> list[dict[str, str]]:
    """The settings of tasks: the connector's, and what it adds for each.

    What a connector copies out of its own settings stays as it was given: a secret that was filled in for it
    goes into no record.
    """
    made = []
    for each in wanted:
        added = {
            name: value for name, value in each.items() if name not in config or resolved.get(name) != value
        }
        made.append({**config, **({_TASK_CLASS: java_class} if java_class else {}), **added})
    return made


def too_many(name: str, config: Config, count: int) -> str | None:
    """Why so many tasks are refused; None: they are not."""
    try:
        most = int(config.get("tasks.max", "1"))
    except ValueError:
        return None
    if count <= most or config.get("tasks.max.enforce", "true").lower() == "false":
        return None
    return (
        f"The connector {name} has generated {count} tasks, which is greater than {most}, the maximum "
        f"number of tasks "
        "it is configured to create. This behaviour should be considered a bug and is disallowed. If "
        "necessary, it can "
        "be permitted by reconfiguring the connector with 'tasks.max.enforce' set to false"
    )


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """Which parts of a connector are started again."""

    connector: bool
    tasks: Sequence[TaskId]


def restart_plan(
    asked: RestartAsked,
    state: ConfigsState,
    connector: WorkerStatus | None,
    tasks: Mapping[int, WorkerStatus],
) -> RestartPlan:
    """By their last known states."""

    def is_meant(status: WorkerStatus | None) -> bool:
        return not asked.only_failed or (status is not None and status.state is State.FAILED)

    chosen = [each for each in state.tasks(asked.name) if is_meant(tasks.get(each.task))]
    return RestartPlan(is_meant(connector), chosen if asked.include_tasks else [])
