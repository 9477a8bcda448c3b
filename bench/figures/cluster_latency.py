"""End to end at 1,000 records of 100 bytes a second with three replicas and acks=all.

A record reaches the consumer when both followers have fetched again after they appended it. Raw sockets talk
to the leader, as in `latency`.
"""

from __future__ import annotations

from bench import apache_kafka, native
from bench.clusters import brokers_cpu_s, create_topic, port_of, running
from bench.figures import Figure, Row, Subject, Values
from bench.figures.latency import RATE_PER_S, percentiles, raw_latencies

RECORDS = 8_000
REPLICAS = [(1, 2, 3)]
ALL = -1


def measure(kind: str) -> Values:
    """Percentiles in milliseconds, and the CPU of all brokers a record, in microseconds."""
    with running(kind) as cluster:
        for name in ("raw-up", "raw", "warm-up", "rdkafka"):
            create_topic(cluster, name, REPLICAS)
        port = port_of(cluster, 1)
        raw_latencies(port, RECORDS // 2, "raw-up", ALL)
        before = brokers_cpu_s(cluster)
        values = percentiles("raw", raw_latencies(port, RECORDS, "raw", ALL))
        values["raw_cpu_us"] = (brokers_cpu_s(cluster) - before) / RECORDS * 1e6
        servers = cluster.bootstrap_servers
        native.run("latency", servers, "warm-up", RECORDS // 2, 100, RATE_PER_S)
        found = native.run("latency", servers, "rdkafka", RECORDS, 100, RATE_PER_S)
        return values | {name: found[name] for name in ("p50_ms", "p99_ms", "p999_ms")}


FIGURE = Figure(
    "cluster-latency",
    "Three replicas, acks=all: end to end at 1,000 records a second",
    None,
    (
        Row("raw_p50_ms", "raw sockets, median", "ms", 2),
        Row("raw_p99_ms", "raw sockets, 99 %", "ms", 2),
        Row("raw_p999_ms", "raw sockets, 99.9 %", "ms", 2),
        Row("raw_cpu_us", "CPU of all brokers a record", "µs", 0),
        Row("p50_ms", "librdkafka, median", "ms", 2),
        Row("p99_ms", "librdkafka, 99 %", "ms", 2),
        Row("p999_ms", "librdkafka, 99.9 %", "ms", 2),
    ),
    subjects={
        "moldau": Subject("Moldau", lambda start: measure("moldau")),
        "kafka": Subject("Apache Kafka", lambda start: measure("kafka"), apache_kafka.version),
    },
)
