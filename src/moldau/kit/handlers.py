"""How a batch reaches a handler: record by record or whole, called here or awaited in an event loop.

An attempt begins at an index and answers how far it came and what was raised there, so that failures.py has
one rule for all four. An asynchronous handler costs one hop between threads a batch, also record by record.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from confluent_kafka import Message

Outcome = tuple[int, Exception | None]
"""The index of the first record that was not handled, and what its handler raised."""


class Attempt(Protocol):
    """Calls a handler."""

    whole: bool
    """Whether the handler takes lists."""
    reached: int
    """Behind the last record that a handler was called with, also when an attempt was cut off."""

    def __call__(self, records: list[Message], begin: int) -> Outcome:
        """Handle records from an index on."""


class EachRecord:
    """A handler of single records; `stop` is looked at between them."""

    whole = False
    reached = 0

    def __init__(self, handler: Callable[[Message], object], stop: threading.Event) -> None:
        self._handler = handler
        self._stop = stop

    def __call__(self, records: list[Message], begin: int) -> Outcome:
        handler, is_stopped, index = self._handler, self._stop.is_set, begin
        try:
            for index in range(begin, len(records)):
                if is_stopped():
                    return index, None
                handler(records[index])
        except Exception as error:
            return index, error
        finally:
            self.reached = index + 1
        return len(records), None


class Whole:
    """A handler of lists."""

    whole = True
    reached = 0

    def __init__(self, handler: Callable[[list[Message]], object]) -> None:
        self._handler = handler

    def __call__(self, records: list[Message], begin: int) -> Outcome:
        try:
            self._handler(records[begin:] if begin else records)
        except Exception as error:
            return begin, error
        return len(records), None


class _Awaited:
    """Runs a coroutine in the event loop and waits for it in this thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    def _wait(self, coroutine: Coroutine[Any, Any, Outcome]) -> Outcome:
        async def run() -> Outcome:
            if self._cancelled:
                coroutine.close()
                raise asyncio.CancelledError
            self._task = asyncio.current_task()
            try:
                return await coroutine
            finally:
                self._task = None

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def cancel(self) -> None:
        """Cancel the handler that runs, and start none any more. Called in the event loop; the waiting thread
        goes on when the handler has ended, not before.
        """
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()


class EachRecordAsync(_Awaited):
    """An asynchronous handler of single records."""

    whole = False
    reached = 0

    def __init__(
        self,
        handler: Callable[[Message], Awaitable[object]],
        stop: threading.Event,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(loop)
        self._handler = handler
        self._stop = stop

    def __call__(self, records: list[Message], begin: int) -> Outcome:
        return self._wait(self._go(records, begin))

    async def _go(self, records: list[Message], begin: int) -> Outcome:
        index = begin
        try:
            for index in range(begin, len(records)):
                if self._stop.is_set():
                    return index, None
                await self._handler(records[index])
        except Exception as error:
            return index, error
        finally:
            self.reached = index + 1
        return len(records), None


class WholeAsync(_Awaited):
    """An asynchronous handler of lists."""

    whole = True
    reached = 0

    def __init__(
        self, handler: Callable[[list[Message]], Awaitable[object]], loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(loop)
        self._handler = handler

    def __call__(self, records: list[Message], begin: int) -> Outcome:
        return self._wait(self._go(records, begin))

    async def _go(self, records: list[Message], begin: int) -> Outcome:
        try:
            await self._handler(records[begin:] if begin else records)
        except Exception as error:
            return begin, error
        return len(records), None
