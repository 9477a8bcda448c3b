"""`writeStream.format("moldau")`: exactly once across restarts, replays, failing tasks and two drivers.

Streams read a table of numbered files, so that every micro-batch is known and the same when it is repeated.
"""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sink_helpers import create_topic, read_topic, values

from moldau.testing import Broker
from pyspark_moldau.micro_batches import micro_batch_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

PARTITIONS = 3


class Source:
    """A folder that a stream reads; each file is one micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        folder.mkdir()
        self.count = 0

    def add(self, *texts: str) -> None:
        lines = "".join(json.dumps({"key": text, "value": text}) + "\n" for text in texts)
        hidden = self.folder / f".{self.count}"
        hidden.write_text(lines)
        os.utime(hidden, (self.count, self.count))  # Spark takes the oldest file first
        hidden.rename(self.folder / f"{self.count}.json")
        self.count += 1

    def stream(self) -> DataFrame:
        reader = self.spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path / "in")


@pytest.fixture
def out(broker: Broker, topic: str) -> str:
    create_topic(broker.bootstrap_servers, topic, PARTITIONS)
    return topic


def start(frame: DataFrame, broker: Broker, topic: str, checkpoint: str, **options: str) -> StreamingQuery:
    writer = frame.writeStream.format("moldau").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    writer = writer.option("topic", topic).option("checkpointLocation", checkpoint).options(**options)
    return writer.trigger(availableNow=True).start()


def run(frame: DataFrame, broker: Broker, topic: str, checkpoint: str, **options: str) -> None:
    query = start(frame, broker, topic, checkpoint, **options)
    assert query.awaitTermination(60), "the query goes on and on"


def seen(broker: Broker, topic: str, isolation: str = "read_committed") -> list[str]:
    return values(read_topic(broker.bootstrap_servers, topic, PARTITIONS, isolation))


def forget_last_commit(checkpoint: str) -> int:
    """As if the driver had died after the sink's commit and before Spark noted it."""
    commits = Path(checkpoint, "commits")
    last = max(int(one.name) for one in commits.iterdir() if one.name.isdigit())
    (commits / str(last)).unlink()
    for crc in commits.glob(f".{last}.*"):
        crc.unlink()
    return last


def test_replayed_micro_batch_is_not_written_again(
    source: Source, broker: Broker, out: str, checkpoint: str
) -> None:
    source.add("a", "b")
    source.add("c")
    run(source.stream(), broker, out, checkpoint)
    for _ in range(2):
        assert forget_last_commit(checkpoint) == 1
        run(source.stream(), broker, out, checkpoint)
    source.add("d", "e")
    run(source.stream(), broker, out, checkpoint)
    assert seen(broker, out, "read_uncommitted") == ["a", "b", "c", "d", "e"]


def test_at_least_once_writes_a_replayed_micro_batch_again(
    source: Source, broker: Broker, out: str, checkpoint: str
) -> None:
    source.add("a")
    run(source.stream(), broker, out, checkpoint, delivery="at-least-once")
    forget_last_commit(checkpoint)
    run(source.stream(), broker, out, checkpoint, delivery="at-least-once")
    assert seen(broker, out) == ["a", "a"]


def test_driver_dies_before_its_commit_arrives(
    source: Source, broker: Broker, out: str, checkpoint: str, tmp_path: Path
) -> None:
    """What is left of the older driver is an open transaction: aborted by the restarted one."""
    from moldau.client.cluster import Cluster
    from moldau.client.producer import TransactionalProducer
    from pyspark_moldau.sink_commit import default_transactional_id

    source.add("a")
    run(source.stream(), broker, out, checkpoint)
    query_id = json.loads(Path(checkpoint, "metadata").read_text())["id"]
    from sink_helpers import encoded, options

    with Cluster(broker.bootstrap_servers) as cluster:
        older = TransactionalProducer(cluster, default_transactional_id(query_id))
        older.open()
        older.send(encoded(options(broker.bootstrap_servers, out), ["b", "c"]))
    source.add("b", "c")
    run(source.stream(), broker, out, checkpoint)
    assert seen(broker, out) == ["a", "b", "c"]


def test_failing_tasks_leave_nothing(
    spark: SparkSession, source: Source, broker: Broker, out: str, checkpoint: str, tmp_path: Path
) -> None:
    """A task fails after it has worked through its rows; the restarted query writes them once."""
    from pyspark.sql.functions import udf

    failed = tmp_path / "failed"

    @udf("string")
    def fails_once(value: str) -> str:
        if value == "c" and not failed.exists():
            failed.touch()
            raise RuntimeError("as the test wants it")
        return value

    source.add("a", "b")
    source.add("c", "d")
    frame = source.stream().withColumn("value", fails_once("value"))
    query = start(frame, broker, out, checkpoint)
    with pytest.raises(Exception, match="as the test wants it"):
        query.awaitTermination(60)
    assert seen(broker, out, "read_uncommitted") == ["a", "b"]
    run(frame, broker, out, checkpoint)
    assert seen(broker, out, "read_uncommitted") == ["a", "b", "c", "d"]


def test_older_driver_stops_with_a_sentence(
    source: Source, broker: Broker, out: str, checkpoint: str, tmp_path: Path
) -> None:
    """Two drivers with one transactional id, each with its checkpoint."""
    second = Source(source.spark, tmp_path / "in-2")
    source.add("a")
    second.add("b")
    name = f"id-{out}"
    older = source.stream().writeStream.format("moldau").option("topic", out)
    older = older.option("kafka.bootstrap.servers", broker.bootstrap_servers)
    older = older.option("checkpointLocation", checkpoint).option("transactionalId", name)
    query = older.trigger(processingTime="0 seconds").start()
    query.processAllAvailable()
    run(second.stream(), broker, out, str(tmp_path / "checkpoint-2"), transactionalId=name)
    source.add("never")
    with pytest.raises(Exception, match=rf"is fenced: another query .* transactional id '{re.escape(name)}'"):
        query.awaitTermination(60)
    second.add("c")
    run(second.stream(), broker, out, str(tmp_path / "checkpoint-2"), transactionalId=name)
    assert seen(broker, out, "read_uncommitted") == ["a", "b", "c"]


def test_empty_micro_batches_touch_no_broker(
    source: Source, broker: Broker, out: str, checkpoint: str
) -> None:
    """No transaction, not even a connection: the address is wrong, and nobody minds."""
    source.add("a")
    frame = source.stream().where("value != 'a'")
    query = start(frame, broker, out, checkpoint, **{"kafka.bootstrap.servers": "127.0.0.1:1"})
    assert query.awaitTermination(60)


def test_complete_mode_in_a_thread_of_its_own(
    spark: SparkSession, source: Source, broker: Broker, out: str, checkpoint: str
) -> None:
    """A new thread has no active session, where Spark looks formats up; docs/spark-source.md has the cure."""
    counts = source.stream().groupBy("key").count().selectExpr("key", "concat(key, count) as value")
    writer = counts.writeStream.format("moldau").outputMode("complete").trigger(availableNow=True)
    writer = writer.option("kafka.bootstrap.servers", broker.bootstrap_servers).option("topic", out)
    writer = writer.option("checkpointLocation", checkpoint)

    def write() -> None:
        spark.createDataFrame([], "value string")
        assert writer.start().awaitTermination(60)

    source.add("a", "b", "a")
    source.add("a")
    with ThreadPoolExecutor(1) as thread:
        thread.submit(write).result()
        forget_last_commit(checkpoint)
        thread.submit(write).result()
    assert seen(broker, out, "read_uncommitted") == ["a2", "a3", "b1", "b1"]


def test_update_mode_and_several_topics(source: Source, broker: Broker, out: str, checkpoint: str) -> None:
    other = f"{out}-2"
    create_topic(broker.bootstrap_servers, other, PARTITIONS)
    source.add("a", "b", "a")
    source.add("a")
    counts = source.stream().groupBy("key").count()
    frame = counts.selectExpr(
        "key", "concat(key, count) as value", f"if(key = 'a', '{out}', '{other}') as topic"
    )
    write = micro_batch_writer({"kafka.bootstrap.servers": broker.bootstrap_servers})
    writer = (
        frame.writeStream.foreachBatch(write).outputMode("update").option("checkpointLocation", checkpoint)
    )
    for _ in range(2):
        assert writer.trigger(availableNow=True).start().awaitTermination(60)
        forget_last_commit(checkpoint)
    assert seen(broker, out, "read_uncommitted") == ["a2", "a3"]
    assert seen(broker, other, "read_uncommitted") == ["b1"]


@pytest.mark.parametrize(
    ("options", "columns", "sentence"),
    [
        ({"topic": "t"}, ["key"], "a column named value is needed"),
        ({}, ["value"], "where to?"),
        ({"topic": "t"}, ["1 as value"], "must be a binary or a string, and is int"),
        ({"topic": "t", "delivery": "twice"}, ["value"], "delivery must be exactly-once or at-least-once"),
        ({"topic": "t", "topc": "t"}, ["value"], "did you mean topic"),
        ({"topic": "t", "kafka.acks": "1"}, ["value"], "may lose records"),
        ({"topic": "t", "batchId": "1"}, ["value"], "batchId is not for streams"),
        ({"topic": "t", "kafka.compression.type": "rar"}, ["value"], r"kafka\.compression\.type may be"),
    ],
)
def test_wrong_options(
    source: Source,
    broker: Broker,
    checkpoint: str,
    options: dict[str, str],
    columns: list[str],
    sentence: str,
) -> None:
    source.add("a")
    writer: Any = source.stream().selectExpr(*columns).writeStream.format("moldau").options(**options)
    writer = writer.option("kafka.bootstrap.servers", broker.bootstrap_servers)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=sentence):
        query.awaitTermination(60)
