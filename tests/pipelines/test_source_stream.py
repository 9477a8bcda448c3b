"""`spark.readStream.format("moldau")` against a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

PATIENCE_SECONDS = 300


def produce(broker: Broker, topic: str, values: Iterable[int], partition: int = 0) -> None:
    """Records with these values."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for value in values:
        producer.produce(topic, str(value).encode(), partition=partition)
    producer.flush()


def until(true: Callable[[], Any], query: StreamingQuery | None = None) -> Any:
    """Waits for the condition; fails at once if the query has failed."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = true()
        if found:
            return found
        if query is not None and query.exception() is not None:
            raise AssertionError(str(query.exception()))
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


class Stream:
    """Streaming queries of the test's topic; each micro-batch's values are noted by its number."""

    def __init__(self, spark: SparkSession, broker: Broker, topic: str, checkpoint: str) -> None:
        self.spark, self.broker, self.topic, self.checkpoint = spark, broker, topic, checkpoint
        self.batches: dict[int, list[int]] = {}

    def start(self, trigger: dict[str, Any] | None = None, **options: str) -> StreamingQuery:
        chosen = {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            **options,
        }
        chosen = {name: value for name, value in chosen.items() if value}
        writer = (
            self.spark.readStream.format("moldau")
            .options(**chosen)
            .load()
            .writeStream.option("checkpointLocation", self.checkpoint)
            .foreachBatch(self._note)
        )
        return (writer.trigger(**trigger) if trigger else writer).start()

    def run(self, **options: str) -> None:
        """Reads what is there now, and ends."""
        query = self.start({"availableNow": True}, **options)
        assert query.awaitTermination(PATIENCE_SECONDS)

    def _note(self, frame: Any, number: int) -> None:
        self.batches[number] = [int(row.value) for row in frame.select("value").collect()]

    @property
    def values(self) -> list[int]:
        return sorted(value for batch in list(self.batches.values()) for value in batch)

    def offsets(self) -> dict[str, dict[str, int]]:
        """The last offsets in the checkpoint."""
        found: dict[str, dict[str, int]] = json.loads(self.offset_logs()[-1].read_text().splitlines()[-1])
        return found

    def offset_logs(self) -> list[Path]:
        logs = [path for path in (Path(self.checkpoint) / "offsets").iterdir() if path.name.isdigit()]
        return sorted(logs, key=lambda path: int(path.name))

    def write_offsets_as_sparks_connector_does(self) -> None:
        """The same form, without blanks."""
        for path in self.offset_logs():
            *head, offsets = path.read_text().splitlines()
            path.write_text("\n".join([*head, json.dumps(json.loads(offsets), separators=(",", ":"))]))
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def stream(spark: SparkSession, broker: Broker, topic: str, checkpoint: str) -> Stream:
    return Stream(spark, broker, topic, checkpoint)


def test_goes_on_where_it_was(stream: Stream, broker: Broker, topic: str) -> None:
    broker.create_topic(topic, partitions=2)
    produce(broker, topic, range(10), 0)
    produce(broker, topic, range(10, 15), 1)
    stream.run(**{"kafka.group.id": f"group-of-{topic}"})
    assert stream.values == list(range(15))
    assert stream.offsets() == {topic: {"0": 10, "1": 5}}
    assert committed(broker, topic) == {0: 10, 1: 5}
    stream.write_offsets_as_sparks_connector_does()
    produce(broker, topic, range(15, 20), 1)
    stream.batches.clear()
    stream.run(startingOffsets="latest")
    assert stream.values == list(range(15, 20))
    stream.batches.clear()
    stream.run()
    assert stream.batches == {}


def test_a_running_query(stream: Stream, broker: Broker, topic: str) -> None:
    """Starts at the end by default, finds new partitions, shows its group's lag and its own progress."""
    broker.create_topic(topic)
    produce(broker, topic, [1])
    query = stream.start(startingOffsets="", groupId=f"group-of-{topic}")
    until(lambda: query.lastProgress is not None or committed(broker, topic) == {0: 1}, query)
    produce(broker, topic, [2, 3])
    until(lambda: stream.values == [2, 3], query)
    # Nothing more comes, and the group's offsets must still get there.
    until(lambda: committed(broker, topic) == {0: 3}, query)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(10)
    produce(broker, topic, [4], 1)
    until(lambda: stream.values == [2, 3, 4], query)
    until(lambda: committed(broker, topic) == {0: 3, 1: 1}, query)
    source = until(lambda: read_from_the_new_partition(query, topic), query)
    assert source["endOffset"] == source["latestOffset"] == {topic: {"0": 3, "1": 1}}
    query.stop()


def read_from_the_new_partition(query: StreamingQuery, topic: str) -> Any:
    """What the query told of its source after the micro-batch that read from partition 1."""
    sources = [json.loads(progress.json)["sources"][0] for progress in query.recentProgress]
    return next((one for one in sources if one["numInputRows"] and "1" in one["endOffset"][topic]), None)


def committed(broker: Broker, topic: str) -> dict[int, int]:
    from moldau.client.cluster import Cluster

    with Cluster(broker.bootstrap_servers) as cluster:
        found = cluster.committed_offsets(f"group-of-{topic}", [(topic, 0), (topic, 1)])
    return {partition: offset for (_, partition), offset in found.items()}


def test_topics_that_come_later(stream: Stream, broker: Broker, topic: str) -> None:
    query = stream.start(subscribe="", subscribePattern=f"{topic}-.*")
    broker.create_topic(f"{topic}-a")
    produce(broker, f"{topic}-a", [1, 2])
    until(lambda: stream.values == [1, 2], query)
    broker.create_topic(f"{topic}-b")
    produce(broker, f"{topic}-b", [3])
    until(lambda: stream.values == [1, 2, 3], query)
    query.stop()


def test_limits(stream: Stream, broker: Broker, topic: str) -> None:
    broker.create_topic(topic, partitions=2)
    produce(broker, topic, range(90), 0)
    produce(broker, topic, range(90, 100), 1)
    stream.run(maxOffsetsPerTrigger="40")
    assert stream.values == list(range(100))
    assert max(len(batch) for batch in stream.batches.values()) <= 40
    assert len(stream.batches) == 3
    assert {value >= 90 for value in stream.batches[0]} == {True, False}, "each partition has its share"


def test_how_far_it_is_behind(stream: Stream, broker: Broker, topic: str) -> None:
    from pyspark_moldau.behind_latest import offsets_behind_latest

    broker.create_topic(topic, 2)
    produce(broker, topic, range(10))
    produce(broker, topic, range(2), partition=1)
    query = stream.start({"availableNow": True}, maxOffsetsPerTrigger="6")
    assert query.awaitTermination(PATIENCE_SECONDS)
    done = [each for each in query.recentProgress if each.numInputRows]
    behind = [offsets_behind_latest(each.sources[0]) for each in done]
    assert behind[0] == {
        "minOffsetsBehindLatest": 1,
        "maxOffsetsBehindLatest": 5,
        "avgOffsetsBehindLatest": 3.0,
    }
    assert behind[-1]["maxOffsetsBehindLatest"] == 0


@pytest.mark.parametrize("trigger", [{"continuous": "1 second"}, {"realTime": "5 seconds"}])
def test_triggers_without_micro_batches_are_refused(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str, trigger: dict[str, str]
) -> None:
    """By Spark, for every source written in Python, as docs/spark-source.md says."""
    broker.create_topic(topic)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    frame = spark.readStream.format("moldau").options(**options).load()
    writer = frame.writeStream.format("noop").outputMode("update").option("checkpointLocation", checkpoint)
    with pytest.raises(Exception, match=r"continuous processing|STREAMING_REAL_TIME_MODE"):
        writer.trigger(**trigger).start().awaitTermination(PATIENCE_SECONDS)  # type: ignore[arg-type]


def test_waits_for_enough(stream: Stream, broker: Broker, topic: str) -> None:
    broker.create_topic(topic)
    produce(broker, topic, [0])
    query = stream.start(minOffsetsPerTrigger="3", maxTriggerDelay="1h")
    until(lambda: stream.values == [0], query)  # the first micro-batch does not wait
    produce(broker, topic, [1])
    produce(broker, topic, [2])
    produce(broker, topic, [3])
    until(lambda: stream.values == [0, 1, 2, 3], query)
    assert stream.batches == {0: [0], 1: [1, 2, 3]}
    query.stop()
    stream.run(minOffsetsPerTrigger="3")
    produce(broker, topic, [4])
    stream.run(minOffsetsPerTrigger="3")
    assert stream.values == [0, 1, 2, 3, 4], "what there is now is read although it is little"


def test_deleted_topic(stream: Stream, broker: Broker, topic: str, spark: SparkSession) -> None:
    broker.create_topic(topic)
    produce(broker, topic, [1])
    query = stream.start()
    until(lambda: stream.values == [1], query)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(10)
    until(lambda: query.exception() is not None)
    assert f"{topic}-0 was deleted, and with it what was not read yet" in str(query.exception())
    assert "failOnDataLoss=false lets the query go on" in str(query.exception())
    # The other choice: go on without it, and with it when it is there again.
    query = stream.start(failOnDataLoss="false")
    until(lambda: query.lastProgress is not None, query)
    broker.create_topic(topic)
    produce(broker, topic, [2, 3])
    until(lambda: stream.values == [1, 2, 3], query)
    query.stop()


def test_topic_made_again_while_it_is_read(stream: Stream, broker: Broker, topic: str) -> None:
    """The query that stops for it stops again when restarted, although no run knows the ids of another."""
    broker.create_topic(topic)
    produce(broker, topic, [1])
    query = stream.start({"processingTime": "1 second"})
    until(lambda: stream.values == [1], query)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(10)
    broker.create_topic(topic)
    produce(broker, topic, [2, 3, 4])
    until(lambda: query.exception() is not None)
    assert f"{topic}-0 was deleted and made again" in str(query.exception())
    with pytest.raises(Exception, match="ends at offset 0, before 1 where the query goes on"):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert stream.values == [1, 2, 3, 4]


def test_topic_made_again_while_nobody_read(stream: Stream, broker: Broker, topic: str) -> None:
    broker.create_topic(topic)
    produce(broker, topic, [1, 2, 3])
    stream.run()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(10)
    broker.create_topic(topic)
    produce(broker, topic, [4, 5])
    with pytest.raises(Exception, match="ends at offset 2, before 3 where the query goes on"):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert stream.values == [1, 2, 3, 4, 5]


def test_retention_was_faster(stream: Stream, broker: Broker, topic: str) -> None:
    from confluent_kafka import TopicPartition

    broker.create_topic(topic)
    produce(broker, topic, range(5))
    stream.run()
    produce(broker, topic, range(5, 20))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    next(iter(admin.delete_records([TopicPartition(topic, 0, 12)]).values())).result(10)
    query = stream.start({"availableNow": True})
    with pytest.raises(Exception, match=r"offset 5 of .* is not there: the partition holds offsets 12 to 19"):
        query.awaitTermination(PATIENCE_SECONDS)
    stream.run(failOnDataLoss="false")
    assert stream.values == [*range(5), *range(12, 20)]


def test_broker_away(spark: SparkSession, topic: str, checkpoint: str) -> None:
    with Broker(process=True) as broker:
        broker.create_topic(topic)
        stream = Stream(spark, broker, topic, checkpoint)
        produce(broker, topic, [1])
        query = stream.start()
        until(lambda: stream.values == [1], query)
        broker.kill()
        time.sleep(1)
        assert query.isActive
        broker.restart()
        produce(broker, topic, [2])
        until(lambda: stream.values == [1, 2], query)
        query.stop()


def test_compacted_topic(spark: SparkSession, topic: str, checkpoint: str) -> None:
    """Gaps in the offsets, and micro-batches that begin, end and lie in one."""
    with Broker(process=True, log_cleaner_backoff_ms=50) as broker:
        broker.create_topic(
            topic,
            cleanup_policy="compact",
            segment_ms=1,
            min_cleanable_dirty_ratio=0.01,
            max_compaction_lag_ms=1,
        )
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for value in range(60):
            producer.produce(
                topic, str(value).encode(), key=str(value % 10 if value < 50 else value).encode()
            )
            producer.flush()
        left = until(lambda: values_left(broker, topic, at_most=20))  # nothing more to clean
        stream = Stream(spark, broker, topic, checkpoint)
        stream.run(maxOffsetsPerTrigger="7")
        assert stream.values == left
        assert stream.offsets() == {topic: {"0": 60}}
        assert len(stream.batches) == 9


def values_left(broker: Broker, topic: str, at_most: int) -> list[int] | None:
    """What a plain read finds in the topic, once it is few enough."""
    from moldau.client.arrow import record_batches
    from moldau.client.cluster import Cluster

    with Cluster(broker.bootstrap_servers) as cluster:
        found = [
            int(value.as_py())
            for batch in record_batches(
                cluster, topic, 0, 0, 60, read_committed=True, include_headers=False, rows_max=1000
            )
            for value in batch.column("value")
        ]
    return found if len(found) <= at_most else None


def test_wrong_streams(stream: Stream, broker: Broker, topic: str) -> None:
    broker.create_topic(topic)
    wrong: list[tuple[dict[str, str], str]] = [
        ({"subscribe": f"{topic},no-such-topic"}, "the topic no-such-topic does not exist"),
        ({"endingOffsets": "latest"}, "endingOffsets has no meaning in a streaming query"),
        (
            {"startingOffsets": f'{{"{topic}": {{"0": 5}}}}'},
            "ends at offset 0, before 5 where the query goes on",
        ),
    ]
    for options, sentence in wrong:
        with pytest.raises(Exception, match=sentence):
            stream.start({"availableNow": True}, **options).awaitTermination(PATIENCE_SECONDS)
