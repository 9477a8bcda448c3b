"""The thread that sends: one batch after the other, each until all of it is written or given up.

The producer is idempotent and librdkafka does not give up by itself, so a broker that is away neither doubles
nor reorders anything. What the broker refuses is tried again after a pause if somebody can mend it (a topic
that does not exist, a permission), in the old order and before the next batch. For the fault of one record
(too large, invalid) a broker refuses many: these are sent one by one, and the one at fault is dropped. After
a fatal error of the producer the whole batch is sent again.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.common.core.backoff import pauses
from moldau.kit.batched.buffer import Buffer, Drop
from moldau.kit.sending import Failure, Interrupted, Outgoing, send_all

log = logging.getLogger("moldau.kit.batched")

BACKOFF_SECONDS = (0.1, 10.0)


@dataclass
class Stats:
    """What became of the records since the first call in this process."""

    sent: int = 0
    batches: int = 0
    retried: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """By reason: full, refused (the broker's error is in the log), gave_up, exit."""


class Sender(threading.Thread):
    """Sends what is in `buffer` until `stop`."""

    def __init__(
        self,
        buffer: Buffer,
        config: Mapping[str, Any],
        stats: Stats,
        drop: Drop,
        *,
        size: int,
        seconds: float,
        retries: int | None,
    ) -> None:
        super().__init__(name="moldau-batched", daemon=True)
        self.buffer = buffer
        self._config = config
        self._stats = stats
        self._drop = drop
        self._size = size
        self._seconds = seconds
        self._retries = retries
        self._producer: Any = None
        self._stop_at_seconds = float("inf")
        self._stopping = threading.Event()

    def stop(self, seconds: float) -> None:
        """Send what is there, for at most so long."""
        self._stop_at_seconds = time.monotonic() + seconds
        self._stopping.set()
        self.buffer.closing()

    def _out_of_time(self) -> bool:
        return time.monotonic() >= self._stop_at_seconds

    def run(self) -> None:
        """Send batches until the buffer is closed and empty, or the time is over."""
        between = pauses(*BACKOFF_SECONDS, random.random)
        while True:
            try:
                batch = self.buffer.take(self._size, self._seconds)
                if batch:
                    self._send(batch)
                    self.buffer.done(len(batch))
                    self._stats.batches += 1
                elif self._stopping.is_set():
                    break
                between = pauses(*BACKOFF_SECONDS, random.random)
            except Interrupted:
                break
            except Exception as problem:  # a fatal error of the producer, or the disk's
                log.warning("a batch could not be sent and is tried again: %s", problem)
                self._stats.retried += 1
                self._producer = None
                self._pause(next(between))
            if self._out_of_time():
                break
        if self._producer is not None:
            self._producer.purge()
        self.buffer.close()

    def _send(self, batch: list[Outgoing]) -> None:
        """Send a batch until all of it is written or dropped. Raises Interrupted, KafkaException."""
        if self._producer is None:
            from confluent_kafka import Producer

            self._producer = Producer(dict(self._config))
        left, between, attempts = batch, pauses(*BACKOFF_SECONDS, random.random), 0
        while left := self._attempt(left, self._retries is not None and attempts >= self._retries):
            self._stats.retried += len(left)
            attempts += 1
            self._pause(next(between))

    def _attempt(self, records: list[Outgoing], gives_up: bool) -> list[Outgoing]:
        """Send records once; returns those that are to be sent again, in their order."""
        failures = send_all(self._producer, records, self._is_over)
        self._stats.sent += len(records) - len(failures)
        again: list[int] = []
        suspects: list[int] = []
        for failure in failures:
            if failure.own_fault and len(records) > 1:
                suspects.append(failure.at)
            elif failure.own_fault or gives_up:
                reason = "refused" if failure.own_fault else "gave_up"
                self._refused(records[failure.at], failure, reason)
            else:
                again.append(failure.at)
        if again:
            text = next(failure.text for failure in failures if failure.at == again[0])
            log.warning("%s: %d records are tried again: %s", records[0].topic, len(again), text)
        for number, at in enumerate(suspects):
            if self._attempt([records[at]], gives_up):
                again += suspects[number:]
                break
        return [records[at] for at in sorted(again)]

    def _is_over(self) -> bool:
        self.buffer.keep()
        return self._out_of_time()

    def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the end, and once told to end only shortly."""
        until = min(time.monotonic() + seconds, self._stop_at_seconds)
        while (left := until - time.monotonic()) > 0 and not self._stopping.wait(min(left, 1.0)):
            self.buffer.keep()
        if self._stopping.is_set():
            time.sleep(min(BACKOFF_SECONDS[0], max(0.0, self._stop_at_seconds - time.monotonic())))

    def _refused(self, record: Outgoing, failure: Failure, reason: str) -> None:
        log.error("%s: a record was dropped: %s (%s)", record.topic, failure.text, failure.name)
        self._drop(record, reason)
