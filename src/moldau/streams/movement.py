"""Whether something moves: what was seen, and since when nothing of it has changed."""

from __future__ import annotations

from collections.abc import Callable


class Movement:
    """Notes what is seen at each look. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: object = None
        self._since = clock()

    def note(self, seen: object) -> None:
        """Look: what differs from the last look has moved."""
        if seen != self._seen:
            self._seen, self._since = seen, self._clock()

    @property
    def still_seconds(self) -> float:
        """For how long nothing has moved."""
        return self._clock() - self._since
