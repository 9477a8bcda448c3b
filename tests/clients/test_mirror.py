"""Mirror topics between two real brokers: equal bytes, offsets, states, and what a mirror refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)
from mirror_world import Pair, make_topic, produce, read, stored, wait_for

from moldau.testing import Broker

pytestmark = pytest.mark.client


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "source", tmp_path / "target"


@pytest.fixture
def pair(folders: tuple[Path, Path]) -> Iterator[Pair]:
    with Broker(data=folders[0]) as source, Broker(data=folders[1]) as target:
        yield Pair(source.bootstrap_servers, target)


def test_a_topic_is_mirrored_byte_for_byte_and_goes_on(pair: Pair, folders: tuple[Path, Path]) -> None:
    make_topic(pair.source, "orders", 2)
    produce(pair.source, "orders", [f"a{each}" for each in range(50)])
    produce(pair.source, "orders", ["z"] * 10, partition=1, **{"compression.type": "lz4"})
    assert pair.create("orders") == {"orders": ""}
    pair.wait_state("orders", "mirroring")
    pair.wait_level("orders", 50, 10)
    produce(pair.source, "orders", [f"b{each}" for each in range(50)])
    pair.wait_level("orders", 100, 10)
    here = read(pair.target.bootstrap_servers, "orders", count=100)
    assert here == read(pair.source, "orders", count=100)
    for partition in (0, 1):
        assert stored(folders[1], "orders", partition) == stored(folders[0], "orders", partition)


def test_a_mirror_is_read_only_until_it_is_failed_over(pair: Pair) -> None:
    make_topic(pair.source, "orders")
    produce(pair.source, "orders", ["1", "2", "3"])
    pair.create("orders")
    pair.wait_level("orders", 3)
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": pair.target.bootstrap_servers, "message.timeout.ms": 20000})
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(str(error)))
    producer.flush(30)
    assert "POLICY_VIOLATION" in errors[0]
    said = subprocess.run(
        [sys.executable, "-m", "moldau", "produce", "-b", pair.target.bootstrap_servers, "orders"],
        input="x\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert said.returncode == 1
    assert "mirrors a topic of another cluster" in said.stderr
    assert pair.act("failover") == {"orders": ""}
    pair.wait_state("orders", "failed-over")
    produce(pair.target.bootstrap_servers, "orders", ["4"])
    assert [value for _, value in read(pair.target.bootstrap_servers, "orders", count=4)] == [
        "1",
        "2",
        "3",
        "4",
    ]


def commit(servers: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(servers: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def test_committed_offsets_follow_are_clamped_and_end_with_the_failover(pair: Pair) -> None:
    here = pair.target.bootstrap_servers
    make_topic(pair.source, "orders")
    produce(pair.source, "orders", [str(each) for each in range(10)])
    commit(pair.source, "billing", "orders", 7)
    commit(pair.source, "console-consumer-1", "orders", 7)
    pair.create("orders", sync_group_offsets_interval_seconds="1")
    pair.wait_level("orders", 10)
    wait_for("it follows", lambda: committed(here, "billing", "orders") == 7)
    assert committed(here, "console-consumer-1", "orders") < 0
    pair.act("pause")
    produce(pair.source, "orders", ["10", "11"])
    commit(pair.source, "billing", "orders", 12)
    pair.act("resume")
    wait_for("it follows again", lambda: committed(here, "billing", "orders") == 12)
    (row,) = pair.link().groups
    assert (row.group, row.source_offset, row.offset, row.again) == ("billing", 12, 12, 0)
    pair.act("failover")
    pair.wait_state("orders", "failed-over")
    commit(here, "billing", "orders", 3)
    commit(pair.source, "billing", "orders", 11)
    wait_for("a round has passed", lambda: not pair.link().groups)
    assert committed(here, "billing", "orders") == 3


def test_settings_and_partitions_follow(pair: Pair) -> None:
    make_topic(pair.source, "orders", 1, retention_ms="86400000", min_insync_replicas="1")
    pair.create("orders", refresh_topics_interval_seconds="1")
    pair.wait_state("orders", "mirroring")
    here = AdminClient({"bootstrap.servers": pair.target.bootstrap_servers})
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders")

    def own() -> dict[str, str]:
        (found,) = here.describe_configs([resource]).values()
        return {name: each.value for name, each in found.result(30).items() if each.source == 1}

    assert own() == {"retention.ms": "86400000"}
    there = AdminClient({"bootstrap.servers": pair.source})
    change = ConfigResource(
        ConfigResource.Type.TOPIC,
        "orders",
        incremental_configs=[
            ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
            ConfigEntry("segment.ms", "600000", incremental_operation=AlterConfigOpType.SET),
        ],
    )
    for future in there.incremental_alter_configs([change]).values():
        future.result(30)
    there.create_partitions([NewPartitions("orders", 3)])["orders"].result(30)
    wait_for("settings follow", lambda: own() == {"segment.ms": "600000"})
    produce(pair.source, "orders", ["x"], partition=2)
    pair.wait_level("orders", 0, 0, 1)
    with pytest.raises(Exception, match="POLICY_VIOLATION"):
        here.create_partitions([NewPartitions("orders", 5)])["orders"].result(30)
    with pytest.raises(Exception, match="POLICY_VIOLATION"):
        here.delete_topics(["orders"])["orders"].result(30)
