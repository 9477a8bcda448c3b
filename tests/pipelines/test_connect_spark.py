"""Connect's sinks on Spark: the classes of the local engine in executors, each record once, dead letters,
offsets."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1] / "clients"))

from connect_parts import Ear, eventually, read_all

from moldau.connect import ConnectError
from moldau.services.connect.runtime import connector_instance, engine_choice
from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.runtime.local import LocalRuntime
from moldau.services.connect.runtime.spark_commits import SparkCommits
from moldau.testing import Broker

FOLDER = Path(__file__).parent
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def start(broker: Broker, spark: Any, tmp_path: Path) -> Iterator[Callable[[], Ear]]:
    spark.sparkContext.addPyFile(str(FOLDER / "connect_numbers.py"))
    started = []

    def make() -> Ear:
        ear = Ear()
        worker = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "workers",
            "offset.flush.interval.ms": "200",
            "moldau.connect.spark.checkpoints": str(tmp_path / "checkpoints"),
            "key.converter": JSON,
            "value.converter": JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
        }
        ear.runtime = LocalRuntime(worker, ear, spark=lambda: spark)
        started.append(ear.runtime)
        return ear

    yield make
    for each in started:
        each.close(60)


def send(broker: Broker, topic: str, values: Sequence[Any]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, each in enumerate(values):
        text = each if isinstance(each, str) else json.dumps(each)
        producer.produce(topic, text, partition=number % 2, headers=[("mine", b"x")])
    assert producer.flush(60) == 0


def committed(broker: Broker, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    found = consumer.committed([TopicPartition(topic, each) for each in range(2)], 30)
    consumer.close()
    return [each.offset for each in found]


def written(folder: Path) -> list[int]:
    return sorted(each["n"] for file in folder.glob("*.json") for each in json.loads(file.read_text()))


def config(topic: str, folder: Path, **more: str) -> Mapping[str, str]:
    return {
        "connector.class": "connect_numbers:Numbered",
        "topics": topic,
        "folder": str(folder),
        "moldau.connect.engine": "spark",
        "moldau.restart.delay.ms": "50",
        **more,
    }


def test_records_are_written_once_by_executors_over_a_failure_and_dead_letters_too(
    broker: Broker, topic: str, start: Callable[[], Ear], tmp_path: Path
):
    folder, fail = tmp_path / "out", tmp_path / "fail"
    folder.mkdir()
    fail.touch()
    broker.create_topic(topic, 2)
    values: list[Any] = [{"n": n} for n in range(200)]
    values[20] = "{no json"
    values[31] = {"n": 31, "bad": "put"}
    send(broker, topic, values)
    letters = f"dead-{topic}"[:200]
    ear = start()
    name = f"k{topic}"[:60]
    task = ear.run(
        name,
        config(
            topic,
            folder,
            **{
                "fail": str(fail),
                "tasks.max": "4",
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": letters,
                "errors.deadletterqueue.topic.replication.factor": "1",
                "errors.deadletterqueue.context.headers.enable": "true",
            },
        ),
    )
    eventually(lambda: committed(broker, f"connect-{name}", topic) == [100, 100], 240)
    assert written(folder) == [n for n in range(200) if n not in (20, 31)]
    assert not (folder / "differs").exists()
    failed = [each.trace for each in ear.tasks[task] if each.state is State.FAILED]
    assert failed
    assert failed[0].startswith("the other system has gone")
    assert {each.engine for each in ear.tasks[task]} == {"spark"}
    assert len(ear.configs[name]) == 1
    found = {
        dict(each.headers())["__connect.errors.stage"]: each
        for each in read_all(broker.bootstrap_servers, letters)
    }
    assert found.keys() == {b"VALUE_CONVERTER", b"TASK_PUT"}
    assert found[b"VALUE_CONVERTER"].value() == b"{no json"
    assert dict(found[b"TASK_PUT"].headers())["mine"] == b"x"

    # The local engine goes on from the group's offsets.
    ear.runtime.stop_tasks([task], 120)
    send(broker, topic, [{"n": n} for n in range(200, 240)])
    again = start()
    again.run(name, config(topic, folder, **{"moldau.connect.engine": "local"}))
    eventually(lambda: written(folder) == [n for n in range(240) if n not in (20, 31)])
    time.sleep(0.5)
    assert not (folder / "differs").exists()


def test_a_sink_that_keeps_positions_is_asked_where_it_stands(
    broker: Broker, topic: str, start: Callable[[], Ear], tmp_path: Path
):
    deltalake = pytest.importorskip("deltalake")
    broker.create_topic(topic, 2)
    send(broker, topic, [{"n": n} for n in range(100)])
    ear = start()
    name = f"d{topic}"[:60]
    table = str(tmp_path / "table")
    settings = {"connector.class": "Delta", "table.uri": table, "moldau.connect.engine": "spark"}
    ear.run(name, {**config(topic, tmp_path), **settings})
    eventually(lambda: committed(broker, f"connect-{name}", topic) == [50, 50], 240)
    rows = deltalake.DeltaTable(table).to_pyarrow_table().to_pylist()
    assert sorted(each["n"] for each in rows) == list(range(100))


def test_what_cannot_run_on_spark_is_told(
    broker: Broker, topic: str, start: Callable[[], Ear], tmp_path: Path
):
    broker.create_topic(topic, 2)
    send(broker, topic, [{"n": n} for n in range(10)])
    ear = start()
    name = f"f{topic}"[:60]
    settings = {"connector.class": "FileSink", "path": str(tmp_path / "files"), "format": "json"}
    task = ear.run(name, {**config(topic, tmp_path), **settings})
    eventually(lambda: ear.state(task) is State.FAILED, 240)
    assert "moldau.connect.engine=local" in ear.tasks[task][-1].trace


def test_the_groups_offsets_say_where_a_query_begins(
    broker: Broker, topic: str, start: Callable[[], Ear], tmp_path: Path
):
    folder = tmp_path / "out"
    folder.mkdir()
    broker.create_topic(topic, 2)
    name = f"g{topic}"[:60]
    group = f"connect-{name}"
    sent = 0
    for engine in ("spark", "local", "spark"):
        send(broker, topic, [{"n": n} for n in range(sent, sent + 40)])
        sent += 40
        ear = start()
        task = ear.run(name, config(topic, folder, **{"moldau.connect.engine": engine}))
        eventually(lambda: committed(broker, group, topic) == [sent // 2] * 2, 240)  # noqa: B023
        ear.runtime.stop_tasks([task], 120)
        assert written(folder) == list(range(sent))
    assert not (folder / "differs").exists()
    # Set by hand, while it is stopped: it begins there.
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 1, 50)], asynchronous=False)
    consumer.close()
    for file in folder.glob("*.json"):
        file.unlink()
    ear = start()
    ear.run(name, config(topic, folder))
    eventually(lambda: committed(broker, group, topic) == [60, 60], 240)
    assert written(folder) == list(range(101, 120, 2))


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_runs_that_a_crash_has_left_come_again_as_they_were(
    broker: Broker,
    topic: str,
    start: Callable[[], Ear],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
):
    folder = tmp_path / "out"
    folder.mkdir()
    broker.create_topic(topic, 2)
    send(broker, topic, [{"n": n} for n in range(40)])
    commit = SparkCommits.commit

    def dies(self: SparkCommits, *more: Any) -> None:
        monkeypatch.setattr(SparkCommits, "commit", commit)
        send(broker, topic, [{"n": n} for n in range(40, 80)])
        raise ConnectError("the driver dies here")

    monkeypatch.setattr(SparkCommits, "commit", dies)
    name = f"c{topic}"[:60]
    ear = start()
    task = ear.run(name, config(topic, folder, **{"moldau.restart.enable": "false"}))
    eventually(lambda: ear.state(task) is State.FAILED, 240)
    assert written(folder) == list(range(40))
    ear.runtime.stop_tasks([task], 120)
    again = start()
    again.run(name, config(topic, folder, **{"moldau.connect.engine": engine}))
    eventually(lambda: committed(broker, f"connect-{name}", topic) == [40, 40], 240)
    assert written(folder) == list(range(80))
    assert not (folder / "differs").exists()


def test_auto_moves_a_sink_to_spark_and_back_and_each_record_is_written_once(
    broker: Broker, topic: str, start: Callable[[], Ear], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine_choice, "UP_MS", 500.0)
    monkeypatch.setattr(engine_choice, "DOWN_MS", 3000.0)
    monkeypatch.setattr(connector_instance, "_LOOK_SECONDS", 0.2)
    folder = tmp_path / "out"
    folder.mkdir()
    broker.create_topic(topic, 2)
    name = f"a{topic}"[:60]
    ear = start()
    more = {"moldau.connect.engine": "auto", "moldau.connect.engine.records": "40", "tasks.max": "2"}
    task = ear.run(name, config(topic, folder, **more))
    engines = lambda: [each.engine for each in list(ear.tasks[task]) if each.state is State.RUNNING]  # noqa: E731
    sent = 0
    until = time.monotonic() + 120
    while "spark" not in engines():
        send(broker, topic, [{"n": n} for n in range(sent, sent + 50)])
        sent += 50
        time.sleep(0.2)
        assert time.monotonic() < until
    eventually(lambda: engines()[-1] == "local", 240)
    send(broker, topic, [{"n": n} for n in range(sent, sent + 10)])
    sent += 10
    eventually(lambda: sum(committed(broker, f"connect-{name}", topic)) == sent, 60)
    assert written(folder) == list(range(sent))
    assert not (folder / "differs").exists()
    reasons = [each.engine_why for each in ear.tasks[task]]
    assert any("more than 60" in each for each in reasons)
    assert any("less than 20" in each for each in reasons)


def test_a_source_in_executors_delivers_once_over_failures_and_moves_between_engines(
    broker: Broker, topic: str, start: Callable[[], Ear], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    count, fail = tmp_path / "count", tmp_path / "fail"
    count.write_text("100")
    fail.touch()
    broker.create_topic(topic, 2)
    name = f"s{topic}"[:60]
    settings = {
        "connector.class": "connect_numbers:Counting",
        "topic": topic,
        "names": "a,b",
        "count": str(count),
        "fail": str(fail),
        "tasks.max": "2",
        "moldau.restart.delay.ms": "50",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }

    def values() -> list[str]:
        return sorted(each.value().decode() for each in read_all(broker.bootstrap_servers, topic, 2))

    for round_, engine in enumerate(("spark", "local", "spark")):
        count.write_text(str(100 * (round_ + 1)))
        ear = start()
        ear.run(name, {**settings, "moldau.connect.engine": engine})
        wanted = sorted(f"{each}{n}" for each in "ab" for n in range(100 * (round_ + 1)))
        eventually(lambda: len(values()) >= len(wanted), 240)  # noqa: B023
        tasks = list(ear.tasks)
        assert {each.engine for task in tasks for each in ear.tasks[task] if each.engine} == {engine}
        if engine == "spark" and round_ == 0:
            failed = [each.trace for task in tasks for each in ear.tasks[task] if each.state is State.FAILED]
            assert failed
            assert failed[0].startswith("the other system has gone")
            assert (name, topic) in ear.topics
        assert ear.runtime.stop_tasks(tasks, 60) == []
        assert values() == wanted


def test_a_sink_that_fails_on_spark_goes_on_locally_with_auto(
    broker: Broker, topic: str, start: Callable[[], Ear], tmp_path: Path
):
    folder = tmp_path / "out"
    folder.mkdir()
    broker.create_topic(topic, 2)
    send(broker, topic, [{"n": n} for n in range(20)])
    ear = start()
    task = TaskId(f"h{topic}"[:60], 0)
    chosen = {
        "moldau.connect.engine": "auto",
        "moldau.task.engine": "spark",
        "moldau.task.engine.why": "much",
    }
    own = {"connector.class": "connect_numbers:AtHome", "pid": str(os.getpid())}
    given = {"name": task.connector, **config(topic, folder, **chosen, **own)}
    ear.runtime.start_task(task, given, State.RUNNING)
    eventually(lambda: sum(committed(broker, f"connect-{task.connector}", topic)) == 20, 240)
    assert written(folder) == list(range(20))
    assert ear.tasks[task][-1].engine == "local"
    assert "it has what it needs at home alone" in ear.tasks[task][-1].engine_why
    assert [each.engine for each in ear.tasks[task] if each.state is State.FAILED] == ["spark"] * 3
