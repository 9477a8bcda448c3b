"""What a worker answers about connectors, from what it has read. May be called on any thread but the loop's:
what kind a connector is, its class says, whose module may have to be imported."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.services.connect.herder.interface import ConnectorInfo, ConnectorStatus, OffsetRow, Placed
from moldau.services.connect.herder.offsets import Offsets
from moldau.services.connect.herder.parts import Parts
from moldau.services.connect.herder.problems import failed, not_found
from moldau.services.connect.herder.telling import Telling
from moldau.services.connect.runtime.interface import Status, TaskId
from moldau.services.connect.stores.configs import Config, ConfigsState
from moldau.services.connect.stores.interface import WRITE_SECONDS
from moldau.services.connect.stores.kafka_log import LogFailed
from moldau.services.connect.stores.statuses import WorkerStatus


class Questions:
    """See the module."""

    def __init__(self, parts: Parts, offsets: Offsets, telling: Telling) -> None:
        self._parts, self._stores = parts, parts.stores
        self._offsets, self._telling = offsets, telling

    def known(self, name: str) -> ConfigsState:
        """The configuration, which has this connector. HerderProblem 404."""
        state = self._stores.configs()
        if name not in state.connectors:
            raise not_found(f"Connector {name} not found")
        return state

    def connectors(self) -> list[str]:
        """Names."""
        return list(self._stores.configs().connectors)

    def kind(self, name: str) -> str:
        """`source`, `sink` or `unknown`. HerderProblem 404."""
        return self._parts.kind_of(self.known(name).connectors[name])

    def info(self, name: str) -> ConnectorInfo:
        """A connector. HerderProblem 404."""
        state = self.known(name)
        config = state.connectors[name]
        return ConnectorInfo(name, config, state.tasks(name), self._parts.kind_of(config))

    def fresh(self) -> None:
        """Read the configuration to its end, so that what was written before is seen. HerderProblem."""
        try:
            self._stores.read_configs(WRITE_SECONDS)
        except (LogFailed, TimeoutError) as problem:
            raise failed(str(problem)) from None

    def config(self, name: str) -> Config:
        """A connector's settings, as they were given. HerderProblem 404."""
        return self.known(name).connectors[name]

    def task_configs_of(self, name: str) -> list[tuple[TaskId, Config]]:
        """A connector's tasks with their settings. HerderProblem 404."""
        state = self.known(name)
        return [(each, state.task_configs[each]) for each in state.tasks(name)]

    def status(self, name: str) -> ConnectorStatus:
        """How a connector goes. HerderProblem 404."""
        found = self._stores.connector_status(name)
        if found is None:
            raise not_found(f"No status found for connector {name}")
        return self.shown(name, found, self._stores.statuses_of_tasks(name))

    def states(self, name: str) -> dict[str, WorkerStatus]:
        """How a connector and its tasks go, as `name` and `name-0`; no class is looked up for it."""
        found = self._stores.connector_status(name)
        tasks = self._stores.statuses_of_tasks(name)
        parts = {f"{name}-{index}": each for index, each in sorted(tasks.items())}
        return parts if found is None else {name: found, **parts}

    def shown(self, name: str, found: WorkerStatus, tasks: Mapping[int, WorkerStatus]) -> ConnectorStatus:
        """These words as an answer."""
        config = self._stores.configs().connectors.get(name, {})
        placed = {index: _placed(each) for index, each in sorted(tasks.items())}
        return ConnectorStatus(name, self._parts.kind_of(config), _placed(found), placed)

    def topics(self, name: str) -> list[str]:
        """The topics that a connector has used. HerderProblem 404."""
        self.known(name)
        return sorted(self._stores.topics(name))

    def reset_topics(self, name: str) -> None:
        """Forget them. HerderProblem 404."""
        self.known(name)
        self._stores.remove_topics(name)
        self._telling.forget_topics(name)

    def offsets(self, name: str) -> list[OffsetRow]:
        """Where a connector stands. HerderProblem."""
        config = self.known(name).connectors[name]
        return self._offsets.shown(name, config, self._parts.kind_of(config))


def _placed(status: WorkerStatus) -> Placed:
    said = Status(
        status.state,
        status.trace,
        status.engine,
        status.version,
        status.restarts_at_ms,
        status.engine_why,
    )
    return Placed(said, status.worker_id)
