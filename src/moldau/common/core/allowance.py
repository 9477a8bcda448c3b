"""Bounds the array elements of large requests in memory.

A row of two bytes becomes an object of a hundred and another one for its response, so that frames within
`socket.request.max.bytes` could still take gigabytes. One request may have `moldau.request.elements.max`
elements; all large requests together twice as many. Before a large frame is decoded it takes as many as its
bytes could hold, waiting in the order of arrival, and returns what it did not need.
"""

import asyncio
from collections import deque

REQUESTS = 2
"""So many requests with the most elements may be in memory at once."""


class Allowance:
    """The elements that large requests may still use; `elements_max` may change at run time."""

    def __init__(self) -> None:
        self.used = 0
        self._waiting: deque[tuple[int, int, asyncio.Future[None]]] = deque()

    async def acquire(self, elements: int, elements_max: int) -> int:
        """Wait for this many elements (`elements_max` at most); returns how many were granted."""
        wanted = min(elements, elements_max)
        if self._waiting or not self._fits(wanted, elements_max):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((wanted, elements_max, turn))
            try:
                await turn
            except BaseException:
                if turn.done() and not turn.cancelled():
                    self.give_back(wanted)
                raise
        else:
            self.used += wanted
        return wanted

    def give_back(self, elements: int) -> None:
        """Return this many elements."""
        self.used -= elements
        waiting = self._waiting
        while waiting:
            wanted, elements_max, turn = waiting[0]
            if not turn.done():
                if not self._fits(wanted, elements_max):
                    return
                self.used += wanted
                turn.set_result(None)
            waiting.popleft()

    def _fits(self, wanted: int, elements_max: int) -> bool:
        return not self.used or self.used + wanted <= REQUESTS * elements_max
