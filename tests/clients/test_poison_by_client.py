"""Batches that no consumer could read: refused when they are produced, and what is taken can be read.

`MOLDAU_TEST_BROKER=kafka` compares the codes with Apache Kafka's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import KIND
from poisoned_batches import COUNT, Poison, poisons
from raw_client import RawClient

from moldau.client.arrow import record_batches
from moldau.client.cluster import Cluster
from moldau.client.errors import CorruptRecords
from moldau.kit.errors import KitError
from moldau.kit.group_reader import GroupReader

PRODUCE, VERSION = 0, 9
CASES = poisons()


def produce(client: RawClient, topic: str, batch: bytes) -> Any:
    """The partition's row of the answer."""
    asked = {"name": topic, "partition_data": [{"index": 0, "records": batch}]}
    answer = client.call(
        PRODUCE, VERSION, transactional_id=None, acks=-1, timeout_ms=20_000, topic_data=[asked]
    )
    return answer.responses[0].partition_responses[0]


def new_topic(bootstrap: str, **config: str) -> str:
    name = f"poison-{os.urandom(3).hex()}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(20)
    return name


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    return new_topic(bootstrap)


@pytest.mark.parametrize("poison", CASES, ids=[each.name for each in CASES])
def test_it_is_answered(bootstrap: str, topic: str, poison: Poison) -> None:
    with RawClient(bootstrap, timeout_s=60) as client:
        row = produce(client, topic, poison.batch)
    assert int(row.error_code) == (poison.ours if KIND == "moldau" else poison.kafka)


@pytest.mark.skipif(KIND != "moldau", reason="Kafka takes some that its own consumer cannot read")
def test_a_consumer_reads_whatever_was_taken(bootstrap: str) -> None:
    topic = new_topic(bootstrap)
    taken = 0
    with RawClient(bootstrap, timeout_s=60) as client:
        for poison in CASES:
            taken += not produce(client, topic, poison.batch).error_code
    assert taken > 5
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "check.crcs": True, "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found = []
        while len(found) < taken * COUNT:
            message = consumer.poll(30)
            assert message is not None, f"it stands still after {len(found)} of {taken * COUNT}"
            assert message.error() is None, message.error()
            found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()
    assert found == [(offset, b"k", b"v") for offset in range(taken * COUNT)]


@pytest.mark.skipif(KIND != "moldau", reason="asks Moldau's own consumers")
@pytest.mark.parametrize("name", ["zstd: garbage", "gzip: garbage", "snappy: garbage"])
def test_our_consumers_name_the_batch_that_a_log_holds_already_and_how_to_go_on(
    bootstrap: str, name: str
) -> None:
    """As an earlier version, a mirror or a disk leaves it. (librdkafka 2.16 reports these; on a gzip stream
    that is cut short it stands still without a word, and a cut lz4 frame ends its process.)
    """
    topic = new_topic(bootstrap, **{"moldau.records.check": "false"})
    good = next(each.batch for each in CASES if each.name == "none: sound")
    with RawClient(bootstrap) as client:
        for batch in (good, next(each.batch for each in CASES if each.name == name), good):
            assert not produce(client, topic, batch).error_code
    done = subprocess.run(
        [sys.executable, "-m", "moldau", "consume", topic, "-b", bootstrap, "-e"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == "v\n" * COUNT
    assert f"the batch at offset {COUNT} of {topic}-0" in done.stderr
    assert "reset-offsets" in done.stderr
    behind = subprocess.run(
        [sys.executable, "-m", "moldau", "consume", topic, "-b", bootstrap, "-e", "-o", str(2 * COUNT)],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert behind.stdout == done.stdout
    with pytest.raises(KitError, match=f"the batch at offset {COUNT} of {topic}-0"):
        read_as_the_kit_does(bootstrap, topic)
    with Cluster(bootstrap) as cluster:
        found = record_batches(cluster, topic, 0, 0, 3 * COUNT)
        with pytest.raises(CorruptRecords, match=f"-p 0 -o {2 * COUNT}"):
            list(found)


class Owner:
    """Takes what it gets."""

    def assigned(self, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int] | None:
        """From the beginning."""
        return dict.fromkeys(partitions, 0)

    def revoked(self, partitions: list[tuple[str, int]]) -> None:
        """Nothing to keep."""

    lost = revoked


def read_as_the_kit_does(bootstrap: str, topic: str) -> None:
    """Until the reader gives up; what lies before the poison comes first."""
    config = {"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False}
    reader = GroupReader([topic], config, Owner())
    found = 0
    try:
        while found <= COUNT:
            found += len(reader.read(100, 1.0))
    finally:
        reader.close()
        assert found == COUNT
