"""Scenario: the first moments of a new broker, which is killed while it takes its first records, and again.

Every record that it acknowledged is there, in place, and once.

Rounds are short, so that thousands of them can be run: what goes wrong only in the first moments (a folder
that is not there yet, a first fsync, an address that another broker has) needs many beginnings.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from torture.judge_acknowledged import judge_acknowledged
from torture.load import QUICK_RECONNECT
from torture.reading import read_committed
from torture.rounds import Round

TOPIC = "first"
PROGRESS_WITHIN_S = 60.0
RECORDS_A_SECOND = 2000


def run(torture: Round, kills: int) -> str:
    """So many kills, each after some more acknowledgements (none to a hundred) and some milliseconds."""
    victim = torture.victim({})
    victim.start()
    torture.create_topics({TOPIC: 1})
    writer = _Writer(torture.address)
    try:
        for _ in range(kills):
            writer.wait_for(torture.draw.choice((0, 1, 10, 100)))
            time.sleep(torture.draw.random() * 0.005)
            victim.kill()
            if torture.draw.random() < 0.25:
                victim.kill_while_starting(torture.draw.random())
            victim.start()
        writer.wait_for(1)
    finally:
        acknowledged = writer.stop()
    last = max(acknowledged.values())
    seen = read_committed(torture.address, {TOPIC: 1}, {(TOPIC, 0): last + 1})
    torture.complain(judge_acknowledged(acknowledged, seen))
    torture.verdict()
    return f"{len(acknowledged)} acknowledged records; {victim.deaths} broker deaths"


class _Writer:
    """Writes numbered records until stopped, and notes the offset of each acknowledgement."""

    def __init__(self, address: str) -> None:
        config: dict[str, Any] = {
            **QUICK_RECONNECT,
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 1,
            "message.timeout.ms": 0,
        }
        self._acknowledged: dict[int, int] = {}
        self._producer = Producer(config)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            self._producer.produce(TOPIC, value=b"%d" % number, on_delivery=self._noting(number))
            self._producer.poll(0)
            time.sleep(1 / RECORDS_A_SECOND)
            number += 1

    def _noting(self, number: int) -> Callable[[object, Any], None]:
        def note(error: object, message: Any) -> None:
            if error is None:
                self._acknowledged[number] = message.offset()

        return note

    def wait_for(self, more: int) -> None:
        """Wait until so many more records were acknowledged."""
        wanted = len(self._acknowledged) + more
        deadline = time.monotonic() + PROGRESS_WITHIN_S
        while len(self._acknowledged) < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{len(self._acknowledged)} acknowledged records, and no more for a minute"
                )
            time.sleep(0.002)

    def stop(self) -> dict[int, int]:
        """Send what is queued; every acknowledgement that came."""
        self._stopping.set()
        self._thread.join()
        self._producer.flush(PROGRESS_WITHIN_S)
        return self._acknowledged
