"""Sends records as fast as one process can, or at a given rate, and measures how long each takes.

The problem: a callback for each record costs Python more than sending it (1.7 against 0.85 us), and a sample
of callbacks would miss the failures among the others.

The idea: callbacks are made for failures only. Records are delivered in the order in which they are sent, so
the number still outstanding (`len(producer)`) tells how many are delivered; each chunk of records leaves a
mark (how many were sent by then, when), and a delivery is set against the mark that it reaches.

    sent       ──┬────┬────┬────┬──          marks: (sent so far, time)
    delivered  ──────┴────┴────┴────         at each poll: sent - outstanding

The mean is exact, whatever the order (Little's law); percentiles are exact for one partition, and for several
as far as their brokers answer alike. The time of a delivery is that of the poll that sees it.

Invariant: sent == delivered + failed at the end, or `run` does not return.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from moldau.tools.commands.perf.latencies import Latencies

if TYPE_CHECKING:
    from confluent_kafka import Producer

    from moldau.tools.commands.perf.payloads import Payloads

CHUNK_RECORDS = 200
OUTSTANDING_BYTES_MAX = 32 * 1024 * 1024
OUTSTANDING_RECORDS_MAX = 500_000
UNLIMITED = -1.0
MIB = 1024 * 1024
_WAIT_SECONDS = 0.05
_MS = 1000.0

DEFAULTS: Mapping[str, Any] = {
    "queue.buffering.max.kbytes": OUTSTANDING_BYTES_MAX // 1024,
    "queue.buffering.max.messages": OUTSTANDING_RECORDS_MAX,
    "enable.idempotence": True,
}
"""As Java's producer: idempotent, and 32 MiB of records that wait at most; latency would grow with more."""


@dataclass
class Load:
    """What to send. `records_per_second`: the rate, or UNLIMITED; `warmup`: how many no steady figure has."""

    topic: str
    records: int
    payloads: Payloads
    records_per_second: float = UNLIMITED
    warmup: int = 0
    transaction_ms: int | None = None


@dataclass
class Sent:
    """What was delivered in some time."""

    began: float
    latencies: Latencies = field(default_factory=Latencies)
    bytes: float = 0.0
    ended: float = 0.0

    @property
    def records(self) -> int:
        """How many were delivered."""
        return self.latencies.count

    @property
    def seconds(self) -> float:
        """How long it took; never 0."""
        return max(self.ended - self.began, 1e-9)

    @property
    def records_per_second(self) -> float:
        """Delivered records a second."""
        return self.records / self.seconds

    @property
    def mib_per_second(self) -> float:
        """Delivered values in MiB a second."""
        return self.bytes / MIB / self.seconds

    def add(self, latency_ms: float, count: int, size_bytes: float, now: float) -> None:
        """Count deliveries."""
        self.latencies.add(latency_ms, count)
        self.bytes += size_bytes
        self.ended = now


@dataclass
class Outcome:
    """The result: all records; those after the warm-up (None without one); failures and the first reason.

    What failed is in `total` and `steady` too: it was answered, and took that long.
    """

    total: Sent
    steady: Sent | None
    failed: int
    failure: str


class ProducerLoad:
    """One run. `report` is called with each window's deliveries every `window_seconds`."""

    def __init__(
        self,
        load: Load,
        settings: Mapping[str, Any],
        report: Callable[[Sent], None] = lambda window: None,
        window_seconds: float = 5.0,
        connect: Callable[[dict[str, Any]], Producer] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._load = load
        self._report = report
        self._window_seconds = window_seconds
        self._clock = clock
        self.failed = 0
        self.failure = ""
        whole = {
            **DEFAULTS,
            **settings,
            "delivery.report.only.error": True,
            "on_delivery": self._refused,
        }
        self.producer = (connect or _connect)(whole)
        self._sent = 0
        self._sent_bytes = 0
        self._delivered = 0
        self._marks: deque[tuple[int, float, float]] = deque()  # sent by then, when, mean size in bytes
        self._total = self._window = Sent(0.0)
        self._steady: Sent | None = None

    def run(self) -> Outcome:
        """Send everything and wait until all of it is delivered or has failed. Raises KafkaException."""
        load = self._load
        if load.transaction_ms is not None:
            self.producer.init_transactions()
        began = self._clock()
        self._total, self._window = Sent(began), Sent(began)
        transaction_began = -1.0
        while self._sent < load.records:
            if load.transaction_ms is not None and transaction_began < 0:
                self.producer.begin_transaction()
                transaction_began = self._clock()
            self._send(self._chunk(began))
            if transaction_began >= 0 and self._is_old(transaction_began):
                self._commit()
                transaction_began = -1.0
            self._settle(0.0)
        if transaction_began >= 0:
            self._commit()
        self.finish()
        return Outcome(self._total, self._steady, self.failed, self.failure)

    def finish(self) -> None:
        """Wait until nothing is outstanding."""
        while len(self.producer):
            self._settle(_WAIT_SECONDS)
        self._settle(0.0)

    def _is_old(self, transaction_began: float) -> bool:
        return (self._clock() - transaction_began) * _MS >= (self._load.transaction_ms or 0)

    def _commit(self) -> None:
        self.finish()
        self.producer.commit_transaction()

    def _chunk(self, began: float) -> int:
        """How many records to send now; waits for the rate's sake."""
        load = self._load
        left = load.records - self._sent
        if self._sent < load.warmup:
            left = load.warmup - self._sent  # a chunk's records are all of the warm-up, or none
        elif load.warmup and self._steady is None:
            self._steady = Sent(self._clock())
        if load.records_per_second <= 0:
            return min(CHUNK_RECORDS, left)
        at_once = max(1, min(CHUNK_RECORDS, int(load.records_per_second / 1000)))
        while (early := began + self._sent / load.records_per_second - self._clock()) > 0:
            self._settle(min(early, _WAIT_SECONDS))
        return min(at_once, left)

    def _send(self, count: int) -> None:
        """Queue `count` records; waits while the queue is full."""
        produce, topic = self.producer.produce, self._load.topic
        values = self._load.payloads(count)
        size_bytes = sum(map(len, values))
        now = self._clock()
        waiting = iter(values)
        accepted = 0
        while True:
            try:
                for value in waiting:
                    produce(topic, value)
                    accepted += 1
                break
            except BufferError:
                # What is queued of this chunk counts as sent, so that its delivery is set against its mark.
                self._mark(accepted, now, size_bytes / count)
                accepted = 0
                waiting = chain((value,), waiting)
                self._settle(_WAIT_SECONDS)
                now = self._clock()
        self._mark(accepted, now, size_bytes / count)

    def _mark(self, count: int, now: float, mean_bytes: float) -> None:
        if count:
            self._sent += count
            self._marks.append((self._sent, now, mean_bytes))

    def _settle(self, wait_seconds: float) -> None:
        """Serve the client for at most this time, and set what was delivered against the marks."""
        self.producer.poll(wait_seconds)
        now = self._clock()
        reached = self._sent - len(self.producer)
        marks = self._marks
        while self._delivered < reached:
            upto, began, mean_bytes = marks[0]
            count = min(upto, reached) - self._delivered
            if upto <= reached:
                marks.popleft()
            self._count((now - began) * _MS, count, count * mean_bytes, now, upto)
            self._delivered += count
        if now - self._window.began >= self._window_seconds:
            self._window.ended = now
            window, self._window = self._window, Sent(now)
            self._report(window)

    def _count(self, latency_ms: float, count: int, size_bytes: float, now: float, upto: int) -> None:
        self._total.add(latency_ms, count, size_bytes, now)
        self._window.add(latency_ms, count, size_bytes, now)
        if self._steady is not None and upto > self._load.warmup:
            self._steady.add(latency_ms, count, size_bytes, now)

    def _refused(self, error: Any, record: Any) -> None:
        if error is not None:
            self.failed += 1
            self.failure = self.failure or f"{error.str()} ({error.name()})"


def _connect(settings: dict[str, Any]) -> Producer:
    from confluent_kafka import Producer as ConfluentProducer

    return ConfluentProducer(settings)
