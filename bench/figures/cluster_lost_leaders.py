"""10,000 partitions that one broker leads, and the broker is killed: how long until all have leaders again.

Their second replicas are on the two other brokers in turn, which are asked for Metadata until both name a
living leader for each. One partition in a hundred is then written to.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Producer

from bench import apache_kafka
from bench.clusters import create_topic, running
from bench.figures import Figure, Row, Subject, Values
from bench.figures.cluster_memory import wait_until_led
from bench.proc import cpu_time, resident_bytes

TOPICS = 10
PARTITIONS = 1_000
EVERY = 100
SETTLE_S = 5.0


def measure(kind: str) -> Values:
    """Seconds from the kill on, and CPU seconds."""
    with running(kind) as cluster:
        controller = cluster.controller()
        victim = next(node for node in cluster.node_ids if node != controller)
        others = [node for node in cluster.node_ids if node != victim]
        began = time.monotonic()
        replicas = [(victim, others[number % 2]) for number in range(PARTITIONS)]
        names = [f"many-{number}" for number in range(TOPICS)]
        for name in names:
            create_topic(cluster, name, replicas, min_insync_replicas="1")
        made_s = time.monotonic() - began
        time.sleep(SETTLE_S)
        resident = resident_bytes(cluster.pid(controller))
        before = {node: cpu_time(cluster.pid(node)).total_s for node in others}
        beside_before = _beside(cluster)
        killed = time.monotonic()
        cluster.kill(victim)
        wanted = dict.fromkeys(names, PARTITIONS)
        seen = [wait_until_led(cluster.address(node), wanted, not_by=victim) for node in others]
        first, last = min(each[0] for each in seen), max(each[1] for each in seen)
        used = {node: cpu_time(cluster.pid(node)).total_s - before[node] for node in others}
        beside_s = _beside(cluster) - beside_before
        _write(",".join(cluster.address(node) for node in others), names)
        return {
            "made_s": made_s,
            "led_s": last - killed,
            "noticed_s": first - killed,
            "controller_cpu_s": used[controller],
            "all_cpu_s": sum(used.values()) + beside_s,
            "written_s": time.monotonic() - killed,
            "controller_mb": resident / 1e6,
        }


def _beside(cluster: Any) -> float:
    return sum(cpu_time(pid).total_s for pid in cluster.other_pids())


def _write(servers: str, names: list[str]) -> None:
    """One record into one partition in a hundred; raises if one is not acknowledged within 30 s."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "delivery.timeout.ms": 30_000})
    for name in names:
        for partition in range(0, PARTITIONS, EVERY):
            producer.produce(
                name,
                b"x",
                partition=partition,
                on_delivery=lambda error, message: refused.append(error) if error else None,
            )
    if producer.flush(60) or refused:
        raise RuntimeError(f"{len(refused)} records were refused, the first with {refused[:1]}")


FIGURE = Figure(
    "cluster-lost-leaders",
    "10,000 partitions fail over: their leader is killed",
    None,
    (
        Row("made_s", "making them, two replicas each", "s", 1),
        Row("noticed_s", "from the kill to the first new leader", "s", 1),
        Row("led_s", "to the last, in the Metadata of both others", "s", 1),
        Row("controller_cpu_s", "CPU of the controller's process until then", "s", 1),
        Row("all_cpu_s", "CPU of all that lives until then", "s", 1),
        Row("controller_mb", "memory of the controller's process before", "MB", 0),
    ),
    note="The controller's process becomes the leader of half of them itself. Asking for Metadata of 10,000 "
    "partitions some times a second is part of the CPU.",
    subjects={
        "moldau": Subject("Moldau", lambda start: measure("moldau")),
        "kafka": Subject("Apache Kafka", lambda start: measure("kafka"), apache_kafka.version),
    },
)
