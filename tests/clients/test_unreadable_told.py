"""A batch that no consumer can read, once a broker has met it: in health, metrics and doctor."""

from __future__ import annotations

import subprocess
import sys
import urllib.request

from confluent_kafka import Consumer, TopicPartition
from poisoned_batches import NOW_MS, batch_of
from raw_client import RawClient

from moldau.testing import Broker

PRODUCE, VERSION = 0, 9


def page(broker: Broker, name: str) -> str:
    with urllib.request.urlopen(f"http://{broker.http_address}/{name}", timeout=20) as answer:
        return str(answer.read().decode())


def test_a_search_by_time_meets_it_and_the_user_is_told_the_place() -> None:
    with Broker() as broker:
        broker.create_topic("orders", moldau_records_check=False)
        garbage = {"index": 0, "records": batch_of("zstd", b"garbage " * 9)}
        with RawClient(broker.bootstrap_servers) as client:
            client.call(
                PRODUCE,
                VERSION,
                transactional_id=None,
                acks=-1,
                timeout_ms=20_000,
                topic_data=[{"name": "orders", "partition_data": [garbage]}],
            )
        assert "moldau_unreadable_batches 0" in page(broker, "metrics")
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        try:
            consumer.offsets_for_times([TopicPartition("orders", 0, NOW_MS)], 20)
        finally:
            consumer.close()
        assert "no consumer can read: orders-0 at offset 0" in page(broker, "health")
        assert "moldau_unreadable_batches 1" in page(broker, "metrics")
        told = subprocess.run(
            [sys.executable, "-m", "moldau", "doctor", "-b", broker.bootstrap_servers, "--read-only"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert told.returncode == 0, told.stderr
        assert "orders-0 at offset 0" in told.stdout
