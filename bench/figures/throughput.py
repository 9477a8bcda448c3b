"""Records of 1 KiB: how many megabytes a second go in and out, and what a gigabyte costs the broker.

Measured twice. Once with librdkafka (`native/rdload.c`, linger 50 ms, one partition), as an application would
see it: client and broker share two cores. And once with ready-made batches of a mebibyte over a raw socket,
which costs the client next to nothing and shows what the broker itself can do. A megabyte is 10^6 bytes of
payload.
"""

from __future__ import annotations

from bench import native, wire
from bench.brokers import BrokerProcess
from bench.client import Connection
from bench.figures import Figure, Row, Start, Values
from bench.load import stream_batches, stream_fetches

RECORD_BYTES = 1024
RECORDS = 1_000_000
RAW_BYTES = 1 << 30
WARM_UP_RECORDS = 300_000


def measure(start: Start) -> Values:
    """Megabytes a second and CPU seconds a gigabyte, in and out, by librdkafka and by raw batches."""
    with start() as broker:
        values = dict(_by_librdkafka(broker)) if native.available() is None else {}
        return values | _by_raw_batches(broker)


def _by_librdkafka(broker: BrokerProcess) -> Values:
    native.run("produce", broker.address, "warm-up", WARM_UP_RECORDS, RECORD_BYTES, 50)
    native.run("consume", broker.address, "warm-up", WARM_UP_RECORDS)
    before = broker.cpu()
    produced = native.run("produce", broker.address, "librdkafka", RECORDS, RECORD_BYTES, 50)
    between = broker.cpu()
    consumed = native.run("consume", broker.address, "librdkafka", RECORDS)
    after = broker.cpu()
    gigabytes = RECORDS * RECORD_BYTES / 1e9
    return {
        "produce_mb_per_s": produced["bytes"] / produced["seconds"] / 1e6,
        "produce_cpu_s_per_gb": (between - before).total_s / gigabytes,
        "consume_mb_per_s": consumed["bytes"] / consumed["seconds"] / 1e6,
        "consume_cpu_s_per_gb": (after - between).total_s / gigabytes,
        "produce_client_cpu_s_per_gb": produced["client_cpu_s"] / gigabytes,
        "consume_client_cpu_s_per_gb": consumed["client_cpu_s"] / gigabytes,
    }


def _by_raw_batches(broker: BrokerProcess) -> Values:
    batch = wire.batch([bytes(RECORD_BYTES)] * 950)
    with Connection(broker.port) as connection:
        connection.create_topic("raw")
    stream_batches(broker.port, "raw", batch, RAW_BYTES // 8)
    before = broker.cpu()
    written = stream_batches(broker.port, "raw", batch, RAW_BYTES)
    between = broker.cpu()
    read = stream_fetches(broker.port, "raw", 0, RAW_BYTES)
    after = broker.cpu()
    return {
        "raw_produce_mb_per_s": written.payload_bytes / written.seconds / 1e6,
        "raw_produce_cpu_s_per_gb": (between - before).total_s / (written.payload_bytes / 1e9),
        "raw_consume_mb_per_s": read.payload_bytes / read.seconds / 1e6,
        "raw_consume_cpu_s_per_gb": (after - between).total_s / (read.payload_bytes / 1e9),
    }


FIGURE = Figure(
    "throughput",
    "Records of 1 KiB, one partition",
    measure,
    (
        Row("produce_mb_per_s", "produce by librdkafka, linger 50 ms", "MB/s", 0, ">= 300"),
        Row("produce_cpu_s_per_gb", "broker CPU a GB produced", "s", 2, "<= 2.0"),
        Row("consume_mb_per_s", "consume by librdkafka", "MB/s", 0, ">= 1000"),
        Row("consume_cpu_s_per_gb", "broker CPU a GB consumed", "s", 2, "<= 0.6"),
        Row("produce_client_cpu_s_per_gb", "the producer's own CPU a GB", "s", 2),
        Row("consume_client_cpu_s_per_gb", "the consumer's own CPU a GB", "s", 2),
        Row("raw_produce_mb_per_s", "produce of ready-made 1 MB batches", "MB/s", 0),
        Row("raw_produce_cpu_s_per_gb", "broker CPU a GB of them", "s", 2),
        Row("raw_consume_mb_per_s", "raw fetches of 1 MiB", "MB/s", 0),
        Row("raw_consume_cpu_s_per_gb", "broker CPU a GB of them", "s", 2),
    ),
)
