"""One timer for all partitions that wait for time to pass.

A partition is watched while something in it waits beyond its turn (a Produce that may time out), or while its
followers may fall behind. It is told the time every `period_ms` until it needs it no longer; while no
partition is watched there is no timer. Many partitions are told in slices, each in a call of its own.
"""

import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

from moldau.core.clock import Clock
from moldau.core.timers import TimerHandle, Timers

TIMEOUTS_MS = 100
"""So often appends that wait are looked at: a timeout is late by this much at most, and never early."""
_AT_ONCE = 256

log = logging.getLogger("moldau.replication")


class Ticking(Protocol):
    """What is told the time."""

    def tick(self, now_ms: float) -> None:
        """It is `now_ms` of the monotonic clock."""

    @property
    def has_timeouts(self) -> bool:
        """Whether something waits that may time out."""

    @property
    def leads_followers(self) -> bool:
        """Whether followers may fall behind."""


class Ticker:
    """Tells what is watched the time, every `period_ms`."""

    def __init__(
        self, timers: Timers, clock: Clock, period_ms: float, needs: Callable[[Ticking], bool]
    ) -> None:
        """`needs` says whether something has to be told again."""
        self._timers = timers
        self._clock = clock
        self._period_ms = period_ms
        self._needs = needs
        self._watched: dict[Ticking, None] = {}
        self._timer: TimerHandle | None = None

    def watch(self, ticking: Ticking) -> None:
        """Tell it the time from now on; if it was not watched before, also at once."""
        if ticking in self._watched:
            return
        self._watched[ticking] = None
        if self._timer is None:
            self._timer = self._timers.call_later(self._period_ms, self._tick)
        ticking.tick(self._clock.monotonic_ms())

    def stop(self) -> None:
        """Tell nothing any more."""
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._slice(iter(list(self._watched)))

    def _slice(self, remaining: Iterator[Ticking]) -> None:
        now_ms = self._clock.monotonic_ms()
        told = list(islice(remaining, _AT_ONCE))
        for ticking in told:
            try:
                ticking.tick(now_ms)
            except Exception:
                log.exception("a partition failed when it was told the time: this is a bug")
            if not self._needs(ticking):
                self._watched.pop(ticking, None)
        if len(told) == _AT_ONCE:
            self._timer = self._timers.call_later(0, lambda: self._slice(remaining))
        elif self._watched:
            self._timer = self._timers.call_later(self._period_ms, self._tick)
        else:
            self._timer = None
