"""What docs/cluster.md tells people to do when more is lost than a cluster can lose, done as it says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from conftest import KIND

from moldau.testing import Cluster

pytestmark = [
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(KIND != "moldau", reason="starts a cluster of Moldau"),
]
PATIENCE_SECONDS = 120.0


def moldau(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    """A command as it is typed."""
    command = [sys.executable, "-m", "moldau", *words]
    environment = {**os.environ, "MOLDAU_BOOTSTRAP": cluster.bootstrap_servers}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def write(cluster: Cluster, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "acks": "all"})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def read(cluster: Cluster, topic: str, count: int) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "disasters", "log_level": 0}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[str] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(found) < count and time.monotonic() < deadline:
            found += [one.value().decode() for one in consumer.consume(100, 0.2) if one.error() is None]
        return found
    finally:
        consumer.close()


def eventually(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


def test_an_unclean_election_takes_what_another_replica_has(tmp_path: Path) -> None:
    with Cluster(2, {"default.replication.factor": "2", "min.insync.replicas": "1"}) as cluster:
        cluster.create_topic("orders")
        write(cluster, "orders", ["1", "2"])
        leader = cluster.leader_of("orders")
        other = next(node for node in cluster.node_ids if node != leader)
        cluster.stop(other)
        write(cluster, "orders", ["3"])  # the leader alone has it
        cluster.kill(leader)
        shutil.rmtree(cluster.log_folder(leader))  # gone for good
        cluster.restart(other)

        def told() -> bool:
            status = moldau(cluster, "status").stdout
            return "1 partitions without a leader: orders-0" in status and "gone" in status

        eventually(told, "the status to name the partition and the broker that is gone")
        done = moldau(cluster, "topics", "elect", "orders", "--partition", "0", "--type", "unclean", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        assert cluster.leader_of("orders") == other
        write(cluster, "orders", ["4"])
        assert read(cluster, "orders", 3) == ["1", "2", "4"]
        cluster.restart(leader)  # a new machine under its number
        cluster.wait_until_in_sync(PATIENCE_SECONDS)
        assert read(cluster, "orders", 3) == ["1", "2", "4"]


def test_all_of_zookeeper_is_restored_from_a_backup(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Cluster(3, data=data) as cluster:
        cluster.create_topic("orders")
        write(cluster, "orders", ["1"])
        shutil.copytree(data / "zookeeper-1", tmp_path / "backup")
        cluster.create_topic("later")
        write(cluster, "orders", ["2"])
        write(cluster, "later", ["lost sight of"])
        for node in cluster.node_ids:
            cluster.stop(node)
        cluster.ensemble.stop()
        shutil.rmtree(data / "zookeeper-1")
        shutil.copytree(tmp_path / "backup", data / "zookeeper-1")
        cluster.ensemble.start()
        for node in cluster.node_ids:
            cluster.restart(node)
        cluster.wait_until_in_sync(PATIENCE_SECONDS)
        assert read(cluster, "orders", 2) == ["1", "2"]
        assert "later" not in cluster.admin().list_topics(timeout=30).topics
        stray = [
            path for node in cluster.node_ids for path in cluster.log_folder(node).glob("later-0.*-stray")
        ]
        assert len(stray) == 3
        assert all(b"lost sight of" in (path / f"{0:020}.log").read_bytes() for path in stray)
        write(cluster, "orders", ["3"])
        assert read(cluster, "orders", 3) == ["1", "2", "3"]
