"""A cluster of three at rest, and after 1,000 partitions of three replicas were made in one request.

A partition counts as made when every broker names its leader in Metadata.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from bench import apache_kafka
from bench.clusters import WAIT_S, brokers_cpu_s, running
from bench.figures import Figure, Row, Subject, Values
from bench.proc import resident_bytes

SETTLE_S = 5.0
IDLE_S = 10.0
PARTITIONS = 1_000
TOPIC = "many"


def measure(kind: str) -> Values:
    """Megabytes a broker (the mean of three), CPU milliseconds a second, seconds to make partitions."""
    with running(kind, many_files=True) as cluster:
        time.sleep(SETTLE_S)
        before = brokers_cpu_s(cluster)
        time.sleep(IDLE_S)
        idle_s = brokers_cpu_s(cluster) - before
        values = {
            "idle_mb": _broker_mb(cluster),
            "idle_cpu_ms_per_s": idle_s / IDLE_S * 1e3,
            "zookeeper_mb": sum(map(resident_bytes, cluster.other_pids())) / 1e6,
        }
        before, began = brokers_cpu_s(cluster), time.monotonic()
        topic = NewTopic(TOPIC, PARTITIONS, 3)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([topic], request_timeout=WAIT_S)[TOPIC].result(WAIT_S)
        values["answered_s"] = time.monotonic() - began
        for node in cluster.node_ids:
            wait_until_led(cluster.address(node), {TOPIC: PARTITIONS})
        values["led_s"] = time.monotonic() - began
        values["made_cpu_s"] = brokers_cpu_s(cluster) - before
        time.sleep(SETTLE_S)
        before = brokers_cpu_s(cluster)
        time.sleep(IDLE_S)
        values["many_cpu_ms_per_s"] = (brokers_cpu_s(cluster) - before) / IDLE_S * 1e3
        values["many_mb"] = _broker_mb(cluster)
        return values


def _broker_mb(cluster: Any) -> float:
    sizes = [resident_bytes(cluster.pid(node)) for node in cluster.node_ids]
    return sum(sizes) / len(sizes) / 1e6


def wait_until_led(address: str, partitions: dict[str, int], not_by: int = -1) -> tuple[float, float]:
    """Ask one broker until all partitions have leaders, none of them `not_by`; when (monotonic) the first
    answer showed one that has, and when all had.
    """
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0, "socket.timeout.ms": 10_000})
    deadline = time.monotonic() + WAIT_S
    first: float | None = None
    while time.monotonic() < deadline:
        found = admin.list_topics(timeout=WAIT_S).topics
        led = sum(
            each.leader >= 0 and each.leader != not_by
            for name in partitions
            if name in found
            for each in found[name].partitions.values()
        )
        now = time.monotonic()
        if led and first is None:
            first = now
        if led == sum(partitions.values()):
            return first or now, now
        time.sleep(0.05)
    raise TimeoutError(f"{led} of {sum(partitions.values())} partitions are led after {WAIT_S:.0f} s")


FIGURE = Figure(
    "cluster-memory",
    "Three brokers at rest, and 1,000 partitions of three replicas",
    None,
    (
        Row("idle_mb", "memory a broker", "MB", 0),
        Row("zookeeper_mb", "memory of ZooKeeper", "MB", 0),
        Row("idle_cpu_ms_per_s", "CPU of all while idle", "ms/s", 0),
        Row("led_s", "1,000 partitions made, until all brokers name their leaders", "s", 2),
        Row("made_cpu_s", "CPU of all for that", "s", 1),
        Row("many_mb", "memory a broker with them", "MB", 0),
        Row("many_cpu_ms_per_s", "CPU of all with them, idle", "ms/s", 0),
    ),
    note="One topic with 1,000 partitions; each broker has a replica of each. CPU includes ZooKeeper's.",
    subjects={
        "moldau": Subject("Moldau", lambda start: measure("moldau")),
        "kafka": Subject("Apache Kafka", lambda start: measure("kafka"), apache_kafka.version),
    },
)
