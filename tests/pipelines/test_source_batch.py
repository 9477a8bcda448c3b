"""`spark.read.format("moldau")` against a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]


def produce(
    broker: Broker, topic: str, values: Iterable[object], partition: int = 0, **settings: Any
) -> None:
    """Records with these values, of which the timestamps are given as value * 1000 if `timed`."""
    timed, headers = settings.pop("timed", False), settings.pop("headers", None)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    for value in values:
        more = {"timestamp": int(str(value)) * 1000} if timed else {}
        producer.produce(topic, str(value).encode(), partition=partition, headers=headers, **more)
    producer.flush()


@pytest.fixture
def read(spark: SparkSession, broker: Broker, topic: str) -> Read:
    """A batch query of the test's topic."""

    def make(**options: str) -> DataFrame:
        chosen = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, **options}
        chosen = {name: value for name, value in chosen.items() if value}
        return spark.read.format("moldau").options(**chosen).load()

    return make


def values(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def test_columns(read: Read, broker: Broker, topic: str) -> None:
    broker.create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    headers = [("a", b"1"), ("a", None), ("b", b"")]
    producer.produce(topic, b"v", b"k", partition=1, timestamp=1_700_000_000_123, headers=headers)
    producer.produce(topic, None, None, partition=1, timestamp=1_700_000_000_124)
    producer.flush()
    frame = read(includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    first, second = frame.orderBy("offset").collect()
    assert (first.key, first.value, first.topic, first.partition, first.offset) == (b"k", b"v", topic, 1, 0)
    assert first.timestamp.timestamp() == 1_700_000_000.123
    assert first.timestampType == 0
    assert [(header.key, header.value) for header in first.headers] == headers
    assert (second.key, second.value, second.offset, second.headers) == (None, None, 1, None)
    assert "headers" not in read().columns


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression(read: Read, broker: Broker, topic: str, codec: str) -> None:
    broker.create_topic(topic)
    produce(broker, topic, range(2000), **{"compression.type": codec, "linger.ms": 50})
    assert values(read()) == list(range(2000))


def test_offsets_and_partitions(read: Read, broker: Broker, topic: str) -> None:
    broker.create_topic(topic, partitions=3)
    for partition in range(3):
        produce(broker, topic, range(partition * 100, partition * 100 + 10), partition)
    assert values(read()) == [*range(10), *range(100, 110), *range(200, 210)]
    starting = f'{{"{topic}": {{"0": 4, "1": -2, "2": 9}}}}'
    ending = f'{{"{topic}": {{"0": 6, "1": 1, "2": -1}}}}'
    assert values(read(startingOffsets=starting, endingOffsets=ending)) == [4, 5, 100, 209]
    assert values(read(subscribe="", assign=f'{{"{topic}": [2, 0]}}')) == [*range(10), *range(200, 210)]
    assert values(read(subscribe="", subscribePattern=f"{topic[:-2]}..")) == values(read())
    assert read(subscribe="", subscribePattern="no-such-.*").count() == 0


def test_times(read: Read, broker: Broker, topic: str) -> None:
    broker.create_topic(topic, partitions=2)
    produce(broker, topic, range(10, 20), 0, timed=True)
    produce(broker, topic, range(15, 20), 1, timed=True)
    assert values(read(startingTimestamp="17500", endingTimestamp="19000")) == [18, 18]
    by_partition = f'{{"{topic}": {{"0": 19000, "1": 18000}}}}'
    assert values(read(startingOffsetsByTimestamp=by_partition)) == [18, 19, 19]
    assert values(read(endingOffsetsByTimestamp=by_partition)) == [
        *range(10, 15),
        *sorted([*range(15, 19), 15, 16, 17]),
    ]
    assert values(read(startingTimestamp="18000", endingTimestamp="99000")) == [18, 18, 19, 19]
    with pytest.raises(Exception, match="no record as new as startingTimestamp asks for"):
        read(startingTimestamp="99000").count()
    assert read(startingTimestamp="99000", startingOffsetsByTimestampStrategy="latest").count() == 0


def test_tasks(read: Read, broker: Broker, topic: str) -> None:
    broker.create_topic(topic, partitions=4)
    produce(broker, topic, range(6000), 0)
    for partition in (1, 2, 3):
        produce(broker, topic, range(10), partition)
    assert read().rdd.getNumPartitions() == 2, "a large range alone, the small ones together"
    assert read(minPartitions="8").rdd.getNumPartitions() == 11
    assert read(maxRecordsPerPartition="2500").rdd.getNumPartitions() == 6
    for options in ({"minPartitions": "8"}, {"maxRecordsPerPartition": "2500"}):
        assert values(read(**options)) == sorted([*range(6000), *[*range(10)] * 3])


def test_only_what_is_committed(read: Read, broker: Broker, topic: str) -> None:
    broker.create_topic(topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    for number, end in (
        (1, producer.commit_transaction),
        (2, producer.abort_transaction),
        (3, producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, str(number))
        producer.flush()
        end()
    assert values(read()) == [1, 3]
    assert values(read(**{"kafka.isolation.level": "read_uncommitted"})) == [1, 2, 3]
    # What is still open is no part of a batch that reads what is committed.
    producer.begin_transaction()
    producer.produce(topic, "4")
    producer.flush()
    assert values(read()) == [1, 3]
    assert values(read(**{"kafka.isolation.level": "read_uncommitted"})) == [1, 2, 3, 4]
    producer.abort_transaction()


def test_first_rows_only(read: Read, broker: Broker, topic: str) -> None:
    """A task that is given up half way does not spoil its worker process for the next."""
    broker.create_topic(topic)
    produce(broker, topic, range(50_000))
    for _ in range(3):
        assert len(read().limit(3).collect()) == 3
    assert read().count() == 50_000


def test_wrong_queries(read: Read, broker: Broker, topic: str, spark: SparkSession) -> None:
    with pytest.raises(Exception, match=f"the topic {topic} does not exist on {broker.bootstrap_servers}"):
        read().count()
    broker.create_topic(topic, partitions=2)
    produce(broker, topic, range(5))
    wrong: list[tuple[dict[str, str], str]] = [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"subscribePattern": "x"}, "only one of the options subscribe and subscribePattern"),
        ({"subscribe": "", "assign": f'{{"{topic}": [0, 7]}}'}, f"the partition {topic}-7 does not exist"),
        ({"startingOffsets": f'{{"{topic}": {{"0": 1}}}}'}, f"leaves out {topic}-1"),
        ({"endingOffsets": f'{{"{topic}": {{"0": 1, "1": 1, "2": 1}}}}'}, f"does not read: {topic}-2"),
        ({"endingOffsets": f'{{"{topic}": {{"0": 9, "1": -1}}}}'}, "ends at offset 5, before 9"),
        ({"startingOffsets": "latest"}, "nothing to read"),
    ]
    for options, sentence in wrong:
        with pytest.raises(Exception, match=sentence):
            read(**options).count()
    ending = f'{{"{topic}": {{"0": 9, "1": -1}}}}'
    assert read(endingOffsets=ending, failOnDataLoss="false").count() == 5
    with pytest.raises(Exception, match="columns of the format moldau are fixed"):
        spark.read.format("moldau").schema("a int").options(
            **{"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
        ).load().count()


def test_found_by_its_name(spark: SparkSession, broker: Broker, topic: str) -> None:
    """Where Moldau is installed the format is there; nothing need be registered."""
    broker.create_topic(topic)
    produce(broker, topic, range(3))
    fresh = spark.newSession()
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    assert values(fresh.read.format("moldau").options(**options).load()) == [0, 1, 2]
