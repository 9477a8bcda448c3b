"""Work beside the event loop, one piece at a time: unpacking and looking through a client's large batches.

A thread of the broker's pool does it, never more than one, so that memory is bounded by the largest piece
and fsyncs find a free thread. Each source (a connection, a request) has a queue of its own, and they are
served in turn: who brings a hundred pieces waits for them himself.

A piece must not hold the GIL for long, must touch nothing that the loop may change meanwhile, and is not
interrupted: who is cancelled while it runs goes at once, and its result is dropped.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

T = TypeVar("T")


_Piece = tuple["asyncio.Future[Any]", Callable[[], Any]]


class SideWorker:
    """A queue of work for one thread at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor | None = None) -> None:
        self._loop = loop
        self._executor = executor
        self._waiting: dict[object, deque[_Piece]] = {}  # the sources, in the order of their turns
        self._runs = False
        self._closed = False

    def run(self, work: Callable[[], T], source: object) -> "asyncio.Future[T]":
        """The result of `work()`, or its error, once its turn has come.

        A source's pieces keep their order.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            future.cancel()
            return future
        self._waiting.setdefault(source, deque()).append((future, work))
        if not self._runs:
            self._next()
        return future

    def close(self) -> None:
        """Nothing more is begun; who waits is cancelled."""
        self._closed = True
        waiting, self._waiting = self._waiting, {}
        for queue in waiting.values():
            for future, _ in queue:
                future.cancel()

    def _next(self) -> None:
        self._runs = False
        while self._waiting:
            source = next(iter(self._waiting))
            queue = self._waiting.pop(source)
            future, work = queue.popleft()
            if queue:
                self._waiting[source] = queue  # behind the others
            if future.done():  # its request was cancelled meanwhile
                continue
            self._runs = True
            running = self._loop.run_in_executor(self._executor, work)
            running.add_done_callback(lambda done, future=future: self._ended(future, done))  # type: ignore[misc]
            return

    def _ended(self, future: "asyncio.Future[Any]", done: "asyncio.Future[Any]") -> None:
        error = None if done.cancelled() else done.exception()
        if not future.done():
            if done.cancelled():
                future.cancel()
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(done.result())
        self._next()
