"""`write.format("moldau")`: columns, headers, partitions as Java's producer chooses them, bad rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from sink_helpers import create_topic, read_topic, values

from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 5


@pytest.fixture
def out(broker: Broker, topic: str) -> str:
    create_topic(broker.bootstrap_servers, topic, PARTITIONS)
    return topic


def write(frame: DataFrame, broker: Broker, topic: str | None, **options: str) -> None:
    writer: Any = frame.write.format("moldau").mode("append")
    writer = writer.option("kafka.bootstrap.servers", broker.bootstrap_servers).options(**options)
    (writer.option("topic", topic) if topic else writer).save()


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_every_column(spark: SparkSession, broker: Broker, out: str, delivery: str) -> None:
    schema = "key binary, value string, partition int, headers array<struct<key: string, value: binary>>"
    rows = [
        (b"k", "v", 3, [("h", b"1"), ("h", None), ("ü", b"")]),
        (None, "w", 4, []),
        (b"", None, 0, None),
        (b"\xff\x00", "", 2, None),
    ]
    write(spark.createDataFrame(rows, schema), broker, out, delivery=delivery)
    assert read_topic(broker.bootstrap_servers, out, PARTITIONS) == [
        (0, b"", None, ()),
        (2, b"\xff\x00", b"", ()),
        (3, b"k", b"v", (("h", b"1"), ("h", None), ("ü", b""))),
        (4, None, b"w", ()),
    ]


def test_keys_choose_the_partitions_that_javas_producer_chooses(
    spark: SparkSession, broker: Broker, out: str
) -> None:
    other = f"{out}-2"
    create_topic(broker.bootstrap_servers, other, PARTITIONS)
    keys = [f"key-{number}" * (number % 7) for number in range(300)]
    # librdkafka's name for the default partitioner of Kafka's Java client
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in keys:
        if key:
            producer.produce(other, value=key, key=key)
    assert producer.flush(20) == 0
    frame = spark.createDataFrame([(key, key) for key in keys if key], "key string, value string")
    write(frame.repartition(2), broker, out)
    ours = {(row[0], row[1]) for row in read_topic(broker.bootstrap_servers, out, PARTITIONS)}
    assert ours == {(row[0], row[1]) for row in read_topic(broker.bootstrap_servers, other, PARTITIONS)}
    assert len({partition for partition, _ in ours}) == PARTITIONS


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_read_back_by_spark(spark: SparkSession, broker: Broker, out: str, codec: str) -> None:
    """More rows than a task collects at once, by tasks that write to the same partitions."""
    frame = spark.range(60_000, numPartitions=3).selectExpr(
        "cast(id as string) as key", "repeat(cast(id as string), 30) as value"
    )
    options = {"delivery": "exactly-once", "kafka.compression.type": codec, "kafka.batch.size": "100000"}
    write(frame, broker, out, **options)
    back = spark.read.format("moldau").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    back = back.option("subscribe", out).load().selectExpr("cast(key as string)", "cast(value as string)")
    assert back.count() == 60_000
    assert back.exceptAll(frame).isEmpty()


def test_records_without_keys_are_spread(spark: SparkSession, broker: Broker, out: str) -> None:
    frame = spark.range(4_000, numPartitions=2).selectExpr("cast(id as string) as value")
    write(frame, broker, out, **{"kafka.batch.size": "2000"})
    rows = read_topic(broker.bootstrap_servers, out, PARTITIONS)
    assert values(rows) == sorted(str(number) for number in range(4_000))
    counts = [sum(row[0] == partition for row in rows) for partition in range(PARTITIONS)]
    assert min(counts) > 400, counts


def test_topics_by_row_and_a_topic_that_is_made_by_writing(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    rows = [(f"{topic}-{number % 3}", str(number)) for number in range(30)]
    write(spark.createDataFrame(rows, "topic string, value string"), broker, None)
    for number in range(3):
        found = values(read_topic(broker.bootstrap_servers, f"{topic}-{number}", 1))
        assert found == sorted(str(n) for n in range(30) if n % 3 == number)


def test_the_option_topic_goes_before_the_column(spark: SparkSession, broker: Broker, out: str) -> None:
    write(spark.createDataFrame([("elsewhere", "v")], "topic string, value string"), broker, out)
    assert values(read_topic(broker.bootstrap_servers, out, PARTITIONS)) == ["v"]


@pytest.mark.parametrize(
    ("rows", "schema", "sentence"),
    [
        ([("v", 5)], "value string, partition int", "names partition 5 .* has partitions 0 to 4"),
        ([("v", -1)], "value string, partition int", "names partition -1 "),
        (
            [("v", [(None, b"x")])],
            "value string, headers array<struct<key: string, value: binary>>",
            "no name",
        ),
    ],
)
@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_rows_that_cannot_be_written(
    spark: SparkSession, broker: Broker, out: str, rows: list[Any], schema: str, sentence: str, delivery: str
) -> None:
    with pytest.raises(Exception, match=sentence):
        write(spark.createDataFrame(rows, schema), broker, out, delivery=delivery)
    assert read_topic(broker.bootstrap_servers, out, PARTITIONS, "read_uncommitted") == []


def test_null_topics(spark: SparkSession, broker: Broker) -> None:
    frame = spark.createDataFrame([(None, "v")], "topic string, value string")
    with pytest.raises(Exception, match="null in the column topic"):
        write(frame, broker, None)


def test_overwrite_is_refused(spark: SparkSession, broker: Broker, out: str) -> None:
    frame = spark.createDataFrame([("v",)], "value string").write.format("moldau").mode("overwrite")
    with pytest.raises(Exception, match="cannot be overwritten"):
        frame.option("kafka.bootstrap.servers", broker.bootstrap_servers).option("topic", out).save()


def test_a_write_names_its_mode_also_in_for_each_batch(
    spark: SparkSession, broker: Broker, out: str, tmp_path: Path
) -> None:
    """Spark refuses the default mode for every format in Python, as docs/spark-source.md says first."""
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": out}
    refused: list[str] = []

    def write_both_ways(frame: DataFrame, number: int) -> None:
        values_only = frame.selectExpr("cast(value as string) as value")
        try:
            values_only.write.format("moldau").options(**options).save()
        except Exception as refusal:
            refused.append(str(refusal))
        values_only.write.format("moldau").options(**options).mode("append").save()

    spark.range(2).write.parquet(str(tmp_path / "in"))
    frame = spark.readStream.schema("id long").parquet(str(tmp_path / "in")).selectExpr("id as value")
    query = (
        frame.writeStream.foreachBatch(write_both_ways)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert [text.split()[0] for text in refused] == ["[UNSUPPORTED_DATA_SOURCE_SAVE_MODE]"]
    assert sorted(value for _, _, value, _ in read_topic(broker.bootstrap_servers, out, PARTITIONS)) == [
        b"0",
        b"1",
    ]


def test_all_or_nothing(spark: SparkSession, broker: Broker, out: str) -> None:
    """One task of two fails, after the other is done: exactly-once leaves nothing."""
    frame = spark.range(2, numPartitions=2).selectExpr(
        "if(id = 1, raise_error('as the test wants it'), 'v') as value"
    )
    with pytest.raises(Exception, match="as the test wants it"):
        write(frame, broker, out, delivery="exactly-once")
    assert read_topic(broker.bootstrap_servers, out, PARTITIONS, "read_uncommitted") == []


def test_numbered_batches_are_written_once(spark: SparkSession, broker: Broker, out: str) -> None:
    for number, text in [(0, "a"), (0, "again"), (1, "b")]:
        frame = spark.createDataFrame([(text,)], "value string")
        options = {"delivery": "exactly-once", "transactionalId": f"id-{out}", "batchId": str(number)}
        write(frame, broker, out, **options)
    with pytest.raises(Exception, match="batchId needs a transactionalId"):
        write(frame, broker, out, delivery="exactly-once", batchId="7")
    assert values(read_topic(broker.bootstrap_servers, out, PARTITIONS)) == ["a", "b"]
