"""Restart of a table of a million keys (16 bytes, values 100, three partitions) with and without snapshot.

Measured from the start until the content is there; `moldau.kit.table` is imported before. With a snapshot,
10,000 records have been written since it was taken.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figures import Figure, Row, Start, Subject, Values
from bench.figures.kit_consume import create_topic

KEYS, NEW, VALUE_BYTES, PARTITIONS = 1_000_000, 10_000, 100, 3
TOPIC = "content"


def _write(address: str, first: int, count: int) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 50, "queue.buffering.max.messages": 200_000}
    )
    value = bytes(VALUE_BYTES)
    for number in range(first, first + count):
        while True:
            try:
                producer.produce(TOPIC, value, b"%016d" % number)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError("the topic was not filled within 120 s")


def _measured(title: str, with_snapshot: bool) -> Subject:
    def measure(start: Start) -> Values:
        from moldau.kit.table import BYTES, Table

        values: dict[str, float] = {}
        with start() as broker, tempfile.TemporaryDirectory() as folder:
            create_topic(broker.address, TOPIC, PARTITIONS, {"cleanup.policy": "compact"})
            _write(broker.address, 0, KEYS)
            path = Path(folder) / "content.snapshot" if with_snapshot else None

            def table() -> Any:
                return Table(
                    TOPIC, bootstrap_servers=broker.address, keys=BYTES, values=BYTES, snapshot=path,
                    snapshot_seconds=3600,
                )  # fmt: skip

            if path is not None:
                with table():
                    began = time.monotonic()
                values["close_s"] = time.monotonic() - began
                values["snapshot_mb"] = path.stat().st_size / 1e6
                _write(broker.address, KEYS, NEW)
            began, cpu = time.monotonic(), time.process_time()
            again = table().start()
            values["start_s"] = time.monotonic() - began
            values["start_cpu_s"] = time.process_time() - cpu
            if len(again) != KEYS + (NEW if with_snapshot else 0):
                raise RuntimeError(f"{len(again)} keys: {again.started_from}")
            again.close()
        return values

    return Subject(title, measure)


FIGURE = Figure(
    "kit-table",
    "moldau.kit: restart of a table of a million keys",
    None,
    (
        Row("start_s", "start until the content is there", "s", 2),
        Row("start_cpu_s", "CPU of the process", "s", 2),
        Row("close_s", "close, with writing the snapshot", "s", 2),
        Row("snapshot_mb", "snapshot", "MB", 0),
    ),
    subjects={
        "topic": _measured("from the topic", with_snapshot=False),
        "snapshot": _measured("from the snapshot and 10,000 records", with_snapshot=True),
    },
)
