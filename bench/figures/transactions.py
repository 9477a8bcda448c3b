"""Transactions: what a commit every 100 ms costs a full stream, and how long one commit takes.

The same librdkafka producer (`native/rdload.c`, records of 1 KiB, linger 50 ms, one partition) writes with
idempotence alone and in transactions, in turn against one broker, so that the share does not depend on
the moment. Single commits are transactions of one record each, one after the other. The broker's CPU is
given for both streams. What of the loss is the broker's own shows a producer on a raw socket that sends on as
soon as it may (`transactional_load.py`): its pause between the last answer of one transaction and the first
batch of the next is two answers long, and nothing of a client library is in it.
"""

from __future__ import annotations

import statistics

from bench import native, transactional_load
from bench.brokers import BrokerProcess
from bench.client import Connection
from bench.figures import Figure, Row, Start, Values

RECORD_BYTES = 1024
RECORDS = 600_000
WARM_UP_RECORDS = 200_000
LINGER_MS = 50
INTERVAL_MS = 100
SINGLE_COMMITS = 1_000
TURNS = 3
RAW_VALUES = [bytes(RECORD_BYTES)] * 950
RAW_BYTES = 300_000_000
RAW_TURNS = 5
WITHOUT, WITH = -1, INTERVAL_MS


def measure(start: Start) -> Values:
    """Megabytes a second with and without transactions, their share, and the latency of commits."""
    if native.available() is not None:
        return {}
    with start() as broker:
        with Connection(broker.port) as connection:
            for topic in ("warm-up", "stream", "single"):
                connection.create_topic(topic)
        for interval_ms in (WITHOUT, WITH):
            _stream(broker, "warm-up", WARM_UP_RECORDS, interval_ms)
        plain: list[Values] = []
        transactional: list[Values] = []
        for _ in range(TURNS):
            plain.append(_stream(broker, "stream", RECORDS, WITHOUT))
            transactional.append(_stream(broker, "stream", RECORDS, WITH))
        shares = [two["mb_per_s"] / one["mb_per_s"] for one, two in zip(plain, transactional, strict=True)]
        single = native.run("transact", broker.address, "single", SINGLE_COMMITS, 100, 0, 0)
        raw = _raw(broker)
        middle = {name: statistics.median(one[name] for one in transactional) for name in transactional[0]}
        return {
            "plain_mb_per_s": statistics.median(one["mb_per_s"] for one in plain),
            "mb_per_s": middle["mb_per_s"],
            "share": statistics.median(shares),
            "plain_cpu_s_per_gb": statistics.median(one["cpu_s_per_gb"] for one in plain),
            "cpu_s_per_gb": middle["cpu_s_per_gb"],
            "stream_commit_p50_ms": middle["commit_p50_ms"],
            "stream_commit_p99_ms": middle["commit_p99_ms"],
            "commit_p50_ms": single["commit_p50_ms"],
            "commit_p99_ms": single["commit_p99_ms"],
            "transactions_per_s": SINGLE_COMMITS / single["seconds"],
            **raw,
        }


def _raw(broker: BrokerProcess) -> Values:
    """The producer on a raw socket, with and without transactions in turn."""
    shares: list[float] = []
    rates: list[float] = []
    pauses_s: list[float] = []
    with Connection(broker.port) as connection:
        connection.create_topic("raw")
    for number in range(RAW_TURNS + 1):
        plain, transactional = (
            transactional_load.stream(
                broker.port, "raw", RAW_VALUES, RAW_BYTES, transactional_id=name, interval_s=INTERVAL_MS / 1e3
            )
            for name in (None, "raw")
        )
        if number:  # the first warms up
            shares.append(plain.seconds / transactional.seconds)
            rates.append(transactional.payload_bytes / transactional.seconds / 1e6)
            pauses_s += transactional.pauses_s
    return {
        "raw_mb_per_s": statistics.median(rates),
        "raw_share": statistics.median(shares),
        "raw_pause_p50_ms": statistics.median(pauses_s) * 1e3 if pauses_s else 0.0,
    }


def _stream(broker: BrokerProcess, topic: str, records: int, interval_ms: int) -> Values:
    before = broker.cpu()
    run = native.run("transact", broker.address, topic, records, RECORD_BYTES, LINGER_MS, interval_ms)
    cpu_s = (broker.cpu() - before).total_s
    return {
        "mb_per_s": run["bytes"] / run["seconds"] / 1e6,
        "cpu_s_per_gb": cpu_s / (run["bytes"] / 1e9),
        "commit_p50_ms": run["commit_p50_ms"],
        "commit_p99_ms": run["commit_p99_ms"],
    }


FIGURE = Figure(
    "transactions",
    "Transactions",
    measure,
    (
        Row("plain_mb_per_s", "idempotent producer, 1 KiB, no transactions", "MB/s", 0),
        Row("mb_per_s", "the same with a commit every 100 ms", "MB/s", 0),
        Row("share", "share of the throughput that is left", "", 2, ">= 0.90"),
        Row("plain_cpu_s_per_gb", "broker CPU a GB without transactions", "s", 2),
        Row("cpu_s_per_gb", "broker CPU a GB with them", "s", 2),
        Row("stream_commit_p50_ms", "commit under full load (flush included), median", "ms", 1),
        Row("stream_commit_p99_ms", "commit under full load, 99 %", "ms", 1),
        Row("commit_p50_ms", "commit of one record, median", "ms", 2),
        Row("commit_p99_ms", "commit of one record, 99 %", "ms", 2),
        Row("transactions_per_s", "transactions of one record, one after the other", "1/s", 0),
        Row("raw_mb_per_s", "raw socket, 1 MB batches, a commit every 100 ms", "MB/s", 0),
        Row("raw_share", "share of its throughput without transactions", "", 2),
        Row("raw_pause_p50_ms", "its pause for a commit and the next transaction, median", "ms", 2),
    ),
)
