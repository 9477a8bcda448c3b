"""Keeps the members of groups alive whose sinks take long over a call: polls for them, with all paused.

A member that does not poll for `max.poll.interval.ms` loses its partitions. A sink may stand still for an
hour in a driver's call; so after a quarter of that time the keeper, one thread for all tasks of a worker,
polls in its place every few seconds. A rebalance that comes then cannot wait for the sink: the partitions
go, and the task, once its call is over, starts anew with what is committed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

log = logging.getLogger("moldau.connect")

_EVERY_SECONDS = 3.0
ResultT = TypeVar("ResultT")


class SlowCall:
    """One task's call of its sink, if there is one."""

    def __init__(self, poll: Callable[[], None], after_seconds: float) -> None:
        self._poll = poll
        self._after = after_seconds
        self._lock = threading.Lock()
        self._began: float | None = None
        self.was_kept = False

    def run(self, operation: Callable[[], ResultT]) -> ResultT:
        """Call; `was_kept` says then whether the keeper polled meanwhile."""
        with self._lock:
            self._began = time.monotonic()
        try:
            return operation()
        finally:
            with self._lock:
                self._began = None

    def keep(self) -> None:
        """From the keeper: poll if the call takes long."""
        with self._lock:
            if self._began is not None and time.monotonic() - self._began >= self._after:
                self.was_kept = True
                self._poll()


class Keeper:
    """The thread; it runs while there are sinks."""

    def __init__(self, every_seconds: float = _EVERY_SECONDS) -> None:
        self._every = every_seconds
        self._lock = threading.Lock()
        self._calls: list[SlowCall] = []
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, call: SlowCall) -> None:
        """Watch over a task."""
        with self._lock:
            self._calls.append(call)
            if self._thread is None:
                self._wake = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._wake,), name="connect-keeper", daemon=True
                )
                self._thread.start()

    def remove(self, call: SlowCall) -> None:
        """The task has ended."""
        with self._lock:
            self._calls = [each for each in self._calls if each is not call]
            if not self._calls and self._thread is not None:
                self._wake.set()
                self._thread = None

    def _run(self, wake: threading.Event) -> None:
        while not wake.wait(self._every):
            with self._lock:
                calls: list[Any] = list(self._calls)
            for each in calls:
                try:
                    each.keep()
                except Exception as error:
                    log.warning("a sink's group member cannot be kept alive: %s", error)
