"""Detects a standstill: the time since an observed value last changed."""

from __future__ import annotations

from collections.abc import Callable


class Movement:
    """Compares each observation with the last. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: object = None
        self._since = clock()

    def note(self, seen: object) -> None:
        """Observe: a value that differs from the last one is progress."""
        if seen != self._seen:
            self._seen, self._since = seen, self._clock()

    @property
    def still_seconds(self) -> float:
        """Seconds without progress."""
        return self._clock() - self._since
