"""Measures the time that a request has the event loop, also where it waits in between.

begin ─ step ─ end | waits, others have the loop | begin ─ step ─ end | ...
"""

from collections.abc import Coroutine, Generator
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Stopwatch(Protocol):
    """Adds up the time between `begin` and `end` (security/quotas/limits.py)."""

    def begin(self) -> None: ...

    def end(self) -> None: ...


async def measured(work: Coroutine[Any, Any, T], watch: Stopwatch) -> T:
    """Do the work, each step of it between `begin` and `end`."""
    result: T = await _Measured(work, watch)
    return result


class _Measured:
    __slots__ = ("_watch", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], watch: Stopwatch) -> None:
        self._work = work
        self._watch = watch

    def __await__(self) -> Generator[Any, Any, Any]:
        watch, steps = self._watch, self._work.__await__()
        error: BaseException | None = None
        while True:
            watch.begin()
            try:
                awaited = next(steps) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            finally:
                watch.end()
            error = None
            try:
                yield awaited
            except BaseException as thrown:  # it is cancelled
                error = thrown
