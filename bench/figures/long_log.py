"""Does a long log cost more than a short one: produce and consume at 100 MB and at 20 GB.

Both are measured at the end of the log, where the page cache holds it; the disk's own speed is not the
question. The figure of interest is the ratio.
"""

from __future__ import annotations

import os
import statistics

from bench import wire
from bench.brokers import BrokerProcess
from bench.client import Connection
from bench.figures import Figure, Row, Start, Values
from bench.load import stream_batches, stream_fetches

SHORT_BYTES = 100_000_000
LONG_BYTES = int(os.environ.get("MOLDAU_BENCH_LONG_LOG_BYTES", "20000000000"))
SAMPLE_BYTES = 500_000_000
SAMPLES = 5
LONG = "long"
RECORDS_A_BATCH = 950


def measure(start: Start) -> Values:
    """CPU seconds a gigabyte and MB/s at both lengths, and the long log's cost relative to it.

    The long log is written first and then both are sampled in turn, because what the page cache holds
    (nothing yet, or 20 GB that must be pushed out for every new page) matters to the kernel more than any
    log's length.
    """
    batch = wire.batch([bytes(1024)] * RECORDS_A_BATCH)
    with start() as broker:
        with Connection(broker.port) as connection:
            connection.create_topic(LONG)
        stream_batches(broker.port, LONG, batch, LONG_BYTES)
        samples: dict[str, list[float]] = {}
        for number in range(SAMPLES):
            short = f"short-{number}"
            with Connection(broker.port) as connection:
                connection.create_topic(short)
            stream_batches(broker.port, short, batch, SHORT_BYTES)
            for name, topic in (("short", short), ("long", LONG)):
                for key, value in _sample(broker, topic, batch, name).items():
                    samples.setdefault(key, []).append(value)
        values = {key: statistics.median(found) for key, found in samples.items()}
        for kind in ("produce", "consume"):
            values[f"{kind}_ratio"] = (
                values[f"long_{kind}_cpu_s_per_gb"] / values[f"short_{kind}_cpu_s_per_gb"]
            )
        values["resident_mb"] = broker.resident_bytes() / 1e6
    return values


def _sample(broker: BrokerProcess, topic: str, batch: bytes, name: str) -> dict[str, float]:
    with Connection(broker.port) as connection:
        first = connection.end_offset(topic)
    before = broker.cpu()
    written = stream_batches(broker.port, topic, batch, SAMPLE_BYTES)
    between = broker.cpu()
    read = stream_fetches(broker.port, topic, first, written.payload_bytes)
    after = broker.cpu()
    gigabytes = written.payload_bytes / 1e9
    return {
        f"{name}_produce_mb_per_s": written.payload_bytes / written.seconds / 1e6,
        f"{name}_produce_cpu_s_per_gb": (between - before).total_s / gigabytes,
        f"{name}_produce_user_s_per_gb": (between - before).user_s / gigabytes,
        f"{name}_consume_mb_per_s": read.payload_bytes / read.seconds / 1e6,
        f"{name}_consume_cpu_s_per_gb": (after - between).total_s / gigabytes,
    }


FIGURE = Figure(
    "long-log",
    "A log of 20 GB against one of 100 MB, raw batches of 1 MB",
    measure,
    (
        Row("short_produce_cpu_s_per_gb", "produce at 100 MB: broker CPU a GB", "s", 2),
        Row("long_produce_cpu_s_per_gb", "produce at 20 GB: broker CPU a GB", "s", 2),
        Row("short_produce_user_s_per_gb", "of which outside the kernel, at 100 MB", "s", 2),
        Row("long_produce_user_s_per_gb", "of which outside the kernel, at 20 GB", "s", 2),
        Row("produce_ratio", "ratio", "", 2, "0.95-1.05"),
        Row("short_consume_cpu_s_per_gb", "consume at 100 MB: broker CPU a GB", "s", 2),
        Row("long_consume_cpu_s_per_gb", "consume at 20 GB: broker CPU a GB", "s", 2),
        Row("consume_ratio", "ratio", "", 2, "0.95-1.05"),
        Row("short_produce_mb_per_s", "produce at 100 MB", "MB/s", 0),
        Row("long_produce_mb_per_s", "produce at 20 GB", "MB/s", 0),
        Row("short_consume_mb_per_s", "consume at 100 MB", "MB/s", 0),
        Row("long_consume_mb_per_s", "consume at 20 GB", "MB/s", 0),
        Row("resident_mb", "resident memory afterwards", "MB", 0),
    ),
)
