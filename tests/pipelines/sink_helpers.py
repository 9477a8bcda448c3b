"""What tests of the sink share: topics, what a reader sees in them, rows as encoded batches."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.client.cluster import Cluster
from moldau.client.sealing import EncodedBatch
from pyspark_moldau.sink_options import SinkOptions, parse_sink_options
from pyspark_moldau.sink_rows import Topics, encoded_rows

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def create_topic(bootstrap: str, name: str, partitions: int) -> None:
    """Create it and wait until it is there."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(15)


def read_topic(bootstrap: str, name: str, partitions: int, isolation: str = "read_committed") -> list[Row]:
    """All records: partition, key, value, headers; by partition, each in its order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    rows: list[Row] = []
    consumer.assign([TopicPartition(name, index, 0) for index in range(partitions)])
    ended: set[int] = set()
    deadline = time.monotonic() + 20
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"read {len(rows)} records, and not to the end"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            ended.add(message.partition())
            continue
        headers = tuple((key, value) for key, value in message.headers() or ())
        rows.append((message.partition(), message.key(), message.value(), headers))
    consumer.close()
    return sorted(rows, key=lambda row: row[0])


def values(rows: Iterable[Row]) -> list[str]:
    """The values as text, sorted."""
    return sorted((row[2] or b"").decode() for row in rows)


def options(bootstrap: str, topic: str, **more: str) -> SinkOptions:
    """Options of an exactly-once write."""
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "delivery": "exactly-once", **more}
    return parse_sink_options(given, streaming=False)


def encoded(chosen: SinkOptions, texts: Iterable[str]) -> list[EncodedBatch]:
    """Records with these texts as keys and values."""
    column = pa.array([text.encode() for text in texts], pa.binary())
    rows = pa.record_batch([column, column], names=["key", "value"])
    with Cluster(chosen.bootstrap_servers) as cluster:
        return [
            batch for batches in encoded_rows(iter([rows]), chosen, Topics(cluster), 0) for batch in batches
        ]
