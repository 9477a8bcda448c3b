"""One timer for all partitions that wait for time to pass.

A partition is watched while it has appends that may time out, or followers that may fall behind: its `tick`
is called every `period_ms`. While no partition is watched there is no timer. Many partitions are ticked in
slices of the loop's time.
"""

import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Generic, Protocol, TypeVar

from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers

TIMEOUTS_MS = 100
"""How often waiting appends are checked: a timeout is late by at most this much, and never early."""
_AT_ONCE = 256

log = logging.getLogger("moldau.replication")


class Ticking(Protocol):
    """Something that is ticked."""

    def tick(self, now_ms: float) -> None:
        """Called every period; `now_ms` is monotonic."""


T = TypeVar("T", bound=Ticking)


class Ticker(Generic[T]):
    """Calls `tick` of everything watched, every `period_ms`."""

    def __init__(self, timers: Timers, clock: Clock, period_ms: float, needs: Callable[[T], bool]) -> None:
        """`needs` says whether something must still be watched."""
        self._timers = timers
        self._clock = clock
        self._period_ms = period_ms
        self._needs = needs
        self._watched: dict[T, None] = {}
        self._timer: TimerHandle | None = None

    def watch(self, ticking: T) -> None:
        """Tick it from now on; if it was not watched before, also at once."""
        if ticking in self._watched:
            return
        self._watched[ticking] = None
        if self._timer is None:
            self._timer = self._timers.call_later(self._period_ms, self._tick)
        ticking.tick(self._clock.monotonic_ms())

    def stop(self) -> None:
        """Stop ticking."""
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._slice(iter(list(self._watched)))

    def _slice(self, remaining: Iterator[T]) -> None:
        now_ms = self._clock.monotonic_ms()
        told = list(islice(remaining, _AT_ONCE))
        for ticking in told:
            try:
                ticking.tick(now_ms)
            except Exception:
                log.exception("the tick of a partition failed: this is a bug")
            if not self._needs(ticking):
                self._watched.pop(ticking, None)
        if len(told) == _AT_ONCE:
            self._timer = self._timers.call_later(0, lambda: self._slice(remaining))
        elif self._watched:
            self._timer = self._timers.call_later(self._period_ms, self._tick)
        else:
            self._timer = None
