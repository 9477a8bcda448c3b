"""Fairness between pipelining connections: one of them continues in each turn of the event loop.

A client may send thousands of small requests without waiting for answers, and one read receives them all. A
connection handles them for `TURN_SECONDS`, keeps the rest, and queues here:

    loop turn   | sockets | connection A, 1 ms | sockets | connection B, 1 ms | sockets | A again ...

So other connections wait for one such turn at most. (For long work within one request: core/slow_lane.py.)
"""

from collections import deque
from collections.abc import Callable

from moldau.common.core.timers import Timers

TURN_SECONDS = 0.001


class Turns:
    """A queue of callbacks, one of which is called in each turn of the event loop."""

    def __init__(self, timers: Timers, now_seconds: Callable[[], float]) -> None:
        self.now_seconds = now_seconds
        self._timers = timers
        self._waiting: deque[Callable[[], None]] = deque()

    def line_up(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` in a later turn of the loop, in the order of the calls."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            self._timers.call_later(0, self._next)

    def _next(self) -> None:
        go_on = self._waiting[0]
        try:
            go_on()
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._timers.call_later(0, self._next)
