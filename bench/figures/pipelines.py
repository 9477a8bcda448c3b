"""Pipelines on Spark: the format "moldau" beside Spark's own connector, against one Moldau broker.

Records of 128 bytes (a key of 8, a value of 120) in two partitions, a local session with two threads, in a
driver process of its own (`spark_load.py`): topic to nowhere, topic to a count by window, topic to topic,
all of it with `Trigger.AvailableNow` after the same with fewer rows to warm up. Then a record every 40 ms:
how long it takes until its micro-batch has ended. CPU is that of Python, JVM and Python workers together.

The connector runs in a session with our defaults and once in one with Spark's own. It writes at least once,
and reads uncommitted records; ours reads committed ones, and writes both ways.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time

import crc32c

from bench import spark_kafka, wire
from bench.client import Connection, RequestFailed
from bench.figures import Figure, Row, Start, Subject, Values
from bench.spark_load import LoadPlan

KEY_BYTES, VALUE_BYTES = 8, 120
PARTITIONS = 2
BATCH_RECORDS = 4_000
ROWS = {"warm": 400_000, "many": 3_200_000, "some": 800_000}
FIRST_TIMESTAMP_MS = 1_700_000_000_000
TIMEOUT_S = 900.0


def _measured(format_name: str, *, shipped: bool) -> Subject:
    def measure(start: Start) -> Values:
        if spark_kafka.available() is not None:
            return {}
        with start() as broker:
            with Connection(broker.port) as connection:
                connection.create_topic("out", PARTITIONS)
                for topic, rows in ROWS.items():
                    connection.create_topic(topic, PARTITIONS)
                    _fill(connection, topic, rows)
            jars = tuple(map(str, spark_kafka.jars()))
            return _drive(LoadPlan(format_name, broker.address, shipped, jars, ROWS))

    return Subject(TITLES[format_name, shipped], measure, version if format_name == "kafka" else None)


def version() -> str:
    """The connector's."""
    return spark_kafka.version()


def _fill(connection: Connection, topic: str, rows: int) -> None:
    """Batches of the same records, a second of time each, in turn to the partitions."""
    batch = wire.batch([bytes(VALUE_BYTES)] * BATCH_RECORDS, keys=[bytes(KEY_BYTES)] * BATCH_RECORDS)
    for number in range(rows // BATCH_RECORDS):
        moment = struct.pack(">qq", *[FIRST_TIMESTAMP_MS + 1000 * number] * 2)
        rest = batch[21:27] + moment + batch[43:]
        timed = batch[:17] + struct.pack(">I", crc32c.crc32c(rest)) + rest
        answer = connection.call(wire.produce_to(topic, number % PARTITIONS, timed))
        (error,) = struct.unpack_from(">h", answer, wire.produce_error_at(topic))
        if error:
            raise RequestFailed(f"Produce: error {error}")


def _drive(plan: LoadPlan) -> Values:
    done = subprocess.Popen(
        [sys.executable, "-m", "bench.spark_load", plan.to_json()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
        start_new_session=True,
    )
    try:
        out, errors = done.communicate(timeout=TIMEOUT_S)
    except BaseException:
        done.kill()  # its JVM sees that its input has ended, and follows
        raise
    if done.returncode:
        raise RuntimeError(f"bench.spark_load ended with {done.returncode}: {errors[-4000:]}")
    time.sleep(1)
    values: Values = json.loads(out.splitlines()[-1])
    return values


TITLES = {
    ("moldau", True): 'format("moldau")',
    ("kafka", True): "Spark's connector",
    ("kafka", False): "the same, Spark's defaults",
}
FIGURE = Figure(
    "pipelines",
    "Pipelines on Spark",
    None,
    (
        Row("noop_rows_per_s", "topic to nowhere", "rows/s", 0, ">= 1 x"),
        Row("noop_cpu_s_per_m", "CPU a million rows", "s", 2),
        Row("windows_rows_per_s", "topic to window count", "rows/s", 0, ">= 1 x"),
        Row("windows_cpu_s_per_m", "CPU a million rows", "s", 2),
        Row("copy_at-least-once_rows_per_s", "topic to topic, at least once", "rows/s", 0, ">= 1 x"),
        Row("copy_at-least-once_cpu_s_per_m", "CPU a million rows", "s", 2),
        Row("copy_exactly-once_rows_per_s", "topic to topic, exactly once", "rows/s", 0),
        Row("copy_exactly-once_cpu_s_per_m", "CPU a million rows", "s", 2),
        Row("micro_batch_ms", "micro-batch of a trickle, topic to nowhere, median", "ms", 0, "<= 1 x"),
        Row("latency_p50_ms", "append to processed, median", "ms", 0),
        Row("latency_p99_ms", "append to processed, 99 %", "ms", 0),
        Row("copy_at-least-once_micro_batch_ms", "micro-batch, topic to topic, at least once", "ms", 0),
        Row("copy_exactly-once_micro_batch_ms", "micro-batch, topic to topic, exactly once", "ms", 0),
    ),
    subjects={
        "moldau": _measured("moldau", shipped=True),
        "connector": _measured("kafka", shipped=True),
        "connector-plain": _measured("kafka", shipped=False),
    },
)
