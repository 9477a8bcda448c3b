"""What tests of the kit's consuming half share: programs that can be killed, loops in threads, waiting."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from confluent_kafka import Producer

LIMIT_SECONDS = 60.0
PROGRAM = Path(__file__).with_name("kit_program.py")


def wait_until(condition: Callable[[], object], what: str, limit_seconds: float = LIMIT_SECONDS) -> None:
    """Wait until the condition holds; fails with its name."""
    deadline = time.monotonic() + limit_seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_seconds:.0f} s: {what}"
        time.sleep(0.02)


def write(bootstrap: str, topic: str, values: list[str], partitions: int = 1, key: bool = False) -> None:
    """Write values, spread over the partitions by turns."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True})
    for number, value in enumerate(values):
        producer.produce(topic, value, value if key else None, partition=number % partitions)
    assert producer.flush(LIMIT_SECONDS) == 0


class Program:
    """kit_program.py in a process of its own; what it did is a line each in `lines`."""

    def __init__(self, folder: Path, job: str, *arguments: str) -> None:
        self.path = folder / f"{job}.lines"
        self.errors = folder / f"{job}.err"
        self._command = [sys.executable, str(PROGRAM), job, str(self.path), *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Program:
        with self.errors.open("ab") as errors:
            self._process = subprocess.Popen(self._command, stderr=errors, stdout=errors)
        return self

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def wait_for(self, count: int) -> None:
        """Wait until so many lines are there; a program that has ended fails."""

        def there() -> bool:
            assert self._process is not None
            assert self._process.poll() is None or len(self.lines()) >= count, self.errors.read_text()
            return len(self.lines()) >= count

        wait_until(there, f"{count} lines of {self.path.name}: {self.errors.read_text()[-2000:]}")

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def terminate(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(LIMIT_SECONDS)
        self._process = None
        return code


class Stoppable(Protocol):
    """A loop."""

    def stop(self) -> None: ...


@contextlib.contextmanager
def running(loop: Stoppable, run: Callable[[], None]) -> Iterator[list[BaseException]]:
    """Run a loop in a thread for the length of the block; the list holds what it raised."""
    raised: list[BaseException] = []

    def target() -> None:
        try:
            run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    try:
        yield raised
    finally:
        loop.stop()
        thread.join(LIMIT_SECONDS)
        assert not thread.is_alive(), "the loop did not stop"


def note(path: Path, text: str) -> None:
    """Append a line with one write, so that kill -9 leaves no half of it."""
    with path.open("ab", buffering=0) as file:
        file.write(f"{text}\n".encode())


def is_root() -> bool:
    return os.geteuid() == 0
