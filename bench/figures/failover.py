"""How long a cluster of three takes no record when one broker dies, is stopped, or was the controller.

One idempotent producer (librdkafka's defaults, acks=all) writes 50 records a second to each of nine
partitions. The figure is the longest time between two acknowledgements in the worst partition, whoever led
it: partitions whose follower died stall too, until the dead replica has left their in-sync set.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench import apache_kafka
from bench.clusters import CLUSTERS
from bench.figures import Figure, Row, Subject, Values

TOPIC = "failover"
PARTITIONS = 9
RECORDS_A_SECOND = 50
QUIET_S = 3.0
BEFORE_S = 0.5
RECOVERED_WITHIN_S = 120.0


class Load:
    """A producer in a thread; keeps the times of all acknowledgements by partition."""

    def __init__(self, bootstrap: str) -> None:
        self.times: list[list[float]] = [[] for _ in range(PARTITIONS)]
        self.errors = 0
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            for partition in range(PARTITIONS):
                self._producer.produce(
                    TOPIC, value=bytes(100), partition=partition, on_delivery=self._noting(partition)
                )
            due += 1 / RECORDS_A_SECOND
            while True:
                self._producer.poll(max(0.0, due - time.monotonic()))
                if time.monotonic() >= due:
                    break

    def _noting(self, partition: int) -> Callable[[object, object], None]:
        def note(error: object, message: object) -> None:
            if error is None:
                self.times[partition].append(time.monotonic())
            else:
                self.errors += 1

        return note

    def longest_s(self, since: float) -> float:
        """The longest pause of any partition since then, one that lasts still included."""
        now = time.monotonic()
        worst = 0.0
        for times in self.times:
            found = [at for at in times if at >= since - BEFORE_S] + [now]
            worst = max(
                worst, max((after - before for before, after in pairwise(found)), default=now - since)
            )
        return worst

    def wait_for_all(self, since: float) -> None:
        """Wait until every partition has acknowledged something new, and then a little."""
        deadline = time.monotonic() + RECOVERED_WITHIN_S
        while any(not times or times[-1] < since for times in self.times):
            if time.monotonic() > deadline:
                raise TimeoutError("a partition takes no records any more")
            time.sleep(0.05)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.errors += self._producer.flush(60)


def measure(kind: str) -> Values:
    """Start a cluster; kill, stop, kill the controller, restart all; seconds for each."""
    folder = Path(tempfile.mkdtemp(prefix="moldau-failover-"))
    began = time.monotonic()
    try:
        with CLUSTERS[kind]({}, folder) as cluster:
            start_s = time.monotonic() - began
            cluster.create_topic(TOPIC, PARTITIONS)
            load = Load(cluster.bootstrap_servers)
            load.wait_for_all(time.monotonic())
            time.sleep(QUIET_S)
            values = {"start_s": start_s, **_events(cluster, load)}
            load.stop()
            return {**values, "errors": load.errors}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _events(cluster: Any, load: Load) -> dict[str, float]:
    controller = cluster.controller()
    plain = next(node for node in cluster.node_ids if node != controller)
    found = {"kill_leader_s": _pause(cluster, load, lambda: cluster.kill(plain))}
    _back(cluster, load, plain)
    found["stop_leader_s"] = _pause(cluster, load, lambda: cluster.stop(plain))
    _back(cluster, load, plain)
    found["kill_controller_s"] = _pause(cluster, load, lambda: cluster.kill(controller))
    _back(cluster, load, controller)

    def rolling() -> None:
        for node in cluster.node_ids:
            cluster.restart(node)
            cluster.wait_until_in_sync()

    found["rolling_s"] = _pause(cluster, load, rolling)
    return found


def _pause(cluster: Any, load: Load, event: Callable[[], None]) -> float:
    began = time.monotonic()
    event()
    load.wait_for_all(time.monotonic() + QUIET_S)
    return load.longest_s(began)


def _back(cluster: Any, load: Load, node: int) -> None:
    """Start a broker again and let everything come to rest; leaders go back to where they were."""
    cluster.restart(node)
    cluster.wait_until_in_sync()
    _prefer(cluster)
    load.wait_for_all(time.monotonic())
    time.sleep(QUIET_S)


def _prefer(cluster: Any) -> None:
    """Elect preferred leaders, so that every broker leads again; that none was needed is no failure."""
    from confluent_kafka import ElectionType

    cluster.admin().elect_leaders(ElectionType.PREFERRED, None).result(60)


FIGURE = Figure(
    "failover",
    "A broker lost: longest time without an acknowledged record, of the worst partition",
    None,
    (
        Row("kill_leader_s", "kill -9 of a leader", "s", 1, "<= 3"),
        Row("stop_leader_s", "SIGTERM of a leader", "s", 1),
        Row("kill_controller_s", "kill -9 of the controller", "s", 1, "<= 3"),
        Row("rolling_s", "all three restarted, one after the other", "s", 1),
        Row("errors", "records given up by the producer", "", 0, "0"),
        Row("start_s", "start of the cluster until all are registered", "s", 1),
    ),
    note="Three brokers on one machine, three replicas, two in sync, acks=all.",
    subjects={
        "moldau": Subject("Moldau", lambda start: measure("moldau")),
        "kafka": Subject("Apache Kafka", lambda start: measure("kafka"), apache_kafka.version),
    },
)
