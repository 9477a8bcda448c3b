"""Clocks, as an injected dependency; a test advances a manual one.

Two times are kept apart. `now_ms` is the wall clock, which records carry and retention compares; it may jump.
`monotonic_ms` only measures how long something took, and never runs backwards.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """The time, in milliseconds."""

    def now_ms(self) -> int:
        """Wall-clock time: milliseconds since the Unix epoch."""

    def monotonic_ms(self) -> float:
        """Milliseconds since some fixed moment, for measuring durations."""


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1_000_000


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> float:
        return float(self._now_ms)

    def advance(self, duration_ms: int) -> None:
        """Move both clocks forward by `duration_ms` milliseconds."""
        if duration_ms < 0:
            raise ValueError("time does not run backwards: duration_ms must be >= 0")
        self._now_ms += duration_ms
