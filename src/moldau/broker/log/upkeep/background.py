"""Runs work in a thread and reports its end on the event loop.

The log's parts are given a `Background` and do not depend on asyncio. `InlineBackground` runs everything at
once, for tests and tools.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol, TypeAlias

Done: TypeAlias = Callable[[BaseException | None], None]


class Background(Protocol):
    """Runs functions elsewhere."""

    def run(self, work: Callable[[], None], done: Done) -> None:
        """Run `work` in a thread; then `done(error or None)` on the loop."""


class InlineBackground:
    """Runs everything where it is called."""

    def run(self, work: Callable[[], None], done: Done) -> None:
        try:
            work()
        except Exception as error:
            done(error)
        else:
            done(None)


class LoopBackground:
    """Runs work in an executor's threads, for an asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        self._loop = loop
        self._executor = executor

    def run(self, work: Callable[[], None], done: Done) -> None:
        future = self._loop.run_in_executor(self._executor, work)
        future.add_done_callback(lambda finished: done(finished.exception()))
