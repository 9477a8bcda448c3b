"""Starts a part of a program a while after the rest, without holding the event loop for its imports.

Reading and running a hundred modules takes the loop's thread 50 to 100 ms, in which nobody is served. A
worker does it first: then the thread gives way to the loop every few milliseconds.

    delay ──> modules are imported by a worker ──> begin(), on the loop

Who needs the part sooner imports it as ever, and waits for what the worker has begun.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from importlib import import_module

from moldau.common.core.timers import Timers


def import_all(modules: Sequence[str]) -> None:
    """Import them in this order. ImportError."""
    for each in modules:
        import_module(each)


class LateStart:
    """One part that begins `delay_ms` from now, once its modules are there; unless it is cancelled."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        workers: Executor,
        timers: Timers,
        delay_ms: float,
        begin: Callable[[], None],
        modules: Sequence[str],
    ) -> None:
        self._loop, self._workers = loop, workers
        self._begin, self._modules = begin, modules
        self._is_cancelled = False
        self._timer = timers.call_later(delay_ms, self._import)

    def cancel(self) -> None:
        """Call it off; after it has begun, this does nothing."""
        self._is_cancelled = True
        self._timer.cancel()

    def _import(self) -> None:
        imported = self._loop.run_in_executor(self._workers, import_all, self._modules)
        imported.add_done_callback(self._imported)

    def _imported(self, imported: "asyncio.Future[None]") -> None:
        if self._is_cancelled or imported.cancelled():
            return
        imported.exception()  # `begin` meets the same, and says what it was for
        self._begin()
