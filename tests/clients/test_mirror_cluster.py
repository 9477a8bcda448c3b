"""A cluster as the target: leaders pull, followers replicate, and whoever leads next goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from client_agents import java_missing
from confluent_kafka import Producer
from mirror_world import Pair, make_topic, read, stored, wait_for

from moldau.testing import Broker, Cluster

pytestmark = [
    pytest.mark.client,
    pytest.mark.skipif(java_missing() is not None, reason=str(java_missing())),
    pytest.mark.timeout(400),
]


def test_a_leader_is_killed_and_all_replicas_end_as_the_source_is(tmp_path: Path) -> None:
    with (
        Broker(data=tmp_path / "source") as source,
        Cluster(3, data=tmp_path / "target") as target,
    ):
        pair = Pair(source.bootstrap_servers, target)
        make_topic(pair.source, "orders", 3)
        stopped = threading.Event()

        def load() -> None:
            producer = Producer({"bootstrap.servers": pair.source, "linger.ms": 1})
            number = 0
            while not stopped.is_set():
                producer.produce("orders", b"%d " % number * 20, partition=number % 3)
                number += 1
                if number % 300 == 0:
                    producer.flush(30)
                    stopped.wait(0.02)
            producer.flush(30)

        thread = threading.Thread(target=load)
        thread.start()
        try:
            pair.create("orders", replication_factor="3")
            pair.wait_state("orders", "mirroring")
            for partition in (0, 1):
                leader = target.leader_of("orders", partition)
                before = pair.topic("orders").partitions[partition].end_offset
                target.kill(leader)
                wait_for(
                    "another leader pulls",
                    lambda partition=partition, before=before: [
                        each
                        for each in pair.topic("orders").partitions
                        if each.index == partition and each.end_offset > before + 500
                    ],
                )
                target.restart(leader)
        finally:
            stopped.set()
            thread.join()
        ends = [len(read(pair.source, "orders", partition)) for partition in range(3)]
        pair.wait_level("orders", *ends)
        target.wait_until_in_sync()
        for partition in range(3):
            there = stored(tmp_path / "source", "orders", partition)
            folders = [path.parent for path in (tmp_path / "target").rglob(f"orders-{partition}")]
            assert len(folders) == 3
            for folder in folders:
                assert stored(folder, "orders", partition) == there
        assert pair.act("failover") == {"orders": ""}
        pair.wait_state("orders", "failed-over")
