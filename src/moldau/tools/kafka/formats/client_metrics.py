"""--print-metrics: the counters of the client at the end, in the shape in which Kafka's tools print Java's.

They are librdkafka's own counters, so their names are other ones than Java's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

INTERVAL_MS = 250
_REFRESH_POLLS_MAX = 40


class ClientMetrics:
    """Keeps the newest statistics of a client that was made with `settings`."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._newest: dict[str, Any] = {}

    @property
    def settings(self) -> dict[str, Any]:
        """What to add to the client's settings."""
        return {"statistics.interval.ms": INTERVAL_MS, "stats_cb": self._keep}

    def _keep(self, text: str) -> None:
        self._newest = json.loads(text)

    def refresh(self, poll: Callable[[float], Any]) -> None:
        """Serve the client by `poll` until it has given its newest counters, or for some seconds."""
        self._newest = {}
        for _ in range(_REFRESH_POLLS_MAX):
            poll(INTERVAL_MS / 1000)
            if self._newest:
                break

    def print(self) -> None:
        """Print all counters."""
        client = self._newest.get("client_id", "")
        rows = [
            (f"{group}:{name}:{{client-id={client}{more}}}", value)
            for group, name, more, value in self._rows()
        ]
        width = max((len(name) for name, _ in rows), default=11)
        print(f"\n{'Metric Name':<{width}} Value")
        for name, value in sorted(rows):
            print(f"{name:<{width}} : {value:.3f}")

    def _rows(self) -> Iterator[tuple[str, str, str, float]]:
        for name, value in _numbers(self._newest):
            yield f"{self._group}-metrics", name, "", value
        for broker, counters in self._newest.get("brokers", {}).items():
            for name, value in _numbers(counters):
                yield f"{self._group}-node-metrics", name, f",node={broker}", value
        for topic, counters in self._newest.get("topics", {}).items():
            for name, value in _numbers(counters):
                yield f"{self._group}-topic-metrics", name, f",topic={topic}", value


def _numbers(counters: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in counters.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, float(value)
