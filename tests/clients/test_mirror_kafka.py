"""A real Apache Kafka as the source: its segments and ours are the same bytes, and read the same.

Needs Apache Kafka from Maven Central (`bench/apache_kafka`), and therefore Java and Maven.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from mirror_world import Pair, make_topic, produce, read, stored

from bench import apache_kafka
from bench.brokers import ApacheKafka
from moldau.testing import Broker

reason = apache_kafka.available()
pytestmark = [
    pytest.mark.client,
    pytest.mark.skipif(reason is not None, reason=str(reason)),
    pytest.mark.timeout(400),
]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_kafkas_segments_come_byte_for_byte_and_its_transactions_end_at_a_failover(tmp_path: Path) -> None:
    kafka = ApacheKafka(tmp_path / "kafka", {"transaction.state.log.replication.factor": "1"}).start()
    try:
        with Broker(data=tmp_path / "target") as target:
            _mirror(Pair(kafka.address, target), Path(kafka.log_dir()), tmp_path / "target")
    finally:
        kafka.stop()


def _mirror(pair: Pair, there: Path, here: Path) -> None:
    make_topic(pair.source, "orders", 2, segment_bytes="1048576", retention_ms="-1")
    for number, codec in enumerate(CODECS):
        values = [f"{codec} {each} " * 20 for each in range(2000)]
        produce(pair.source, "orders", values, number % 2, **{"compression.type": codec, "linger.ms": 5})
    idempotent = {"enable.idempotence": True}
    produce(pair.source, "orders", ["idempotent"] * 10, 0, **idempotent)
    producer = Producer({"bootstrap.servers": pair.source, "transactional.id": "t"})
    producer.init_transactions(60)
    for outcome in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("orders", outcome.__name__.encode(), partition=partition)
        producer.flush(30)
        outcome(30)
    assert pair.create("orders") == {"orders": ""}
    pair.wait_state("orders", "mirroring")
    ends = [read(pair.source, "orders", partition)[-1][0] + 2 for partition in (0, 1)]
    pair.wait_level("orders", *ends)
    for partition in (0, 1):
        assert stored(here, "orders", partition) == stored(there, "orders", partition)
        committed = {"isolation.level": "read_committed"}
        ours = read(pair.target.bootstrap_servers, "orders", partition, **committed)
        assert ours == read(pair.source, "orders", partition, **committed)
        assert ours[-1][1] == "commit_transaction"
    producer.begin_transaction()
    producer.produce("orders", b"hangs", partition=0)
    producer.flush(30)
    pair.wait_level("orders", ends[0] + 1, ends[1])
    assert pair.act("failover") == {"orders": ""}
    pair.wait_state("orders", "failed-over")
    produce(pair.target.bootstrap_servers, "orders", ["here"])
    found = read(pair.target.bootstrap_servers, "orders", 0, **{"isolation.level": "read_committed"})
    assert [value for _, value in found[-2:]] == ["commit_transaction", "here"]
