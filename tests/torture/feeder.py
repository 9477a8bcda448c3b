"""Who writes the numbers that a pipeline reads."""

from __future__ import annotations

import threading
from collections.abc import Callable

from confluent_kafka import Producer

from torture.load import QUICK_RECONNECT
from torture.pipeline import NUMBERS, OUTSTANDING_MAX, PARTITIONS


class Feeder:
    """Writes the numbers in order, never far ahead of what has come out; waits through every restart."""

    def __init__(self, address: str, numbers: list[int], done: Callable[[], int], ahead_max: int) -> None:
        self._address, self._numbers, self._done, self._ahead_max = address, numbers, done, ahead_max
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write no more."""
        self._stopped.set()
        self._thread.join(30)

    def _run(self) -> None:
        settings = {"enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 2, "log_level": 0}
        producer = Producer({**QUICK_RECONNECT, **settings, "bootstrap.servers": self._address})
        for count, number in enumerate(self._numbers):
            while not self._stopped.is_set() and (
                len(producer) >= OUTSTANDING_MAX or count > self._done() + self._ahead_max
            ):
                producer.poll(0.01)
            producer.produce(NUMBERS, b'{"n": %d}' % number, partition=number % PARTITIONS[NUMBERS])
            producer.poll(0)
        while not self._stopped.is_set() and len(producer):
            producer.flush(0.1)
