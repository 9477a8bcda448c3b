"""Resident memory and CPU of an idle broker."""

from __future__ import annotations

import time

from bench.client import Connection
from bench.figures import Figure, Row, Start, Values

IDLE_S = 10.0


def measure(start: Start) -> Values:
    """Megabytes resident after start, after ten seconds, and CPU milliseconds a second of idling."""
    with start() as broker:
        with Connection(broker.port) as connection:
            connection.create_topic("idle")
        time.sleep(2)
        before = broker.cpu()
        time.sleep(IDLE_S)
        used = broker.cpu() - before
        return {
            "resident_mb": broker.resident_bytes() / 1e6,
            "idle_cpu_ms_per_s": used.total_s / IDLE_S * 1e3,
        }


FIGURE = Figure(
    "memory",
    "Idle broker with one topic",
    measure,
    (
        Row("resident_mb", "resident memory", "MB", 0, "<= 45"),
        Row("idle_cpu_ms_per_s", "CPU while idle", "ms/s", 1),
    ),
)
