"""A Spark driver that runs the pipelines of one measurement and prints what they took, as one line of JSON.

    python -m bench.spark_load '{"format": "moldau", "address": ..., "shipped": true, ...}'

It is a process of its own, the leader of a session of the system: its CPU time is that of Python, of the
JVM and of all Python workers together. Rows a second are counted while micro-batches run (Spark's
triggerExecution), CPU from the start of a query to its end.
"""

from __future__ import annotations

import datetime
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import wire
from bench.client import Connection

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
THREADS = 2
TRICKLE_S, TRICKLE_WARM_UP_S, TRICKLE_PAUSE_S = 20.0, 8.0, 0.04
WINDOW = "10 seconds"


@dataclass(frozen=True)
class LoadPlan:
    """The arguments of a driver's command line."""

    format: str
    address: str
    shipped: bool
    jars: tuple[str, ...]
    rows: Mapping[str, int]
    """Topics with records, and how many: warm, many, some."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    """Run everything once to warm up, then once to measure."""
    plan = LoadPlan(**json.loads(sys.argv[1]))
    with tempfile.TemporaryDirectory(prefix="moldau-bench-spark-") as folder:
        load = _Load(plan, Path(folder))
        warm, many, some = (name for name in plan.rows)
        load.noop(warm)
        load.windows(warm)
        deliveries = ("exactly-once", "at-least-once") if plan.format == "moldau" else ("at-least-once",)
        for delivery in deliveries:
            load.copy(warm, delivery)
        values: dict[str, float] = {}
        values |= _named("noop", load.noop(many))
        values |= _named("windows", load.windows(many))
        for delivery in deliveries:
            values |= _named(f"copy_{delivery}", load.copy(some, delivery))
        values |= load.trickle(TRICKLE_WARM_UP_S, "noop") and load.trickle(TRICKLE_S, "noop")
        for delivery in deliveries:
            found = load.trickle(TRICKLE_S / 2, delivery)
            values |= {f"copy_{delivery}_{name}": value for name, value in found.items()}
        print(json.dumps(values))
        load.session.stop()


def _named(name: str, measured: tuple[float, float]) -> dict[str, float]:
    return {f"{name}_rows_per_s": measured[0], f"{name}_cpu_s_per_m": measured[1]}


class _Load:
    def __init__(self, plan: LoadPlan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.session = _session(plan)
        self._number = 0

    def noop(self, topic: str) -> tuple[float, float]:
        """Every row is decoded and thrown away: rows a second, and CPU seconds a million rows."""
        return self._run(topic, lambda rows: rows.writeStream.format("noop"))

    def windows(self, topic: str) -> tuple[float, float]:
        """Count by window of the records' time."""
        from pyspark.sql.functions import window

        return self._run(
            topic,
            lambda rows: (
                rows.groupBy(window("timestamp", WINDOW))
                .count()
                .writeStream.format("noop")
                .outputMode("update")
            ),
        )

    def copy(self, topic: str, delivery: str) -> tuple[float, float]:
        """Keys and values to another topic."""
        return self._run(topic, lambda rows: self._to_topic(rows, delivery))

    def _to_topic(self, rows: Any, delivery: str) -> Any:
        writer = rows.select("key", "value").writeStream.format(self.plan.format)
        if self.plan.format == "moldau":
            writer = writer.option("delivery", delivery)
        return writer.option("kafka.bootstrap.servers", self.plan.address).option("topic", "out")

    def _run(self, topic: str, writer: Callable[[Any], Any]) -> tuple[float, float]:
        cpu_before = session_cpu_s()
        query = self._start(writer(self._read(topic)).trigger(availableNow=True))
        query.awaitTermination()
        cpu_s = session_cpu_s() - cpu_before
        progress = _progress(query)
        rows = sum(one["numInputRows"] for one in progress)
        if rows != self.plan.rows[topic]:
            raise RuntimeError(f"{rows} rows came out of {topic}, which has {self.plan.rows[topic]}")
        took_s = sum(one["durationMs"]["triggerExecution"] for one in progress) / 1e3
        return rows / took_s, cpu_s / (rows / 1e6)

    def trickle(self, seconds: float, to: str) -> dict[str, float]:
        """A record every 40 ms: from its acknowledgement to the end of its micro-batch."""
        topic = f"trickle-{self._number}"
        port = int(self.plan.address.rpartition(":")[2])
        with Connection(port) as connection:
            connection.create_topic(topic)
        rows = self._read(topic)
        query = self._start(rows.writeStream.format("noop") if to == "noop" else self._to_topic(rows, to))
        appended: list[float] = []
        ended = threading.Event()

        def append() -> None:
            with Connection(port) as connection:
                while not ended.wait(TRICKLE_PAUSE_S):
                    connection.produce(topic, wire.batch([bytes(128)]))
                    appended.append(time.time())

        thread = threading.Thread(target=append)
        thread.start()
        time.sleep(seconds)
        ended.set()
        thread.join()
        query.processAllAvailable()
        query.stop()
        return _latencies(_progress(query), appended, topic)

    def _read(self, topic: str) -> Any:
        options = {
            "kafka.bootstrap.servers": self.plan.address,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        return self.session.readStream.format(self.plan.format).options(**options).load()

    def _start(self, writer: Any) -> Any:
        self._number += 1
        return writer.option("checkpointLocation", str(self.folder / f"query-{self._number}")).start()


def _latencies(progress: list[dict[str, Any]], appended: list[float], topic: str) -> dict[str, float]:
    """Milliseconds from append to the end of the micro-batch, and of micro-batches with rows."""
    latencies, durations = [], []
    offset = 0
    for one in progress:
        if not one["numInputRows"]:
            continue
        took_ms = one["durationMs"]["triggerExecution"]
        began = datetime.datetime.fromisoformat(one["timestamp"]).timestamp()
        end = int(one["sources"][0]["endOffset"][topic]["0"])
        # The first ones begin before the query has warmed up.
        latencies += [1e3 * (began - moment) + took_ms for moment in appended[offset:end]]
        durations.append(took_ms)
        offset = end
    latencies, durations = sorted(latencies[len(latencies) // 4 :]), durations[len(durations) // 4 :]
    return {
        "latency_p50_ms": statistics.median(latencies),
        "latency_p99_ms": latencies[int(len(latencies) * 0.99)],
        "micro_batch_ms": statistics.median(durations),
    }


def _progress(query: Any) -> list[dict[str, Any]]:
    return [json.loads(one.json) for one in query.recentProgress]


def _session(plan: LoadPlan) -> Any:
    settings = {
        "spark.jars": ",".join(plan.jars),
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.ui.enabled": "false",
    }
    if plan.shipped:
        from moldau.streams.session import spark_session

        return spark_session("bench", master=f"local[{THREADS}]", settings=settings)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("bench").master(f"local[{THREADS}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def session_cpu_s() -> float:
    """CPU seconds of all processes of this process's session, those that have ended included."""
    session, ticks = os.getsid(0), 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += sum(int(one) for one in fields[11:15])  # user, system; the same of children that ended
    return ticks / TICKS_PER_SECOND


if __name__ == "__main__":
    main()
