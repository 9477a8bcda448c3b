"""Timers, as an injected dependency: real ones on the event loop, manual ones for tests.

The manual timers own a `ManualClock`: `advance` moves it and runs what fell due, in the order of the due
times, so that a test of session expiry takes no time and always takes the same path.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Protocol

from moldau.common.core.clock import ManualClock


class TimerHandle(Protocol):
    """A call that has not happened yet."""

    def cancel(self) -> None:
        """Call it off; cancelling twice, or after it ran, does nothing."""


class Timers(Protocol):
    """Calls functions later."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` once, after `delay_ms` milliseconds, on the event loop's thread."""


class LoopTimers:
    """Timers on an asyncio event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimerHandle:
        return self._loop.call_later(max(delay_ms, 0.0) / 1000.0, callback)


class _ManualHandle:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualTimers:
    """Timers that run only when a test advances the clock."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._order = itertools.count()
        self._due: list[tuple[float, int, _ManualHandle]] = []

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimerHandle:
        handle = _ManualHandle(callback)
        due_ms = self._clock.now_ms() + max(delay_ms, 0.0)
        heapq.heappush(self._due, (due_ms, next(self._order), handle))
        return handle

    @property
    def waiting_count(self) -> int:
        """How many will run, if nobody cancels them."""
        return sum(handle.callback is not None for _, _, handle in self._due)

    def advance(self, duration_ms: int) -> None:
        """Let `duration_ms` milliseconds pass; run each callback at its own due time."""
        end_ms = self._clock.now_ms() + duration_ms
        while self._due and self._due[0][0] <= end_ms:
            due_ms, _, handle = heapq.heappop(self._due)
            self._clock.advance(max(0, int(due_ms) - self._clock.now_ms()))
            callback, handle.callback = handle.callback, None
            if callback is not None:
                callback()
        self._clock.advance(end_ms - self._clock.now_ms())
