"""Bounds of the work on schemas that one request asks for. Parsers and comparisons call `step` as they go:

    with working(Work(is_abandoned)):      in the thread that works
        parse, compare, print              Abandoned when nobody waits for it any more,
                                           TooComplex after STEPS_MAX steps, all versions together

A thread with no such work has no bounds: what Moldau's own clients parse is theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moldau.schemas.schema import TooComplex

STEPS_MAX = 3_000_000
"""Parts that are parsed and pairs that are compared for one request: half a minute of work. A comparison with
500 versions of 1,000 fields takes a million."""
_ASKED_EVERY = 256


class Abandoned(Exception):
    """Nobody waits for the result any more."""


class Work:
    """What is left of one request's steps; its threads, of which one works at a time, share it."""

    __slots__ = ("_is_abandoned", "_left", "_steps_max")

    def __init__(
        self, is_abandoned: Callable[[], bool] = lambda: False, *, steps_max: int = STEPS_MAX
    ) -> None:
        """`is_abandoned` is asked now and then, from the thread that works."""
        self._is_abandoned = is_abandoned
        self._left = self._steps_max = steps_max

    def step(self) -> None:
        """Count one step. Abandoned, TooComplex."""
        self._left -= 1
        if self._left % _ASKED_EVERY == 0 and self._is_abandoned():
            raise Abandoned
        if self._left < 0:
            raise TooComplex(f"parsing and comparing it takes more than {self._steps_max} steps in all")


class _Current(threading.local):
    work: Work | None = None


_current = _Current()


def step() -> None:
    """Count one step of the work that this thread does, if it has bounds. Abandoned, TooComplex."""
    work = _current.work
    if work is not None:
        work.step()


def current_work() -> Work | None:
    """What this thread works for; for work that another thread goes on with."""
    return _current.work


@contextmanager
def working(work: Work | None) -> Iterator[None]:
    """Steps of this thread count for `work` meanwhile; None: they have no bounds."""
    before, _current.work = _current.work, work
    try:
        yield
    finally:
        _current.work = before
