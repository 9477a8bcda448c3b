"""Connectors, and a herder's ear, for tests of Connect's runtime."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from moldau.connect import (
    BadRecord,
    Batch,
    ConnectError,
    Read,
    Retriable,
    Setting,
    SettingType,
    Sink,
    Source,
    batch_of,
    rows,
)
from moldau.services.connect.runtime.interface import State, Status, TaskId
from moldau.services.connect.runtime.local import LocalRuntime

WAIT_SECONDS = 90.0
STRING = "org.apache.kafka.connect.storage.StringConverter"


def eventually(found: Callable[[], Any], seconds: float = WAIT_SECONDS) -> Any:
    """What `found` returns once it is true."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s; last seen: {found()!r}")


class Ear:
    """Hears what a runtime tells, and starts the tasks that connectors ask for."""

    def __init__(self) -> None:
        self.connectors: dict[str, list[Status]] = defaultdict(list)
        self.tasks: dict[TaskId, list[Status]] = defaultdict(list)
        self.topics: set[tuple[str, str]] = set()
        self.configs: dict[str, Sequence[Mapping[str, str]]] = {}
        self.given: dict[str, Mapping[str, str]] = {}
        self.runtime: Any = None
        self._lock = threading.Lock()

    def connector_status(self, connector: str, status: Status) -> None:
        self.connectors[connector].append(status)

    def task_status(self, task: TaskId, status: Status) -> None:
        self.tasks[task].append(status)

    def topic_used(self, connector: str, topic: str) -> None:
        self.topics.add((connector, topic))

    def task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        with self._lock:
            before = len(self.configs.get(connector, ()))
            self.configs[connector] = configs
            self.runtime.stop_tasks([TaskId(connector, each) for each in range(before)], 30)
            for number, each in enumerate(configs):
                config = {**self.given[connector], **each}
                self.runtime.start_task(TaskId(connector, number), config, State.RUNNING)

    def run(self, name: str, config: Mapping[str, str]) -> TaskId:
        """Start a connector; its first task."""
        self.given[name] = {"name": name, **config}
        self.runtime.start_connector(name, self.given[name], State.RUNNING)
        return TaskId(name, 0)

    def state(self, task: TaskId) -> State | None:
        return self.tasks[task][-1].state if self.tasks[task] else None


class Numbers(Source):
    """`count` records a partition; their values are 0, 1, …; fails as its class is told."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("topic", SettingType.STRING, "Where to."),
        Setting("count", SettingType.INT, "How many."),
        Setting("names", SettingType.LIST, "The partitions.", ["a"]),
    )
    faults: ClassVar[list[Exception]] = []
    told: ClassVar[dict[str, int]] = {}

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        return [{"name": each} for each in self.config["names"]]

    def read(self, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> Iterator[Read | None]:
        at = offset["next"] if offset else 0
        name = partition["name"]
        while at < self.config["count"]:
            if self.faults and at >= self.config["count"] // 2:
                raise self.faults.pop()
            end = min(at + 7, self.config["count"])
            values = [f"{name}{number}" for number in range(at, end)]
            yield Read([batch_of(self.config["topic"], values, keys=[name] * len(values))], {"next": end})
            at = end
        while not self.context.stopping():
            yield None

    def committed(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        self.told[partition["name"]] = offset["next"]


class WholeRuns(Numbers):
    """The same, but only all records together have an offset: a run that fails is done again whole."""

    ends_transactions = True
    failures: ClassVar[list[Exception]] = []

    def read(self, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> Iterator[Read | None]:
        reads = [] if offset else list(itertools.takewhile(bool, super().read(partition, None)))
        for number, each in enumerate(reads, 1):
            assert each is not None
            if self.failures and number > len(reads) // 2:
                raise self.failures.pop()
            ends = number == len(reads)
            yield Read(each.batches, each.offset if ends else {}, ends_transaction=ends)
            time.sleep(0.03)  # longer in all than what is usually read together
        while not self.context.stopping():
            yield None


class Remembering(Sink):
    """Keeps what it is given by number in its class, as a database would; fails as its class is told."""

    written: ClassVar[dict[tuple[str, int, int], list[Any]]] = {}
    """(topic, partition, number) -> values."""
    again: ClassVar[list[tuple[str, int, int]]] = []
    """Numbers that came again."""
    differing: ClassVar[list[str]] = []
    before: ClassVar[Callable[[Batch, int], None] | None] = None
    after: ClassVar[Callable[[Batch, int], None] | None] = None
    flushes: ClassVar[int] = 0
    flush_faults: ClassVar[list[Exception]] = []

    def write(self, batch: Batch, number: int) -> None:
        kind = type(self)
        if kind.before is not None:
            kind.before(batch, number)
        assert batch.origin is not None
        key = (*batch.origin, number)
        values = [row.value for row in rows(batch)]
        if key in kind.written:
            kind.again.append(key)
            if kind.written[key] != values:
                kind.differing.append(f"{key}: {kind.written[key]} then {values}")
        kind.written[key] = values
        if kind.after is not None:
            kind.after(batch, number)

    def flush(self) -> None:
        type(self).flushes += 1
        if self.flush_faults:
            raise self.flush_faults.pop()

    @classmethod
    def values(cls, topic: str) -> list[Any]:
        """All values of a topic, in order."""
        found = sorted((key, values) for key, values in cls.written.items() if key[0] == topic)
        return [each for _, values in found for each in values]


def fresh(kind: type[Any], **members: Any) -> type[Any]:
    """A class of its own for one test, which a configuration can name."""
    name = f"{kind.__name__}{len(globals())}"
    own = {
        "written": {},
        "again": [],
        "differing": [],
        "faults": [],
        "told": {},
        "flush_faults": [],
        "flushes": 0,
        "__module__": __name__,
        "__qualname__": name,
        **members,
    }
    made = type(name, (kind,), own)
    globals()[name] = made
    return made


def place_of(kind: type[Any]) -> str:
    """As `connector.class`."""
    return f"{kind.__module__}:{kind.__qualname__}"


QUICK = {"moldau.restart.delay.ms": "50", "moldau.restart.delay.max.ms": "200"}
"""A connector's settings: what fails is tried again at once."""


@contextmanager
def running_ears(bootstrap: str) -> Iterator[Callable[..., Ear]]:
    """Makes runtimes with ears, `flush_ms` between two commits; other settings of the worker by their names,
    `_` for a dot."""
    started: list[LocalRuntime] = []

    def make(flush_ms: int = 300, **settings: str) -> Ear:
        ear = Ear()
        worker = {
            "bootstrap.servers": bootstrap,
            "group.id": "workers",
            "offset.storage.topic": "connect-offsets",
            "offset.storage.partitions": "3",
            "offset.storage.replication.factor": "1",
            "offset.flush.interval.ms": str(flush_ms),
            "key.converter": STRING,
            "value.converter": STRING,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        ear.runtime = LocalRuntime(worker, ear)
        started.append(ear.runtime)
        return ear

    try:
        yield make
    finally:
        for each in started:
            each.close(30)


def new_topic(bootstrap: str, partitions: int) -> str:
    """Its name."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
    return name


def send(bootstrap: str, topic: str, values: Sequence[Any], partition: int = 0, **more: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    for each in values:
        producer.produce(topic, each, partition=partition, **more)
    assert producer.flush(60) == 0


def read_all(bootstrap: str, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[Any]:
    """All messages that are there now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
    found, ended = [], set()
    until = time.monotonic() + WAIT_SECONDS
    while len(ended) < partitions and time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error() is None:
            found.append(message)
        else:
            ended.add(message.partition())
    consumer.close()
    return found


__all__ = [
    "QUICK",
    "BadRecord",
    "ConnectError",
    "Ear",
    "Numbers",
    "Remembering",
    "Retriable",
    "eventually",
    "fresh",
    "new_topic",
    "place_of",
    "read_all",
    "running_ears",
    "send",
]
