"""A broker comes back 1 GB behind: how fast it catches up, and what that costs other producers and consumers.

Meanwhile 1,000 records of 100 bytes a second go end to end through a partition (three replicas, acks=all)
that another broker leads. The rate is that between 5 % and 95 % of the bytes in the returned broker's log
files, so that the start of its process does not count.
"""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path
from typing import Any

from bench import apache_kafka, native
from bench.clusters import WAIT_S, create_topic, port_of, running
from bench.figures import Figure, Row, Subject, Values
from bench.figures.latency import raw_latencies
from bench.proc import cpu_time

RECORD_BYTES = 1024
RECORDS = 1_000_000
PARTITIONS = 6
BIG, SMALL = "big", "small"
QUIET_RECORDS = 6_000
SLICE_RECORDS = 500
ALL = -1


class Traffic:
    """The small records, in a thread; their latencies by half second."""

    def __init__(self, port: int) -> None:
        self.slices: list[tuple[float, list[float]]] = []  # when each ended
        self._port = port
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            found = raw_latencies(self._port, SLICE_RECORDS, SMALL, ALL)
            self.slices.append((time.monotonic(), found))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def during(self, began: float, ended: float) -> list[float]:
        """Seconds of all that ended in this time; of the first thereafter if it was too short."""
        found = [each for at, each in self.slices if began <= at <= ended]
        return [one for each in found or [self.slices[-1][1]] for one in each]


def measure(kind: str) -> Values:
    """Megabytes and CPU seconds, and milliseconds of the others' records with and without it."""
    with running(kind) as cluster:
        controller = cluster.controller()
        victim = next(node for node in cluster.node_ids if node != controller)
        first, second = (node for node in cluster.node_ids if node != victim)
        create_topic(cluster, BIG, [(first, second, victim), (second, first, victim)] * (PARTITIONS // 2))
        create_topic(cluster, SMALL, [(first, second, victim)])
        port = port_of(cluster, first)
        raw_latencies(port, QUIET_RECORDS // 2, SMALL, ALL)
        quiet = raw_latencies(port, QUIET_RECORDS, SMALL, ALL)
        cluster.stop(victim)
        servers = f"{cluster.address(first)},{cluster.address(second)}"
        native.run("produce", servers, BIG, RECORDS, RECORD_BYTES, 50, PARTITIONS)
        traffic = Traffic(port)
        try:
            values = _catch_up(cluster, victim, (first, second), traffic)
        finally:
            traffic.stop()
        return {**values, "quiet_p99_ms": _p99_ms(quiet), "quiet_p50_ms": statistics.median(quiet) * 1e3}


def _catch_up(cluster: Any, victim: int, leaders: tuple[int, int], traffic: Traffic) -> dict[str, float]:
    folder = Path(cluster.log_folder(victim))
    all_bytes = _big_bytes(Path(cluster.log_folder(leaders[0])))
    began = time.monotonic()
    # In a thread: a Kafka node has caught up before it counts as started.
    starting = threading.Thread(target=cluster.restart, args=(victim,))
    starting.start()
    start = _until(folder, all_bytes * 0.05)
    pids = [cluster.pid(node) for node in (victim, *leaders)]
    before = [cpu_time(pid).total_s for pid in pids]
    start_bytes, start = _big_bytes(folder), time.monotonic()
    end = _until(folder, all_bytes * 0.95)
    end_bytes = _big_bytes(folder)
    used = [cpu_time(pid).total_s - earlier for pid, earlier in zip(pids, before, strict=True)]
    starting.join()
    cluster.wait_until_in_sync()
    in_sync = time.monotonic()
    gigabytes = (end_bytes - start_bytes) / 1e9
    latencies = traffic.during(start, end + 0.5)
    return {
        "mb_per_s": gigabytes * 1e3 / (end - start),
        "follower_cpu_s_per_gb": used[0] / gigabytes,
        "leaders_cpu_s_per_gb": (used[1] + used[2]) / gigabytes,
        "in_sync_s": in_sync - began,
        "p50_ms": statistics.median(latencies) * 1e3,
        "p99_ms": _p99_ms(latencies),
    }


def _big_bytes(folder: Path) -> int:
    found = (folder / f"{BIG}-{index}" for index in range(PARTITIONS))
    return sum(file.stat().st_size for each in found for file in each.glob("*.log"))


def _until(folder: Path, size_bytes: float) -> float:
    deadline = time.monotonic() + WAIT_S
    while _big_bytes(folder) < size_bytes:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{folder} has {_big_bytes(folder)} of {size_bytes:.0f} bytes")
        time.sleep(0.02)
    return time.monotonic()


def _p99_ms(latencies_s: list[float]) -> float:
    return sorted(latencies_s)[int(len(latencies_s) * 0.99)] * 1e3


FIGURE = Figure(
    "cluster-catch-up",
    "A broker comes back 1 GB behind, beside 1,000 small records a second",
    None,
    (
        Row("mb_per_s", "catching up", "MB/s", 0),
        Row("follower_cpu_s_per_gb", "CPU of the broker that catches up, a GB", "s", 2),
        Row("leaders_cpu_s_per_gb", "CPU of the two others a GB, small records included", "s", 2),
        Row("in_sync_s", "from its start until all of its replicas are in sync", "s", 1),
        Row("quiet_p50_ms", "small records end to end before, median", "ms", 2),
        Row("p50_ms", "meanwhile", "ms", 2),
        Row("quiet_p99_ms", "small records before, 99 %", "ms", 2),
        Row("p99_ms", "meanwhile", "ms", 2),
    ),
    note="Six partitions of three replicas; the small records go with acks=all through a partition of three "
    "replicas. All brokers and the client share two cores.",
    subjects={
        "moldau": Subject("Moldau", lambda start: measure("moldau")),
        "kafka": Subject("Apache Kafka", lambda start: measure("kafka"), apache_kafka.version),
    },
)
