"""Compaction: how fast a log is cleaned, what requests feel of it meanwhile, what ten million keys cost.

A topic is filled with updates of 100 bytes, five for every key, and then allowed to be compacted. Cleaning
ends when the cleaner's checkpoint has reached the last segment, and began when it was allowed, a tenth of a
second more or less (the cleaner's pause). Meanwhile another topic gets 1,000 records a second over raw
sockets, as in the latency figure, and before that the same without compaction. For the memory a second topic
gets ten million different keys; what counts is how far the resident memory of the broker and its child
processes rises.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import crc32c
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench import wire
from bench.brokers import BrokerProcess
from bench.client import Connection
from bench.figures import Figure, Row, Start, Values
from bench.figures.latency import raw_latencies
from bench.proc import resident_bytes_with_children

UPDATES = 4_000_000
UPDATES_A_KEY = 5
VALUE_BYTES = 88
MANY_KEYS = 10_000_000
LATENCY_RECORDS = 8_000
BATCH_RECORDS = 8_000
TIMEOUT_S = 600.0
NOT_YET = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(10**12), "segment.bytes": str(64 << 20)}
NOW = {"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0.01"}
SETTINGS = {"log.cleaner.backoff.ms": "100"}


def measure(start: Start) -> Values:
    """Megabytes a second, latencies without and with compaction, and megabytes of memory."""
    broker = start()
    broker.settings.update(SETTINGS)
    with broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        _fill(broker, admin, "updates", _updates(), VALUE_BYTES)
        with Connection(broker.port) as connection:
            connection.create_topic("latency")
        raw_latencies(broker.port, LATENCY_RECORDS // 2)
        quiet = sorted(raw_latencies(broker.port, LATENCY_RECORDS))
        size_bytes, took_s, busy = _compact(broker, admin, "updates", with_load=True)
        _fill(broker, admin, "keys", iter(range(MANY_KEYS)), 0)
        before = resident_bytes_with_children(broker.pid)
        watch = _Watch(broker)
        keys_bytes, keys_s, _ = _compact(broker, admin, "keys", with_load=False)
        peak = watch.end()
    at = {name: int(len(quiet) * share) for name, share in (("p50", 0.5), ("p99", 0.99))}
    loud = sorted(busy)
    at_loud = {name: int(len(loud) * share) for name, share in (("p50", 0.5), ("p99", 0.99))}
    return {
        "mb_per_s": size_bytes / took_s / 1e6,
        "quiet_p50_ms": quiet[at["p50"]] * 1e3,
        "quiet_p99_ms": quiet[at["p99"]] * 1e3,
        "busy_p50_ms": loud[at_loud["p50"]] * 1e3,
        "busy_p99_ms": loud[at_loud["p99"]] * 1e3,
        "p99_ratio": loud[at_loud["p99"]] / quiet[at["p99"]],
        "keys_s": keys_s,
        "keys_mb_per_s": keys_bytes / keys_s / 1e6,
        "keys_memory_mb": (peak - before) / 1e6,
    }


def _updates() -> Iterator[int]:
    rng = random.Random(4)
    return (rng.randrange(UPDATES // UPDATES_A_KEY) for _ in range(UPDATES))


def _fill(
    broker: BrokerProcess, admin: AdminClient, topic: str, keys: Iterator[int], value_bytes: int
) -> None:
    """Write one record for each key, and small ones until the last segment with those is closed."""
    admin.create_topics([NewTopic(topic, 1, config=NOT_YET)])[topic].result(30)
    with Connection(broker.port) as connection:
        while connection.end_offset(topic) < 0:
            time.sleep(0.02)
        value = b"v" * value_bytes
        chunk: list[int] = []
        for key in keys:
            chunk.append(key)
            if len(chunk) == BATCH_RECORDS:
                connection.produce(topic, _batch(chunk, value))
                chunk = []
        if chunk:
            connection.produce(topic, _batch(chunk, value))
        _alter(admin, topic, {"segment.bytes": str(1 << 20)})
        for _ in range(4):
            connection.produce(topic, _batch([0, 0], bytes(300_000)))


def _batch(keys: list[int], value: bytes) -> bytes:
    """A batch with keys of eight bytes."""
    now_ms = int(time.time() * 1000)
    after = wire.varint(len(value)) + value + b"\0"
    heads = _heads(len(keys), len(after))
    records = b"".join(head + key.to_bytes(8, "big") + after for head, key in zip(heads, keys, strict=True))
    count = len(keys)
    rest = struct.pack(">hiqqqhii", 0, count - 1, now_ms, now_ms, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 0, len(rest) + 9, -1, 2, crc32c.crc32c(rest)) + rest


@lru_cache(maxsize=8)
def _heads(count: int, after_bytes: int) -> list[bytes]:
    """What stands before the key of each record."""
    heads = []
    for number in range(count):
        head = b"\0\0" + wire.varint(number) + wire.varint(8)
        heads.append(wire.varint(len(head) + 8 + after_bytes) + head)
    return heads


def _alter(admin: AdminClient, topic: str, configs: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(30)


def _compact(
    broker: BrokerProcess, admin: AdminClient, topic: str, *, with_load: bool
) -> tuple[int, float, list[float]]:
    """Let the topic be compacted: bytes of log before, seconds that took, latencies meanwhile."""
    folder = broker.log_dir() / f"{topic}-0"
    size_bytes = sum(path.stat().st_size for path in folder.glob("*.log"))
    end_offset = max(int(path.stem) for path in folder.glob("*.log"))
    latencies: list[float] = []
    began = time.monotonic()
    _alter(admin, topic, NOW)
    deadline = began + TIMEOUT_S
    ended = threading.Event()
    finished_at: list[float] = []

    def watch() -> None:
        while not _is_clean(broker.log_dir(), topic, end_offset):
            time.sleep(0.02)
        finished_at.append(time.monotonic())
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    while with_load and not ended.is_set():
        latencies += raw_latencies(broker.port, 1_000)
    if not ended.wait(max(0.0, deadline - time.monotonic())):
        raise TimeoutError(f"{topic} is not clean after {TIMEOUT_S:.0f} s")
    return size_bytes, finished_at[0] - began, latencies


def _is_clean(log_dir: Path, topic: str, end_offset: int) -> bool:
    try:
        lines = (log_dir / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
    except FileNotFoundError:
        return False
    return any(line.split()[0] == topic and int(line.split()[2]) >= end_offset for line in lines)


class _Watch:
    """The largest resident memory of a broker and its children, looked at fifty times a second."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            self._peak = max(self._peak, resident_bytes_with_children(self._broker.pid))

    def end(self) -> int:
        self._stop.set()
        self._thread.join()
        return self._peak


FIGURE = Figure(
    "compaction",
    "Compaction",
    measure,
    (
        Row("mb_per_s", "updates of 100 bytes, five a key: log cleaned", "MB/s", 1),
        Row("quiet_p50_ms", "end to end at 1,000/s without compaction, median", "ms", 2),
        Row("quiet_p99_ms", "the same, 99 %", "ms", 2),
        Row("busy_p50_ms", "while the log is cleaned, median", "ms", 2),
        Row("busy_p99_ms", "the same, 99 %", "ms", 2),
        Row("p99_ratio", "99 % with compaction over without", "", 2, "<= 2"),
        Row("keys_s", "ten million different keys: seconds of cleaning", "s", 1),
        Row("keys_memory_mb", "memory that takes at most, over what it was", "MB", 0),
    ),
)
