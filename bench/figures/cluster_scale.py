"""The same client load against one broker and against two, without replicas: what a second process brings.

Small requests (100 connections in all) and records of 1 KiB by librdkafka to two partitions. The client takes
its share of the two cores in both cases, so brokers never have two cores to themselves: the CPU a request
says what more cores would bring.
"""

from __future__ import annotations

from typing import Any

from bench import apache_kafka, native, wire
from bench.clusters import create_topic, port_of, running
from bench.figures import Figure, Row, Subject, Values
from bench.load import closed_loop_over
from bench.proc import cpu_time

CONNECTIONS = 100
SECONDS = 6.0
RECORDS = 600_000
RECORD_BYTES = 1024
SMALL, LARGE = "small", "large"


def measure(kind: str) -> Values:
    """Requests and megabytes a second, and the CPU of all brokers for each."""
    values: dict[str, float] = {}
    settings = {"min.insync.replicas": "1", "default.replication.factor": "1"}
    for brokers in (1, 2):
        with running(kind, settings, brokers) as cluster:
            replicas = [(1,), (brokers,)]
            create_topic(cluster, SMALL, replicas)
            create_topic(cluster, LARGE, replicas)
            found = _small(cluster) | _large(cluster)
            values |= {f"{name}_{brokers}": value for name, value in found.items()}
    return values


def _small(cluster: Any) -> dict[str, float]:
    batch = wire.batch([bytes(100)])
    nodes = cluster.node_ids
    requests = {
        port_of(cluster, node): wire.produce_to(SMALL, number, batch) for number, node in enumerate(nodes)
    }
    connections = CONNECTIONS // len(nodes)
    native.run("produce", cluster.bootstrap_servers, SMALL, 10, 100, 0, 2)  # waits until both are led
    closed_loop_over(requests, SMALL, connections, SECONDS / 2)
    before = _cpu_s(cluster)
    done = closed_loop_over(requests, SMALL, connections, SECONDS)
    used_s = _cpu_s(cluster) - before
    return {
        "requests_per_s": done.requests / done.seconds,
        "request_cpu_us": used_s / done.requests * 1e6,
        "busy_cores": used_s / done.seconds,
    }


def _large(cluster: Any) -> dict[str, float]:
    servers = cluster.bootstrap_servers
    native.run("produce", servers, LARGE, RECORDS // 3, RECORD_BYTES, 50, 2)
    before = _cpu_s(cluster)
    done = native.run("produce", servers, LARGE, RECORDS, RECORD_BYTES, 50, 2)
    return {
        "mb_per_s": done["bytes"] / done["seconds"] / 1e6,
        "cpu_s_per_gb": (_cpu_s(cluster) - before) / done["bytes"] * 1e9,
    }


def _cpu_s(cluster: Any) -> float:
    return sum(cpu_time(cluster.pid(node)).total_s for node in cluster.node_ids)


FIGURE = Figure(
    "cluster-scale",
    "The same load against one broker and two, unreplicated",
    None,
    (
        Row("requests_per_s_1", "100-byte requests over 100 connections, one broker", "1/s", 0),
        Row("requests_per_s_2", "two brokers, 50 connections to each", "1/s", 0),
        Row("request_cpu_us_1", "CPU of the brokers a request, one broker", "µs", 1),
        Row("request_cpu_us_2", "two brokers", "µs", 1),
        Row("busy_cores_1", "cores that the brokers used, one broker", "", 2),
        Row("busy_cores_2", "two brokers", "", 2),
        Row("mb_per_s_1", "1 KiB records by librdkafka, one broker", "MB/s", 0),
        Row("mb_per_s_2", "two brokers", "MB/s", 0),
        Row("cpu_s_per_gb_1", "CPU of the brokers a GB, one broker", "s", 2),
        Row("cpu_s_per_gb_2", "two brokers", "s", 2),
    ),
    note="The client shares the two cores with the brokers, and alone takes about one.",
    subjects={
        "moldau": Subject("Moldau", lambda start: measure("moldau")),
        "kafka": Subject("Apache Kafka", lambda start: measure("kafka"), apache_kafka.version),
    },
)
