"""The demo's producer: days of weather and departures at a steady rate, in a thread of its own.

The watermark follows what has been read, so the order of sending matters. Within a day there is no order over
the six partitions. But a day's records are all acknowledged before the next day's are sent, and its weather
before its departures. So a reader that has any record of a day has all earlier days in reach, and the weather
of a departure is in its topic before the departure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.tools.demo.flights import Day, Record
from moldau.tools.shared.errors import CommandError

DELIVERY_TIMEOUT_SECONDS = 60.0


class Feed:
    """Sends what `read` yields; `sent`, `total` and `day` are its progress."""

    def __init__(
        self,
        bootstrap_servers: str,
        read: Callable[[], list[Day]],
        last: Callable[[list[Day]], Record],
        rate: float,
        client: Mapping[str, str] | None = None,
    ) -> None:
        """`read` is called in the thread at once; `last` returns the record that closes the stream.

        `rate`: departures a second; 0 for no limit. `client`: settings of security.
        """
        self.total = 0
        self.weather_total = 0
        self.sent = 0
        self.day = ""
        self.size_bytes = 0
        self.seconds = 0.0
        self.done = False
        self.failure: BaseException | None = None
        self._read, self._last, self._rate = read, last, rate
        self._servers, self._client = bootstrap_servers, dict(client or {})
        self._go = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def prepare(self) -> None:
        """Start reading the tables; nothing is sent yet."""
        self._thread.start()

    def go(self) -> None:
        """Start sending."""
        self._go.set()

    def stop(self) -> None:
        """Stop sending."""
        self._stop.set()
        self._go.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            days = self._read()
            self.total = sum(len(day.departures) for day in days)
            self.weather_total = sum(len(day.weather) for day in days)
            self._go.wait()
            self._send(days)
        except BaseException as failure:
            self.failure = failure

    def _send(self, days: Sequence[Day]) -> None:
        producer = _Producer(self._servers, self._client)
        started_at = time.monotonic()
        for day in days:
            producer.send("weather", day.weather)
            producer.send("departures", day.departures)
            self.day = day.name
            self.sent += len(day.departures)
            self.size_bytes += sum(len(key or b"") + len(value) for key, value in day.departures)
            ahead = self.sent / self._rate - (time.monotonic() - started_at) if self._rate else 0.0
            if self._stop.wait(max(ahead, 0.0)):
                return
        producer.send("departures", [self._last(list(days))])
        self.seconds = time.monotonic() - started_at
        self.done = True


class _Producer:
    def __init__(self, bootstrap_servers: str, client: Mapping[str, str]) -> None:
        from confluent_kafka import Producer

        from moldau.tools.shared.connection import librdkafka_settings

        self._failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "partitioner": "murmur2_random",
                # Delivery reports are for failures only: with an empty queue, the rest was acknowledged.
                "delivery.report.only.error": True,
                "log_level": 3,
                **librdkafka_settings(dict(client)),
            }
        )

    def send(self, topic: str, records: Sequence[Record]) -> None:
        """Send records and wait for their acknowledgements. Raises CommandError if one fails."""
        for key, value in records:
            self._producer.produce(topic, value, key, on_delivery=self._refused)
        left = self._producer.flush(DELIVERY_TIMEOUT_SECONDS)
        if left or self._failed:
            reason = self._failed[0] if self._failed else f"not within {DELIVERY_TIMEOUT_SECONDS:.0f} s"
            raise CommandError(f"{left + len(self._failed):,} records were not acknowledged: {reason}")

    def _refused(self, error: Any, message: Any) -> None:
        self._failed.append(str(error.str()))
