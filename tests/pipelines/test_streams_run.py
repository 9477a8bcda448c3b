"""Apps that run against a broker: once and for ever, restarted, fenced, refused, with a flow that fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.streams import App, CheckpointRefused, StreamsError
from moldau.streams.folder import Folder
from moldau.streams.lease import Lease
from moldau.streams.output_topics import Cluster
from moldau.streams.runner import Runner, run_app
from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAIT_SECONDS = 300.0
APP = """
from pyspark.sql.functions import count, lit, udf
from helper import shout
from moldau.streams import App

app = App("shouting")
words = app.topic("words", value="string")

@app.to("shouts", value="string")
def shouts():
    return words.stream().select(udf(shout)("value").alias("value"))

@app.table("counts", key="word")
def counts():
    return words.stream().groupBy(words_column()).agg(count(lit(1)).alias("n"))

def words_column():
    from pyspark.sql.functions import col
    return col("value").alias("word")
"""


def produce(broker: Broker, topic: str, *records: tuple[str | None, str | bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0


def committed_records(broker: Broker, topic: str) -> list[tuple[str | None, Any]]:
    """Key and value (as JSON) of all that a read_committed reader sees of a topic."""
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "reader",
        "enable.partition.eof": True,
    }
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
    found, open_ends = [], len(partitions)
    while open_ends:
        message = consumer.poll(30)
        assert message is not None, f"{topic} cannot be read to its end"
        if message.error():
            open_ends -= 1
            continue
        key, value = message.key(), message.value()
        found.append((key.decode() if key else None, None if value is None else json.loads(value)))
    consumer.close()
    return found


def wait_for(what: Callable[[], bool], message: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not what():
        assert time.monotonic() < deadline, message
        time.sleep(0.1)


@contextmanager
def running(app: App, spark: SparkSession) -> Iterator[Runner]:
    """The app in a thread, stopped at the end if it still runs."""
    runner = Runner(app, spark)
    runner.prepare(Cluster(app))
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        yield runner
    finally:
        runner.stop()
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive(), "the app does not stop"


def doubling(name: str, broker: Broker, checkpoints: Path, topic: str, **more: Any) -> App:
    app = App(name, bootstrap_servers=broker.bootstrap_servers, checkpoints=checkpoints, **more)
    numbers = app.topic(topic, key="id", schema="id string, n int")

    @app.to(f"{topic}-doubled", key="id")
    def double() -> DataFrame:
        return numbers.stream().selectExpr("id", "2 * n AS n")

    return app


def numbered(first: int, last: int) -> list[tuple[str, str]]:
    return [(str(number), json.dumps({"id": str(number), "n": number})) for number in range(first, last)]


def test_once_writes_what_is_new_and_flows_follow_each_other(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    from pyspark.sql.functions import count, lit

    broker.create_topic(topic, partitions=3)
    broker.create_topic(f"{topic}-names", cleanup_policy="compact")
    app = doubling("once", broker, tmp_path, topic)
    doubled = app.topic(f"{topic}-doubled", key="id", schema="n int")
    names = app.topic(f"{topic}-names", key="id", value="string")

    @app.table(f"{topic}-counts", key="name")
    def counts() -> DataFrame:
        named = doubled.stream().join(names.table().withColumnRenamed("value", "name"), "id")
        return named.groupBy("name").agg(count(lit(1)).alias("times"))

    produce(broker, f"{topic}-names", ("1", "one"), ("1", "uno"), ("2", "two"))
    produce(broker, topic, *numbered(0, 5))
    said: list[str] = []
    run_app(app, once=True, say=said.append)
    assert f"made topic {topic}-doubled: 3 partitions" in said
    assert f"made topic {topic}-counts: 3 partitions, compacted" in said
    expected = {(str(n), json.dumps({"id": str(n), "n": 2 * n})) for n in range(5)}
    assert {
        (key, json.dumps(value)) for key, value in committed_records(broker, f"{topic}-doubled")
    } == expected
    assert sorted(committed_records(broker, f"{topic}-counts")) == [
        ("two", {"name": "two", "times": 1}),
        ("uno", {"name": "uno", "times": 1}),
    ]
    produce(broker, topic, *numbered(2, 3))
    finished = run_app(app, once=True, say=said.append)
    assert len(committed_records(broker, f"{topic}-doubled")) == 6
    assert committed_records(broker, f"{topic}-counts")[-1] == ("two", {"name": "two", "times": 2})
    assert [(each.state, each.numbers.rows_in, each.numbers.rows_out) for each in finished.flows] == [
        ("done", 1, 1),
        ("done", 1, 1),
    ]


def test_the_stream_waits_for_a_broker_that_is_gone(spark: SparkSession, topic: str, tmp_path: Path) -> None:
    with Broker(process=True) as broker:
        broker.create_topic(topic, partitions=2)
        app = doubling("waiting", broker, tmp_path, topic)
        produce(broker, topic, *numbered(0, 10))
        with running(app, spark) as runner:
            flow = runner.flows[0]
            wait_for(lambda: flow.numbers.rows_out >= 10, "the first records do not come through")
            broker.kill()
            time.sleep(3)
            broker.restart()
            produce(broker, topic, *numbered(10, 20))
            wait_for(lambda: flow.numbers.rows_out >= 20, "the records after the restart do not come through")
        assert flow.state == "stopped"
        written = [int(key or -1) for key, _ in committed_records(broker, f"{topic}-doubled")]
        assert sorted(written) == list(range(20))


def test_the_older_driver_stops_when_a_newer_one_takes_over(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic)
    app = doubling("taken", broker, tmp_path, topic)
    produce(broker, topic, *numbered(0, 3))
    with running(app, spark) as runner:
        wait_for(lambda: runner.flows[0].numbers.rows_out == 3, "nothing comes through")
        assert Lease(Folder(tmp_path) / "taken", "taken").take() is not None
        wait_for(lambda: runner.flows[0].state == "fenced", "the older driver goes on")
        assert "another driver has taken over app taken" in runner.flows[0].reason


def test_a_driver_with_other_checkpoints_is_fenced_by_the_broker(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic)
    older = doubling("fenced", broker, tmp_path / "older", topic)
    newer = doubling("fenced", broker, tmp_path / "newer", topic)
    produce(broker, topic, *numbered(0, 3))
    with running(older, spark) as runner:
        wait_for(lambda: runner.flows[0].numbers.rows_out == 3, "nothing comes through")
        run_newer(newer)
        produce(broker, topic, *numbered(3, 4))
        wait_for(lambda: runner.flows[0].state == "fenced", "the older driver goes on")


def run_newer(app: App) -> None:
    """Another process with the same app, as far as the broker can tell."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    flow = app.flows["double"]
    with app.building(flow):
        rows = flow.rows()
    from moldau.streams.running import RunningFlow

    other = RunningFlow(
        flow, rows, app.place, Folder(app.checkpoints).uri, once=True, look=lambda: None, query_name="newer"
    )
    assert session is not None
    other.start()
    wait_for(lambda: other.poll(time.monotonic()) or other.is_over, "the newer driver does not end")
    assert other.state == "done", other.reason


def test_a_flow_that_fails_leaves_the_others_alone(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.functions import udf

    monkeypatch.setattr("moldau.streams.running.RESTARTS_MAX", 1)
    broker.create_topic(topic)
    app = doubling("failing", broker, tmp_path, topic)
    numbers = app.topic(topic, schema="id string, n int")

    @app.to(f"{topic}-inverse")
    def invert() -> DataFrame:
        return numbers.stream().select(udf(lambda n: str(1 // n))("n").alias("inverse"))

    produce(broker, topic, *numbered(0, 3))
    said: list[str] = []
    with pytest.raises(StreamsError, match="flow invert failed: ZeroDivisionError: integer division"):
        run_app(app, once=True, say=said.append)
    assert len(committed_records(broker, f"{topic}-doubled")) == 3
    assert any(line.startswith("flow invert restarting: ZeroDivisionError") for line in said)


def test_a_checkpoint_of_something_else_is_refused(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    for name in (topic, f"{topic}-other"):
        broker.create_topic(name)
    run_app(doubling("mine", broker, tmp_path, topic), once=True, say=lambda _: None)
    with pytest.raises(
        CheckpointRefused, match=f"was made reading {topic}, and flow double reads {topic}-other"
    ):
        run_app(doubling("mine", broker, tmp_path, f"{topic}-other"), once=True)
    (tmp_path / "mine").rename(tmp_path / "yours")
    with pytest.raises(
        CheckpointRefused, match="belongs to flow double of app mine, and not to flow double of app yours"
    ):
        run_app(doubling("yours", broker, tmp_path, topic), once=True)
    with pytest.raises(StreamsError, match="reads missing, which does not exist"):
        run_app(doubling("new", broker, tmp_path, "missing"), once=True)


def test_the_command_runs_a_file_until_it_is_told_to_stop(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "helper.py").write_text("def shout(text):\n    return '\"' + text.upper() + '\"'\n")
    broker.create_topic("words")
    produce(broker, "words", (None, "a"), (None, "b"), (None, "a"))
    command = [
        sys.executable,
        "-m",
        "moldau",
        "streams",
        "run",
        "app.py",
        "--json",
        "-b",
        broker.bootstrap_servers,
    ]
    folder = tmp_path / "tmp"
    folder.mkdir()
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        done: dict[str, int] = {}
        try:
            for line in process.stdout:
                report = json.loads(line)
                done[report["flow"]] = report["rows_in"]
                if done.get("shouts") == done.get("counts") == 3 and report["lag"] == 0:
                    break
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all of its processes hear it
            last = [json.loads(line) for line in process.stdout]
            errors = process.stderr.read()
            assert process.wait(WAIT_SECONDS) == 0, errors
        finally:
            process.kill()
    known = ("app shouting: ", "made topic ")
    said = [line for line in errors.splitlines() if not line.startswith(known)]
    assert said == [], "what Spark and Java have to say is no news"
    assert f"whose messages go to {folder}/moldau-app-spark-" in errors
    assert list(folder.glob("moldau-app-spark-*")) == [], "all went well"
    assert {report["flow"]: report["state"] for report in last[-2:]} == {
        "shouts": "stopped",
        "counts": "stopped",
    }
    assert sorted(value for _, value in committed_records(broker, "shouts")) == ["A", "A", "B"]
    assert dict(committed_records(broker, "counts")) == {
        "a": {"word": "a", "n": 2},
        "b": {"word": "b", "n": 1},
    }
    command = [sys.executable, "-m", "moldau", "streams", "describe", "shouting", "shouts", "--json"]
    answer = subprocess.run(
        [*command, "-b", broker.bootstrap_servers], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (described,) = json.loads(answer.stdout)
    assert (described["state"], described["lag"], described["reads"]) == ("stopped", 0, ["words"])
    assert described["partitions"][0]["position"] == 3
