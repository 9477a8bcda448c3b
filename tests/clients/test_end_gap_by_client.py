"""The last records of a lone log are lost between a clean stop and the next start: the log goes on at its old
end offset, and every client that reads until there gets to the end, before anything is appended.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from client_confluent import ConfluentClient, create_topic
from client_model import Message
from conftest import KIND, make_client

from bench.brokers import BrokerProcess

pytestmark = pytest.mark.skipif(KIND != "moldau", reason="Kafka's log ends where its last record does")

RECORDS, LEFT, TIMEOUT_S = 30, 12, 60


@pytest.fixture(params=["cut", "gone"])
def damaged(request: pytest.FixtureRequest, private_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker whose topic `gap` has lost what came behind its first records."""
    broker = private_broker(offsets_topic_num_partitions="1")
    create_topic(broker.address, "gap")
    client = ConfluentClient(broker.address)
    for value in range(RECORDS):
        client.produce("gap", [Message(b"k", b"%d" % value)])
    broker.stop()
    (path,) = broker.log_dir().glob("**/gap-0/00000000000000000000.log")
    data, kept = path.read_bytes(), 0
    for _ in range(LEFT):
        kept += int.from_bytes(data[kept + 8 : kept + 12], "big") + 12
    os.truncate(path, kept + (20 if request.param == "cut" else 0))
    broker.start()
    return broker


def with_confluent(address: str, start: int) -> list[int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "any", "enable.partition.eof": True})
    consumer.assign([TopicPartition("gap", 0, start)])
    found: list[int] = []
    deadline = time.monotonic() + TIMEOUT_S
    while consumer.position([TopicPartition("gap", 0)])[0].offset != RECORDS:
        assert time.monotonic() < deadline, "stands still"
        message = consumer.poll(0.5)
        if message is not None and message.error() is not None:
            assert message.offset() == RECORDS  # the end of the partition
            break
        if message is not None:
            found.append(message.offset())
    consumer.close()
    return found


def with_kafka_python(address: str, start: int) -> list[int]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=address)
    place = TopicPartition("gap", 0)
    consumer.assign([place])
    consumer.seek(place, start)
    found: list[int] = []
    deadline = time.monotonic() + TIMEOUT_S
    while consumer.position(place) < RECORDS:
        assert time.monotonic() < deadline, "stands still"
        found += [each.offset for rows in consumer.poll(500).values() for each in rows]
    consumer.close()
    return found


def with_aiokafka(address: str, start: int) -> list[int]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> list[int]:
        consumer = AIOKafkaConsumer(bootstrap_servers=address)
        await consumer.start()
        place = TopicPartition("gap", 0)
        consumer.assign([place])
        consumer.seek(place, start)
        found: list[int] = []
        deadline = time.monotonic() + TIMEOUT_S
        while await consumer.position(place) < RECORDS:
            assert time.monotonic() < deadline, "stands still"
            answer = await consumer.getmany(timeout_ms=500)
            found += [each.offset for rows in answer.values() for each in rows]
        await consumer.stop()
        return found

    return asyncio.run(read())


def with_command(address: str, start: int) -> list[int]:
    """`moldau consume -e`, which reads until the end offset."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "moldau",
            "consume",
            "gap",
            "-b",
            address,
            "-o",
            str(start),
            "-e",
            "-f",
            "%o\n",
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


def with_arrow(address: str, start: int) -> list[int]:
    """What Spark's readers use."""
    from moldau.client.arrow import record_batches
    from moldau.client.cluster import Cluster

    with Cluster(address) as cluster:
        batches = record_batches(cluster, "gap", 0, start, RECORDS)
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


READERS = [with_confluent, with_kafka_python, with_aiokafka, with_command, with_arrow]


def with_java(damaged: BrokerProcess, folder: Path) -> list[int]:
    """The official client, from the beginning to a record behind the gap."""
    client = make_client("java", damaged.address, folder)
    try:
        return [each.offset for each in client.read({"gap": LEFT + 1})["gap"]]
    finally:
        client.close()


def test_every_reader_comes_to_the_end(damaged: BrokerProcess) -> None:
    for reader in READERS:
        assert reader(damaged.address, 0) == list(range(LEFT)), reader.__name__
        assert reader(damaged.address, LEFT + 5) == [], reader.__name__
    ConfluentClient(damaged.address).produce("gap", [Message(b"k", b"new")])
    found = ConfluentClient(damaged.address).read({"gap": LEFT + 1})["gap"]
    assert [each.offset for each in found] == [*range(LEFT), RECORDS]


def test_the_official_client_comes_past_it(damaged: BrokerProcess, tmp_path: Path) -> None:
    ConfluentClient(damaged.address).produce("gap", [Message(b"k", b"new")])
    assert with_java(damaged, tmp_path) == [*range(LEFT), RECORDS]
