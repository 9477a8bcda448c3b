"""A runtime that runs nothing and notes what it was told; workers on it, alone or in a group."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event

from moldau.client.cluster import Cluster
from moldau.connect import Batch, Sink, TopicPartition
from moldau.services.connect.group.alone import Alone
from moldau.services.connect.group.member import Member
from moldau.services.connect.herder.cluster import KafkaSide
from moldau.services.connect.herder.parts import Parts
from moldau.services.connect.herder.secrets import Secrets
from moldau.services.connect.herder.worker import RuntimeListener, Worker
from moldau.services.connect.runtime.interface import Listener, State, Status, TaskId
from moldau.services.connect.settings import worker_configuration
from moldau.services.connect.stores.alone import StandaloneStores
from moldau.services.connect.stores.configs import Config
from moldau.services.connect.stores.file_offsets import FileOffsets
from moldau.services.connect.stores.shared import SharedStores


class FakeRuntime:
    """See Runtime. A connector wants as many tasks as its setting `tasks` says."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.connectors: dict[str, Mapping[str, str]] = {}
        self.tasks: dict[TaskId, Mapping[str, str]] = {}
        self.targets: dict[str, State] = {}
        self.started: list[object] = []

    def start_connector(
        self,
        connector: str,
        config: Mapping[str, str],
        target: State,
        tasks: Sequence[Mapping[str, str]] = (),
    ) -> None:
        assert connector not in self.connectors
        assert self.listener is not None
        self.connectors[connector], self.targets[connector] = config, target
        self.started.append(connector)
        self.listener.connector_status(connector, Status(target, version="1"))
        if target is not State.STOPPED:
            count = int(config.get("tasks", "1"))
            self.listener.task_configs(connector, [{"part": str(index)} for index in range(count)])

    def start_task(self, task: TaskId, config: Mapping[str, str], target: State) -> None:
        assert task not in self.tasks
        assert self.listener is not None
        self.tasks[task] = config
        self.started.append(task)
        self.listener.task_status(task, Status(target, engine="local"))

    def fail(self, task: TaskId, trace: str) -> None:
        assert self.listener is not None
        self.listener.task_status(task, Status(State.FAILED, trace))

    def set_target(self, connector: str, target: State) -> None:
        assert self.listener is not None
        if self.targets.get(connector) is not target:
            self.targets[connector] = target
            if connector in self.connectors:
                self.listener.connector_status(connector, Status(target))
            for each in self.tasks:
                if each.connector == connector:
                    self.listener.task_status(each, Status(target))

    def stop_connectors(self, connectors: Sequence[str], timeout_seconds: float) -> Sequence[str]:
        for each in connectors:
            self.connectors.pop(each, None)
        return []

    def stop_tasks(self, tasks: Sequence[TaskId], timeout_seconds: float) -> Sequence[TaskId]:
        for each in tasks:
            del self.tasks[each]
        return []

    def metrics(self) -> Mapping[str, Mapping[str, float]]:
        return {}

    def close(self, timeout_seconds: float) -> None:
        self.connectors.clear()
        self.tasks.clear()


class Peers:
    """Workers by URL: requests between them without HTTP."""

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}

    def put_tasks(self, url: str, name: str, configs: Sequence[Config]) -> None:
        self.workers[url].put_tasks(name, configs, None)

    def fence(self, url: str, name: str) -> None:
        self.workers[url].fence(name, None)


class NoCluster:
    """A cluster of which only groups' offsets are known."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[tuple[str, int], int]] = {}
        self.topics: dict[str, int] = {}

    def cluster_id(self) -> str:
        return "none"

    def fence(self, transactional_ids: Sequence[str]) -> None: ...

    def group_offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        return self.groups.get(group, {})

    def partitions(self, topics: Sequence[str], pattern: str) -> Sequence[tuple[str, int]]:
        chosen = [each for each in self.topics if each in topics or re.fullmatch(pattern or "$^", each)]
        return [(name, index) for name in chosen for index in range(self.topics[name])]

    def alter_group_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        self.groups.setdefault(group, {}).update(offsets)

    def delete_group_offsets(self, group: str, partitions: Sequence[tuple[str, int]]) -> None:
        for each in partitions:
            self.groups.get(group, {}).pop(each, None)

    def delete_group(self, group: str) -> None:
        self.groups.pop(group, None)


def kind_of(config: Mapping[str, str]) -> str:
    return config.get("kind", "source")


class NoConnector(Sink):
    """Takes all offsets; starting it, setting its positions can be made to wait."""

    def __init__(self) -> None:
        self.may_go_on = Event()
        self.may_go_on.set()
        self.waits = Event()
        self.positions_set: list[Mapping[TopicPartition, int | None]] = []

    def write(self, batch: Batch, number: int) -> None: ...

    def set_positions(self, positions: Mapping[TopicPartition, int | None]) -> None:
        self.waits.set()
        assert self.may_go_on.wait(60)
        self.positions_set.append(positions)


def alone(
    folder: Path, connector: NoConnector | None = None, cluster: NoCluster | None = None, **more: str
) -> tuple[Worker, FakeRuntime]:
    """A standalone worker, started. `connector` is what offsets are changed through."""
    texts = {
        "key.converter": "j",
        "value.converter": "j",
        "offset.storage.file.filename": str(folder / "offsets"),
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    settings = worker_configuration(texts).settings
    runtime = FakeRuntime()
    worker = Worker(
        Parts(
            settings,
            "me:8083",
            StandaloneStores(FileOffsets(folder / "offsets", 60.0)),
            Alone(),
            cluster or NoCluster(),
            Secrets(texts, {"PASSWORD": "hush"}),
            kind_of,
            lambda name, config: connector or NoConnector(),
            Peers(),
            lambda logger, level: None,
        )
    )
    runtime.listener = RuntimeListener(worker)
    worker.start(runtime)
    return worker, runtime


def member(servers: str, group: str, url: str, peers: Peers, **more: str) -> tuple[Worker, FakeRuntime]:
    """A worker of a group, started."""
    texts = {
        "bootstrap.servers": servers,
        "group.id": group,
        "key.converter": "j",
        "value.converter": "j",
        **{f"{each}.storage.topic": f"{group}-{each}" for each in ("config", "offset", "status")},
        **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "300",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    configuration = worker_configuration(texts)

    def connect() -> Cluster:
        return Cluster(servers)

    stores = SharedStores(configuration, connect)
    runtime = FakeRuntime()
    worker = Worker(
        Parts(
            configuration.settings,
            url.removeprefix("http://").rstrip("/"),
            stores,
            Member(connect, configuration.settings, url, lambda: stores.configs().offset),
            KafkaSide(connect),
            Secrets(texts, {}),
            kind_of,
            lambda name, config: NoConnector(),
            peers,
            lambda logger, level: None,
        )
    )
    peers.workers[url] = worker
    runtime.listener = RuntimeListener(worker)
    worker.start(runtime)
    return worker, runtime


def eventually(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Return when it is true; AssertionError after so long."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(0.02)
