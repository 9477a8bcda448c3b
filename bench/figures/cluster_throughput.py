"""Records of 1 KiB to three replicas with acks=all: megabytes a second, and the CPU of all brokers together.

By librdkafka to one partition, whose leader has both followers to serve, and to six, of which each broker
leads two and follows four.
"""

from __future__ import annotations

from typing import Any

from bench import apache_kafka, native
from bench.clusters import brokers_cpu_s, create_topic, running
from bench.figures import Figure, Row, Subject, Values
from bench.proc import cpu_time

RECORD_BYTES = 1024
RECORDS = 500_000
WARM_UP_RECORDS = 150_000
LINGER_MS = 50
ONE = [(1, 2, 3)]
SIX = [(1, 2, 3), (2, 3, 1), (3, 1, 2)] * 2


def measure(kind: str) -> Values:
    """Megabytes a second and CPU seconds a gigabyte that was sent (each is written three times)."""
    with running(kind) as cluster:
        create_topic(cluster, "warm-up", SIX)
        _produce(cluster, "warm-up", WARM_UP_RECORDS, len(SIX))
        values = {}
        for name, replicas in (("one", ONE), ("six", SIX)):
            create_topic(cluster, name, replicas)
            before, leader_before = brokers_cpu_s(cluster), cpu_time(cluster.pid(1)).total_s
            done = _produce(cluster, name, RECORDS, len(replicas))
            gigabytes = done["bytes"] / 1e9
            values[f"{name}_mb_per_s"] = done["bytes"] / done["seconds"] / 1e6
            values[f"{name}_cpu_s_per_gb"] = (brokers_cpu_s(cluster) - before) / gigabytes
            values[f"{name}_broker_1_cpu_s_per_gb"] = (
                cpu_time(cluster.pid(1)).total_s - leader_before
            ) / gigabytes
            values[f"{name}_client_cpu_s_per_gb"] = done["client_cpu_s"] / gigabytes
        return values


def _produce(cluster: Any, topic: str, records: int, partitions: int) -> dict[str, Any]:
    return native.run(
        "produce", cluster.bootstrap_servers, topic, records, RECORD_BYTES, LINGER_MS, partitions
    )


FIGURE = Figure(
    "cluster-throughput",
    "Three replicas, acks=all, records of 1 KiB",
    None,
    (
        Row("one_mb_per_s", "one partition", "MB/s", 0),
        Row("one_cpu_s_per_gb", "CPU of all brokers a GB", "s", 2),
        Row("one_broker_1_cpu_s_per_gb", "of which the leader's", "s", 2),
        Row("six_mb_per_s", "six partitions, led by all three", "MB/s", 0),
        Row("six_cpu_s_per_gb", "CPU of all brokers a GB", "s", 2),
        Row("one_client_cpu_s_per_gb", "the producer's own CPU a GB, one partition", "s", 2),
    ),
    note="librdkafka, linger 50 ms. Producer, three brokers and ZooKeeper (its CPU is counted) share two "
    "cores. A GB is what was sent; three are written.",
    subjects={
        "moldau": Subject("Moldau", lambda start: measure("moldau")),
        "kafka": Subject("Apache Kafka", lambda start: measure("kafka"), apache_kafka.version),
    },
)
