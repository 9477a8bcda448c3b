"""The worker as the REST interface asks for it (interface.py): its blocking operations in threads.

Questions that need no topic are answered from memory. Every read of a connector sees what this worker has
read by then; what it wrote itself it has read back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from moldau import __version__
from moldau.client.errors import ClientError
from moldau.services.connect.herder.interface import (
    ConnectorInfo,
    ConnectorStatus,
    HerderProblem,
    OffsetRow,
    ServerInfo,
    Signature,
    WorkerHealth,
)
from moldau.services.connect.herder.offset_changes import CHANGES_MAX
from moldau.services.connect.herder.worker import Worker
from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.settings import WorkerSettings
from moldau.services.connect.stores.configs import RestartAsked
from moldau.services.connect.stores.offsets import KnownOffset

ResultT = TypeVar("ResultT")
_THREADS, _ASKING_THREADS = 16, 4
_SENTENCE_CHARS_MAX = 300
_READY = "Worker has completed startup and is ready to handle requests."
_STUCK = "Worker was unable to handle this request and may be unable to handle others."


class RestHerder:
    """See Herder."""

    def __init__(self, worker: Worker, settings: WorkerSettings, cluster_id: Callable[[], str]) -> None:
        self._worker, self._settings, self._ask_cluster_id = worker, settings, cluster_id
        self._cluster_id = ""
        self._pool = ThreadPoolExecutor(_THREADS, "connect-rest")
        # Nothing in it waits for Kafka: how connectors are can be seen while it is away.
        self._asking = ThreadPoolExecutor(_ASKING_THREADS, "connect-rest-questions")
        # Of their own: however many systems do not answer when offsets change, all else is answered.
        self._changing = ThreadPoolExecutor(CHANGES_MAX + _THREADS, "connect-rest-offsets")

    def close(self) -> None:
        """End the threads."""
        for each in (self._pool, self._asking, self._changing):
            each.shutdown(wait=False, cancel_futures=True)

    async def _call(self, work: Callable[[], ResultT], pool: ThreadPoolExecutor | None = None) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(pool or self._pool, work)

    def learn_cluster_id(self) -> None:
        """Ask for it; blocks. A cluster that does not answer leaves it empty."""
        try:
            self._cluster_id = self._ask_cluster_id()
        except ClientError:
            self._cluster_id = ""

    def server_info(self) -> ServerInfo:
        """See Herder."""
        return ServerInfo(__version__, "moldau", self._cluster_id)

    def health(self, may_see: Callable[[str], bool] = lambda name: True) -> WorkerHealth:
        """See Herder."""
        if not self._worker.is_started:
            return WorkerHealth("starting", "Worker is still starting up.")
        failed, trouble = self._failed(may_see), self._worker.trouble
        if trouble:
            return WorkerHealth("unhealthy", f"{_STUCK} The cause: {trouble}", failed)
        return WorkerHealth("healthy", _READY, failed)

    def _failed(self, may_see: Callable[[str], bool]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in filter(may_see, self._worker.ask.connectors()):
            for part, status in self._worker.ask.states(name).items():
                if status.state is State.FAILED:
                    found[part] = status.trace.partition("\n")[0][:_SENTENCE_CHARS_MAX]
        return found

    def is_source(self, name: str) -> bool:
        """See Herder."""
        return self._worker.ask.kind(name) == "source"

    async def connectors(self) -> Sequence[str]:
        """See Herder."""
        return sorted(self._worker.ask.connectors())

    async def info(self, name: str) -> ConnectorInfo:
        """See Herder. In a thread: what kind it is, its class says, whose module may have to be imported."""
        return await self._call(lambda: self._worker.ask.info(name), self._asking)

    async def status(self, name: str) -> ConnectorStatus:
        """See Herder. In a thread, as `info`."""
        return await self._call(lambda: self._worker.ask.status(name), self._asking)

    async def task_configs(self, name: str) -> Sequence[tuple[TaskId, Mapping[str, str]]]:
        """See Herder."""
        return self._worker.ask.task_configs_of(name)

    async def put_config(
        self, name: str, config: Mapping[str, str], target: State | None, *, may_replace: bool
    ) -> tuple[bool, ConnectorInfo]:
        """See Herder."""
        return await self._call(
            lambda: self._worker.put_config(name, config, may_exist=may_replace, target=target)
        )

    async def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Mapping[str, str]:
        """See Herder."""
        return await self._call(lambda: self._worker.patch_config(name, patch))

    async def delete(self, name: str) -> None:
        """See Herder."""
        await self._call(lambda: self._worker.delete(name))

    async def set_target(self, name: str, target: State) -> None:
        """See Herder."""
        await self._call(lambda: self._worker.set_target(name, target))

    async def restart_connector(self, name: str) -> None:
        """See Herder."""
        await self._call(lambda: self._worker.restart_connector(name))

    async def restart_task(self, task: TaskId) -> None:
        """See Herder."""
        await self._call(lambda: self._worker.restart_task(task))

    async def restart(self, name: str, *, only_failed: bool, include_tasks: bool) -> ConnectorStatus:
        """See Herder."""
        return await self._call(lambda: self._worker.restart(RestartAsked(name, include_tasks, only_failed)))

    async def offsets(self, name: str) -> Sequence[OffsetRow]:
        """See Herder."""
        return await self._call(lambda: self._worker.ask.offsets(name))

    async def alter_offsets(self, name: str, rows: Sequence[OffsetRow]) -> str:
        """See Herder."""
        wanted = [KnownOffset(each.partition, each.offset) for each in rows]
        return await self._call(lambda: self._worker.alter_offsets(name, wanted), self._changing)

    async def reset_offsets(self, name: str) -> str:
        """See Herder."""
        return await self._call(lambda: self._worker.reset_offsets(name), self._changing)

    async def active_topics(self, name: str) -> Sequence[str]:
        """See Herder."""
        self._check_tracking()
        return self._worker.ask.topics(name)

    async def reset_topics(self, name: str) -> None:
        """See Herder."""
        self._check_tracking()
        if not self._settings.topic_tracking_allow_reset:
            raise HerderProblem(403, "Topic tracking reset is disabled.")
        self._worker.ask.reset_topics(name)

    def _check_tracking(self) -> None:
        if not self._settings.topic_tracking_enable:
            raise HerderProblem(403, "Topic tracking is disabled.")

    async def set_cluster_logger(self, logger: str, level: str) -> None:
        """See Herder."""
        await self._call(lambda: self._worker.set_cluster_level(logger, level))

    async def put_task_configs(
        self, name: str, configs: Sequence[Mapping[str, str]], signature: Signature
    ) -> None:
        """See Herder."""
        await self._call(lambda: self._worker.put_tasks(name, configs, signature))

    async def fence_zombies(self, name: str, signature: Signature) -> None:
        """See Herder."""
        await self._call(lambda: self._worker.fence(name, signature))
