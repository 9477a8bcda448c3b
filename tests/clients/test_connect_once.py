"""Connect's local engine against a real broker: what is staged or open when something fails comes once."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import connect_parts
import pytest
from connect_parts import (
    BadRecord,
    Ear,
    Remembering,
    Retriable,
    WholeRuns,
    eventually,
    fresh,
    new_topic,
    place_of,
    read_all,
    running_ears,
    send,
)

from moldau.connect import Batch, Sink, TopicPartition, rows
from moldau.services.connect.runtime.interface import State
from moldau.testing import Broker

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "auto.create.topics.enable": "true",
}
QUICK = {**connect_parts.QUICK, "errors.retry.delay.max.ms": "50"}
JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker(SETTINGS) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def start(bootstrap: str) -> Iterator[Callable[..., Ear]]:
    """A runtime with an ear; several may be started."""
    with running_ears(bootstrap) as make:
        yield make


@pytest.fixture
def topic(bootstrap: str) -> str:
    return new_topic(bootstrap, 1)


class Staging(Sink):
    """A target that keeps positions: rows are staged, and stored with the position every `at` rows and in
    `flush`; what fails drops what is staged."""

    at: ClassVar[int] = 30
    stored: ClassVar[list[Any]] = []
    position: ClassVar[dict[TopicPartition, int]] = {}
    store_faults: ClassVar[list[Exception]] = []
    refused: ClassVar[set[Any]] = set()

    def start(self, settings: Mapping[str, Any], context: Any) -> None:
        super().start(settings, context)
        self.staged: list[tuple[Batch, int, Any]] = []
        self.ends: dict[TopicPartition, int] = {}

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {each: self.position[each] for each in partitions if each in self.position}

    def write(self, batch: Batch, number: int) -> None:
        assert batch.origin is not None
        assert batch.offsets is not None
        self.staged += [(batch, row, each.value) for row, each in enumerate(rows(batch))]
        self.ends[batch.origin] = batch.offsets[-1].as_py() + 1
        if len(self.staged) >= self.at:
            self.flush()

    def flush(self) -> None:
        staged, ends = self.staged, self.ends
        self.staged, self.ends = [], {}
        kept = []
        for batch, row, value in staged:
            if json.dumps(value) in self.refused:
                self.context.bad_record(batch, row, BadRecord("the database refuses it", row))
            else:
                kept.append(value)
        if staged and self.store_faults:
            raise self.store_faults.pop()
        type(self).stored.extend(kept)
        type(self).position.update(ends)


def staging(**more: Any) -> type[Any]:
    own = {"stored": [], "position": {}, "store_faults": [], "refused": set()}
    return fresh(Staging, **{**own, **more})


def test_a_run_of_a_source_that_is_retriable_in_its_middle_is_done_again_whole(start, bootstrap, topic):
    kind = fresh(WholeRuns, failures=[Retriable("the cable is cut")])
    ear = start()
    config = {"connector.class": place_of(kind), "topic": topic, "count": "50"}
    task = ear.run(f"s-{topic}", {**QUICK, **config})
    eventually(lambda: kind.told.get("a") == 50)
    values = [each.value().decode() for each in read_all(bootstrap, topic)]
    assert Counter(values) == Counter(f"a{n}" for n in range(50))
    assert [each.state for each in ear.tasks[task]] == [State.RUNNING]


def test_what_a_write_that_fails_drops_is_read_again(start, bootstrap, topic):
    """The third run fills the stage, and storing fails: the first two went with it."""
    kind = staging(store_faults=[Retriable("away"), Retriable("away")])
    ear = start(flush_ms=600_000)
    config = {"connector.class": place_of(kind), "topics": topic, "consumer.override.max.poll.records": "10"}
    send(bootstrap, topic, [f"v{n}" for n in range(60)])
    task = ear.run(f"k-{topic}", {**QUICK, **config})
    eventually(lambda: len(kind.stored) >= 60 or kind.position.get(TopicPartition(topic, 0)) == 60)
    assert kind.stored == [f"v{n}" for n in range(60)]
    assert [each.state for each in ear.tasks[task]] == [State.RUNNING]


def letters_of(topic: str) -> dict[str, str]:
    return {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"dead-{topic}",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }


@pytest.mark.parametrize("at", [1, 1000], ids=["in write", "in flush"])
def test_rows_that_are_refused_when_they_are_stored_become_dead_letters_once(start, bootstrap, topic, at):
    values = [json.dumps({"n": n}) for n in range(40)]
    kind = staging(at=at, refused={values[3], values[27], values[28]}, store_faults=[Retriable("away")])
    ear = start()
    config = {"connector.class": place_of(kind), "topics": topic, "consumer.override.max.poll.records": "10"}
    send(bootstrap, topic, values)
    task = ear.run(f"k-{topic}", {**QUICK, **JSON, **letters_of(topic), **config})
    eventually(lambda: kind.position.get(TopicPartition(topic, 0)) == 40)
    assert [each["n"] for each in kind.stored] == [n for n in range(40) if n not in (3, 27, 28)]
    letters = [each.value().decode() for each in read_all(bootstrap, f"dead-{topic}")]
    assert sorted(letters) == sorted(values[n] for n in (3, 27, 28))
    assert [each.state for each in ear.tasks[task]] == [State.RUNNING]


def test_a_row_that_is_reported_by_a_write_that_is_repeated_is_one_dead_letter(start, bootstrap, topic):
    faults = [Retriable("away"), Retriable("away")]

    class Reporting(Remembering):
        def write(self, batch: Batch, number: int) -> None:
            for row, each in enumerate(rows(batch)):
                if each.value["n"] == 3:
                    self.context.bad_record(batch, row, BadRecord("an unlucky number", row))
            if faults:
                raise faults.pop()
            super().write(batch, number)

    kind = fresh(Reporting)
    ear = start()
    values = [json.dumps({"n": n}) for n in range(10)]
    send(bootstrap, topic, values)
    config = {"connector.class": place_of(kind), "topics": topic}
    ear.run(f"k-{topic}", {**QUICK, **JSON, **letters_of(topic), **config})
    eventually(lambda: kind.flushes and kind.written and read_all(bootstrap, f"dead-{topic}"))
    assert [each.value().decode() for each in read_all(bootstrap, f"dead-{topic}")] == [values[3]]


def test_files_that_are_open_at_a_stop_are_read_again_also_the_first(start, bootstrap, topic, tmp_path):
    config = {
        "connector.class": "FileSink",
        "topics": topic,
        "path": str(tmp_path),
        "format": "json",
        "flush.size": "25",
        "consumer.override.max.poll.records": "10",
    }
    send(bootstrap, topic, [f"v{n}" for n in range(10)])
    ear = start()
    task = ear.run(f"k-{topic}", {**QUICK, **config})

    def flushed() -> float:
        found = ear.runtime.metrics().get(f"sink-task-metrics,connector={task.connector},task=0", {})
        return found.get("offset-commit-completion-total", 0)

    eventually(flushed)
    ear.runtime.close(30)
    send(bootstrap, topic, [f"v{n}" for n in range(10, 25)])
    start().run(f"k-{topic}", {**QUICK, **config})
    eventually(lambda: list(tmp_path.glob(f"{topic}/**/*.json")))
    lines = [json.loads(line) for each in tmp_path.glob(f"{topic}/**/*.json") for line in each.open()]
    assert lines == [f"v{n}" for n in range(25)]


def test_a_database_refuses_rows_of_earlier_runs_and_has_all_others(start, bootstrap, topic, tmp_path):
    pytest.importorskip("sqlalchemy")
    database = tmp_path / "x.db"
    with contextlib.closing(sqlite3.connect(database)) as opened:
        opened.execute(f'CREATE TABLE "{topic}" (n INTEGER CHECK (n NOT IN (3, 27, 28)))')
        opened.commit()
    values = [json.dumps({"n": n}) for n in range(40)]
    send(bootstrap, topic, values)
    config = {
        "connector.class": "JdbcSink",
        "topics": topic,
        "connection.url": f"sqlite:///{database}",
        "consumer.override.max.poll.records": "10",
    }
    ear = start()
    task = ear.run(f"k-{topic}", {**QUICK, **JSON, **letters_of(topic), **config})

    def stored() -> list[int]:
        with contextlib.closing(sqlite3.connect(database, timeout=30)) as opened:
            return [n for (n,) in opened.execute(f'SELECT n FROM "{topic}" ORDER BY n')]

    eventually(lambda: len(stored()) >= 37)
    assert stored() == [n for n in range(40) if n not in (3, 27, 28)]
    letters = [each.value().decode() for each in read_all(bootstrap, f"dead-{topic}")]
    assert sorted(letters) == sorted(values[n] for n in (3, 27, 28))
    assert [each.state for each in ear.tasks[task]] == [State.RUNNING]


def test_a_sink_begins_where_auto_offset_reset_says(start, bootstrap, topic):
    opened: list[TopicPartition] = []

    class Opened(Remembering):
        def opened(self, partitions: Sequence[TopicPartition]) -> None:
            opened.extend(partitions)

    kind = fresh(Opened)
    send(bootstrap, topic, ["before"] * 3)
    config = {"connector.class": place_of(kind), "topics": topic}
    ear = start()
    ear.run(f"l-{topic}", {**QUICK, **config, "consumer.override.auto.offset.reset": "latest"})
    eventually(lambda: opened)
    send(bootstrap, topic, ["after"])
    eventually(lambda: kind.values(topic))
    assert kind.values(topic) == ["after"]
    task = ear.run(f"n-{topic}", {**QUICK, **config, "consumer.override.auto.offset.reset": "none"})
    eventually(lambda: ear.state(task) is State.FAILED)
    assert "auto.offset.reset is none" in ear.tasks[task][-1].trace
