"""Compaction as clients see it: a topic shrinks to the latest values, groups keep their offsets, also over a
restart and in `moldau status`.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from moldau.testing.broker import Broker
from moldau.tools.commands.status.compaction import compaction_lines

TIMEOUT_SECONDS = 60.0
LAG_MS = "200"
SETTINGS = {"log.cleaner.backoff.ms": "100", "offsets.topic.num.partitions": "1"}


def eventually(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not true():
        assert time.monotonic() < deadline, "this did not come true"
        time.sleep(0.1)


def health(broker: Broker) -> dict[str, object]:
    with urllib.request.urlopen(f"http://{broker.http_address}/health", timeout=60) as answer:
        return json.load(answer)


def metric(broker: Broker, name: str) -> float:
    with urllib.request.urlopen(f"http://{broker.http_address}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(name + " ")))


def read_all(broker: Broker, topic: str, end: int) -> dict[bytes, bytes]:
    """The latest value of each key, read from the beginning up to the record before `end`."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[bytes, bytes] = {}
    deadline, offset = time.monotonic() + TIMEOUT_SECONDS, -1
    while offset < end - 1 and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            offset = message.offset()
            found[message.key()] = message.value()
    consumer.close()
    return found


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_topic_shrinks_to_its_latest_values(tmp_path: Path, codec: str) -> None:
    with Broker(SETTINGS, data=tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        config = {"cleanup.policy": "compact", "max.compaction.lag.ms": LAG_MS}
        for future in admin.create_topics([NewTopic("accounts", 1, 1, config=config)]).values():
            future.result(TIMEOUT_SECONDS)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec})
        for number in range(20_000):
            producer.produce("accounts", b"%d" % number, b"key%d" % (number % 50))
            producer.poll(0)
        producer.flush(TIMEOUT_SECONDS)
        expected = {b"key%d" % (number % 50): b"%d" % number for number in range(19_950, 20_000)}
        directory = tmp_path / "accounts-0"

        def size() -> int:
            return sum(path.stat().st_size for path in directory.glob("*.log"))

        eventually(lambda: size() < 6_000)
        assert read_all(broker, "accounts", 20_000) == expected
        eventually((tmp_path / "cleaner-offset-checkpoint").exists)
        assert metric(broker, "moldau_compaction_cleans_total") >= 1
        assert metric(broker, "kafka_log_logcleanermanager_uncleanable_partitions_count") == 0
        lines = compaction_lines(health(broker)["compaction"])  # type: ignore[arg-type]
        assert any("last: " in line for line in lines)
        producer.produce("accounts", b"new", b"key0")
        producer.flush(TIMEOUT_SECONDS)
        assert read_all(broker, "accounts", 20_001) == {**expected, b"key0": b"new"}
        broker.restart()
        assert read_all(broker, "accounts", 20_001) == {**expected, b"key0": b"new"}


def test_committed_offsets_survive_the_compaction_of_their_topic(tmp_path: Path) -> None:
    with Broker(SETTINGS, data=tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("flights", 1, 1)])["flights"].result(TIMEOUT_SECONDS)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"})
        for offset in range(1, 500):
            consumer.commit(offsets=[TopicPartition("flights", 0, offset)], asynchronous=False)
        consumer.close()
        lag = ConfigEntry("max.compaction.lag.ms", LAG_MS, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("topic", "__consumer_offsets", incremental_configs=[lag])
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_SECONDS)
        directory = tmp_path / "__consumer_offsets-0"
        eventually(lambda: sum(path.stat().st_size for path in directory.glob("*.log")) < 5_000)

        def committed() -> int:
            asked = ConsumerGroupTopicPartitions("shop")
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            answer = admin.list_consumer_group_offsets([asked])["shop"].result(TIMEOUT_SECONDS)
            return answer.topic_partitions[0].offset

        assert committed() == 499
        broker.restart()
        assert committed() == 499
