"""Comparisons by client host in turn, so that a host which sends forty does not hold up the others.

    running   at most `at_once`, and of one host one less (its comparisons share Python's lock anyway, so a
              second thread would not make them faster); another host's begins at once
    waiting   a queue for each host; the hosts' first ones go round and round

For one event loop. Of clients that have left meanwhile nothing runs.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple


class _Waiting(NamedTuple):
    begins: asyncio.Future[None]
    is_gone: Callable[[], bool]


class FairQueue:
    """Hosts, and what they wait for."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._of_host_at_once = max(1, at_once - 1)
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[_Waiting]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, host: str, is_gone: Callable[[], bool] = lambda: False) -> AsyncIterator[None]:
        """Wait for a turn of the host, and have it. ConnectionResetError: the client left meanwhile."""
        waiting = _Waiting(asyncio.get_running_loop().create_future(), is_gone)
        self._waiting.setdefault(host, deque()).append(waiting)
        self._begin_next()
        try:
            await waiting.begins
        except asyncio.CancelledError:
            if waiting.begins.done() and not waiting.begins.cancelled():
                self._end(host)  # it began at the moment at which it was cancelled
            raise
        try:
            yield
        finally:
            self._end(host)

    def close(self) -> None:
        """Cancel those that wait; nothing more begins."""
        self._at_once = 0
        for waiting in self._waiting.values():
            for each in waiting:
                each.begins.cancel()

    def _end(self, host: str) -> None:
        self._running[host] -= 1
        if not self._running[host]:
            del self._running[host]
        self._begin_next()

    def _begin_next(self) -> None:
        while self._running.total() < self._at_once and (host := self._next_host()) is not None:
            waiting = self._waiting[host].popleft()
            self._waiting.move_to_end(host)
            if waiting.begins.done():
                continue  # cancelled
            if waiting.is_gone():
                waiting.begins.set_exception(ConnectionResetError("the client has gone"))
                continue
            self._running[host] += 1
            waiting.begins.set_result(None)

    def _next_host(self) -> str | None:
        for host in [host for host, waiting in self._waiting.items() if not waiting]:
            del self._waiting[host]
        return next((host for host in self._waiting if self._running[host] < self._of_host_at_once), None)
