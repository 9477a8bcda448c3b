"""Work that is too long for one turn of the event loop, in slices of a millisecond.

A request may be large and still legal: two million rows, two thousand partitions to make. Its handler does
the work in slices and gives the loop back between them:

    loop turn   | sockets | slice of request A | sockets | slice of request B | sockets | slice of A | ...

Whoever waits here is served in the order of arrival, *one slice a turn of the loop* whatever the number of
large requests: a hundred of them take longer each, and other requests wait for one slice at most.

The garbage collector pauses while `run` or `paused_collector` is at work: it would look through a million
rows again and again, for tens of milliseconds each time, to find that all are in use.

Invariant: between two calls of `next_slice` a caller keeps the loop for about `SLICE_SECONDS`, which it
checks by `spent`. What a caller read before a slice (an image, a partition) may have changed after it.
"""

import asyncio
import gc
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TypeVar

from moldau.common.core.collector import full_collections

SLICE_SECONDS = 0.001
_UNCOLLECTED_SECONDS = 10.0
_CHECKED_EVERY = 16  # looking at the clock costs as much as a small row

T = TypeVar("T")


class SlowLane:
    """Serves large requests of one event loop, a slice of one of them a turn."""

    def __init__(
        self, slice_seconds: float = SLICE_SECONDS, now_seconds: Callable[[], float] = perf_counter
    ) -> None:
        self._slice_seconds = slice_seconds
        self._now_seconds = now_seconds
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._at_work = 0  # for how many the collector pauses
        self._collect_at_seconds = 0.0
        self._scheduled = False

    def slices(self) -> "Slices":
        """The slices of one request; the first begins now."""
        return Slices(self, self._slice_seconds, self._now_seconds)

    @contextmanager
    def paused_collector(self) -> Iterator[None]:
        """No collection of garbage meanwhile, unless this goes on for long."""
        if not self._at_work and gc.isenabled():
            gc.disable()
            self._collect_at_seconds = self._now_seconds() + _UNCOLLECTED_SECONDS
        self._at_work += 1
        try:
            yield
        finally:
            self._at_work -= 1
            if not self._at_work and self._collect_at_seconds:
                self._collect_at_seconds = 0.0
                gc.enable()

    @contextmanager
    def paused_full_collections(self) -> Iterator[None]:
        """No full collection of garbage meanwhile; for what makes very many objects that stay. New objects
        are collected: all at once later, they would hold the loop for long.
        """
        with full_collections.paused():
            yield

    async def wait(self) -> None:
        """Wait for this caller's next slice."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._wake, loop)
        await turn
        if self._collect_at_seconds and self._now_seconds() >= self._collect_at_seconds:
            gc.collect(0)
            self._collect_at_seconds = self._now_seconds() + _UNCOLLECTED_SECONDS

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        while waiting:
            turn = waiting.popleft()
            if not turn.done():  # its request was cancelled meanwhile
                turn.set_result(None)
                break
        if waiting:
            loop.call_soon(self._wake, loop)
        else:
            self._scheduled = False


def all_steps(steps: Generator[None, None, T]) -> T:
    """Run all steps at once, where nothing else waits, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


class NotWanted(Exception):
    """Whoever asked for the work has gone."""


class Slices:
    """One request's time on the loop."""

    __slots__ = ("_end_seconds", "_now_seconds", "_slice_seconds", "lane")

    def __init__(self, lane: SlowLane, slice_seconds: float, now_seconds: Callable[[], float]) -> None:
        self.lane = lane
        self._slice_seconds = slice_seconds
        self._now_seconds = now_seconds
        self._end_seconds = now_seconds() + slice_seconds

    def spent(self) -> bool:
        """Whether this slice is over: then `await next_slice()`."""
        return self._now_seconds() >= self._end_seconds

    async def next_slice(self) -> None:
        """Give the loop to the others, and go on when it is this request's turn again."""
        await self.lane.wait()
        self._end_seconds = self._now_seconds() + self._slice_seconds

    async def run(self, steps: Generator[None, None, T], wanted: Callable[[], bool] = lambda: True) -> T:
        """Make all the steps, each of them short, and give what they return. NotWanted when `wanted` says no
        between two slices.
        """
        with self.lane.paused_collector():
            while True:
                try:
                    while True:
                        next(steps)
                        if self.spent():
                            break
                except StopIteration as stop:
                    result: T = stop.value
                    return result
                await self.next_slice()
                if not wanted():
                    steps.close()
                    raise NotWanted

    async def each(self, rows: Iterable[T]) -> AsyncIterator[T]:
        """The rows, with a pause where a slice is over: looked at after every sixteenth, so rows should be
        small; where one row may take longer, call `spent` after each.
        """
        for count, row in enumerate(rows, 1):
            yield row
            if not count % _CHECKED_EVERY and self.spent():
                await self.next_slice()
