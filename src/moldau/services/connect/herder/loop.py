"""One thread on which everything happens that changes what a worker does, in the order in which it was
asked."""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread, current_thread
from typing import Any, TypeVar

log = logging.getLogger("moldau.connect.herder")
ResultT = TypeVar("ResultT")
_WAITING_MAX = 10_000


class Overloaded(Exception):
    """Too much is asked at a time."""


class Loop:
    """Runs calls one after the other."""

    def __init__(self, name: str) -> None:
        self._changed = Condition()
        self._calls: list[tuple[float, int, Callable[[], Any], Future[Any]]] = []
        self._count = itertools.count()
        self._closed = False
        self._busy_since: float | None = None
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, timeout_seconds: float) -> None:
        """End after the call that runs; what waits is dropped."""
        with self._changed:
            self._closed = True
            for _, _, _, future in self._calls:
                future.cancel()
            self._calls.clear()
            self._changed.notify()
        if self._thread.is_alive() and current_thread() is not self._thread:
            self._thread.join(timeout_seconds)

    @property
    def busy_seconds(self) -> float:
        """How long the call that runs has been running; 0: none does."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    def call(self, work: Callable[[], ResultT], after_seconds: float = 0.0) -> Future[ResultT]:
        """Run it; its result. Overloaded."""
        return self._add(work, after_seconds, _WAITING_MAX)

    def _add(self, work: Callable[[], ResultT], after_seconds: float, waiting_max: float) -> Future[ResultT]:
        future: Future[ResultT] = Future()
        with self._changed:
            if self._closed:
                future.cancel()
                return future
            if len(self._calls) >= waiting_max:
                raise Overloaded("too many requests wait for the worker: try again")
            heapq.heappush(self._calls, (time.monotonic() + after_seconds, next(self._count), work, future))
            self._changed.notify()
        return future

    def soon(self, work: Callable[[], object], after_seconds: float = 0.0) -> None:
        """Run it, and nobody asks what came of it: a failure is logged. Never refused: what changed must be
        seen to, and those who say so could do nothing about it."""

        def logged() -> None:
            try:
                work()
            except Exception:
                log.exception("the worker failed in what nobody waits for")

        self._add(logged, after_seconds, math.inf)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (not self._calls or self._calls[0][0] > time.monotonic()):
                    self._changed.wait(self._calls[0][0] - time.monotonic() if self._calls else None)
                if self._closed:
                    return
                _, _, work, future = heapq.heappop(self._calls)
            if not future.set_running_or_notify_cancel():
                continue
            self._busy_since = time.monotonic()
            try:
                future.set_result(work())
            except BaseException as problem:
                future.set_exception(problem)
            self._busy_since = None
