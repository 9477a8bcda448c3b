"""A herder in memory, for tests of the REST interface; and an application on it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx

from moldau.common.settings.table import table
from moldau.connect import Importance, Setting, SettingType, Sink, Source
from moldau.services.connect.app import connect_application
from moldau.services.connect.herder.interface import (
    ConnectorInfo,
    ConnectorStatus,
    HerderProblem,
    NotLeader,
    OffsetRow,
    Placed,
    ServerInfo,
    Signature,
    WorkerHealth,
)
from moldau.services.connect.runtime.interface import State, Status, TaskId
from moldau.services.connect.validation.overrides import OverridePolicy
from moldau.services.http.counters import Sample
from moldau.services.http.forwarding import Reach
from moldau.services.http.rights import Rights
from moldau.services.http.settings import HttpSettingsPart


class LittleSource(Source):
    settings = (
        Setting("url", SettingType.STRING, "Where.", importance=Importance.HIGH, group="Little"),
        Setting("secret", SettingType.PASSWORD, "Not shown.", None, group="Little"),
        Setting("mode", SettingType.STRING, "How.", "fast", choices=("fast", "slow")),
    )
    exactly_once = False

    def partitions(self) -> Any:
        return []

    def read(self, partition: Any, offset: Any) -> Any:
        return iter(())

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        if settings["url"] == "breaks":
            raise RuntimeError("a bug")
        return {"url": ["nobody answers"]} if settings["url"] == "dead" else {}


class LittleSink(Sink):
    def write(self, batch: Any, number: int) -> None:
        pass


SOURCE, SINK = f"{__name__}:LittleSource", f"{__name__}:LittleSink"


class MemoryHerder:
    """One worker; `leader_url` set: another one is the leader."""

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.targets: dict[str, State] = {}
        self.rows: dict[str, list[OffsetRow]] = {}
        self.asked: list[Any] = []
        self.leader_url: str | None = None
        self.task_state: State | None = State.FAILED
        self.worker = WorkerHealth("healthy", "Worker has completed startup and is ready to handle requests.")

    def server_info(self) -> ServerInfo:
        return ServerInfo("4.3.1", "unknown", "abc")

    def health(self, may_see: Callable[[str], bool]) -> WorkerHealth:
        failed = {part: why for part, why in self.worker.failed.items() if may_see(part.rpartition("-")[0])}
        return replace(self.worker, failed=failed)

    def is_source(self, name: str) -> bool:
        return self._config(name)["connector.class"] == SOURCE

    async def connectors(self) -> Sequence[str]:
        return sorted(self.configs)

    async def info(self, name: str) -> ConnectorInfo:
        kind = "source" if self.is_source(name) else "sink"
        return ConnectorInfo(name, self._config(name), [TaskId(name, 0)], kind)

    async def status(self, name: str) -> ConnectorStatus:
        state = self.targets[name] if self._config(name) else State.RUNNING
        if self.task_state is None:
            return ConnectorStatus(name, "sink", Placed(Status(state), "w:1"))
        task = Status(self.task_state)
        if self.task_state is State.FAILED:
            task = Status(State.FAILED, "it broke", "local", "1", 1000)
        return ConnectorStatus(name, "sink", Placed(Status(state), "w:1"), {0: Placed(task, "w:1")})

    async def task_configs(self, name: str) -> Sequence[tuple[TaskId, Mapping[str, str]]]:
        return [(TaskId(name, 0), self._config(name))]

    async def put_config(
        self, name: str, config: Mapping[str, str], target: State | None, *, may_replace: bool
    ) -> tuple[bool, ConnectorInfo]:
        self._lead()
        made = name not in self.configs
        if not made and not may_replace:
            raise HerderProblem(409, f"Connector {name} already exists")
        self.configs[name] = dict(config)
        self.targets.setdefault(name, target or State.RUNNING)
        return made, await self.info(name)

    async def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Mapping[str, str]:
        changed = {**self._config(name), **patch}
        return {key: value for key, value in changed.items() if value is not None}

    async def delete(self, name: str) -> None:
        self._lead()
        self._config(name)
        del self.configs[name]

    async def set_target(self, name: str, target: State) -> None:
        self._config(name)
        self.targets[name] = target

    async def restart_connector(self, name: str) -> None:
        self.asked.append(("restart", self._config(name)["name"]))

    async def restart_task(self, task: TaskId) -> None:
        self.asked.append(("restart", task))

    async def restart(self, name: str, *, only_failed: bool, include_tasks: bool) -> ConnectorStatus:
        self.asked.append(("restart", only_failed, include_tasks))
        return await self.status(name)

    async def offsets(self, name: str) -> Sequence[OffsetRow]:
        return self.rows.get(name, [])

    async def alter_offsets(self, name: str, rows: Sequence[OffsetRow]) -> str:
        if self.targets[name] is not State.STOPPED:
            raise HerderProblem(
                400, "Connectors must be in the STOPPED state before their offsets can be modified."
            )
        self.rows[name] = list(rows)
        return "The offsets for this connector have been altered successfully"

    async def reset_offsets(self, name: str) -> str:
        self.rows.pop(name, None)
        return "The offsets for this connector have been reset successfully"

    async def active_topics(self, name: str) -> Sequence[str]:
        self._config(name)
        return ["a", "b"]

    async def reset_topics(self, name: str) -> None:
        raise HerderProblem(403, "Topic tracking reset is disabled.")

    async def set_cluster_logger(self, logger: str, level: str) -> None:
        self.asked.append((logger, level))

    async def put_task_configs(
        self, name: str, configs: Sequence[Mapping[str, str]], signature: Signature
    ) -> None:
        self.asked.append((name, list(configs), signature))

    async def fence_zombies(self, name: str, signature: Signature) -> None:
        self.asked.append((name, signature))

    def _config(self, name: str) -> dict[str, str]:
        if name not in self.configs:
            raise HerderProblem(404, f"Connector {name} not found")
        return self.configs[name]

    def _lead(self) -> None:
        if self.leader_url is not None:
            raise NotLeader("this worker is not the leader", self.leader_url)


@table
class HttpSettings(HttpSettingsPart):
    """The shared settings alone."""


class Served:
    """An application, asked without a socket."""

    def __init__(
        self, herder: MemoryHerder, rights: Rights | None = None, policy: OverridePolicy | None = None
    ) -> None:
        self.herder = herder
        self.application = connect_application(
            herder,
            HttpSettings(),
            resolve=lambda config: {
                key: value.replace("${secret}", "hunter2") for key, value in config.items()
            },
            policy=policy or OverridePolicy(),
            reach=Reach(5, 5, 1 << 20, ssl.create_default_context),
            rights=rights,
            metrics=lambda may_see: [
                Sample("names_seen", "Of tests.", "gauge", 1, (("connector", name),))
                for name in filter(may_see, ("ab", "b"))
            ],
        )

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """The response."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.application)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, path, json=body, headers=headers)

        return asyncio.run(send())

    def create(self, name: str, **config: str) -> httpx.Response:
        """A little sink."""
        given = {"connector.class": SINK, "topics": "t", **config}
        return self.ask("POST", "/connectors", {"name": name, "config": given})


def unhealthy(herder: MemoryHerder, status: str) -> None:
    """From now on."""
    herder.worker = replace(herder.worker, status=status, failed={"c-0": "it broke"})
