"""Runs long work in one thread beside the event loop: decompressing and validating clients' large batches.

A thread of the broker's pool does it, never more than one, so that memory is bounded by the largest piece and
fsyncs find a free thread. Each source (a connection, a request) has a queue of its own. The source that has
used the thread least goes first, so that a source with seconds of work delays itself only:

    used so far   | A 1.6 s: piece, piece | B 1.2 s: piece | C, new: piece |    ->   C, B, A ...

A new or returning source starts a little below the use of the one that ran last: short pieces go before long
ones, and idle sources save up nothing.

A piece must not hold the GIL for long, must touch nothing that the loop may change meanwhile, and is not
interrupted: who is cancelled while it runs goes at once, and its result is dropped.
"""

import asyncio
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Executor
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")

CREDIT_SECONDS = 0.05
"""How far below the others' use a source begins: a few short pieces, and less than one long one."""
_REMEMBERED_MAX = 256  # sources that have nothing to do at the moment, which stay in memory that long

_Piece = tuple["asyncio.Future[Any]", Callable[[], Any]]


class _Queue:
    """One source's pieces, and how much of the thread's time it has used, in seconds."""

    __slots__ = ("order", "pieces", "used_seconds")

    def __init__(self, used_seconds: float) -> None:
        self.used_seconds = used_seconds
        self.order = 0  # among those that have used the same
        self.pieces: deque[_Piece] = deque()


class SideWorker:
    """A queue of work for one thread at a time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: Executor | None = None,
        now_seconds: Callable[[], float] = perf_counter,
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._now_seconds = now_seconds
        self._queues: dict[object, _Queue] = {}  # of sources that wait, or whose last piece runs
        self._used: OrderedDict[object, float] = OrderedDict()  # by source, the latest last
        self._least_seconds = 0.0  # what the source that ran last had used before
        self._order = itertools.count()
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
        queue = self._queues.get(source)
        if queue is None:
            least_seconds = self._least_seconds - CREDIT_SECONDS
            queue = self._queues[source] = _Queue(max(least_seconds, self._used.get(source, least_seconds)))
            queue.order = next(self._order)
        queue.pieces.append((future, work))
        if not self._runs:
            self._next()
        return future

    def close(self) -> None:
        """Nothing more is begun; who waits is cancelled."""
        self._closed = True
        queues, self._queues = self._queues, {}
        for queue in queues.values():
            for future, _ in queue.pieces:
                future.cancel()

    def _next(self) -> None:
        self._runs = False
        while self._queues:
            source, queue = min(self._queues.items(), key=lambda item: (item[1].used_seconds, item[1].order))
            future, work = queue.pieces.popleft()
            if future.done():  # its request was cancelled meanwhile
                self._retire(source, queue)
                continue
            self._runs = True
            self._least_seconds = max(self._least_seconds, queue.used_seconds)
            running = self._loop.run_in_executor(self._executor, self._timed, work)
            running.add_done_callback(
                lambda done, source=source, queue=queue, future=future: self._ended(  # type: ignore[misc]
                    source, queue, future, done
                )
            )
            return

    def _timed(self, work: Callable[[], T]) -> tuple[float, T | None, BaseException | None]:
        """In the thread: seconds, result, error."""
        began = self._now_seconds()
        try:
            result = work()
            return self._now_seconds() - began, result, None
        except Exception as error:
            return self._now_seconds() - began, None, error

    def _ended(
        self, source: object, queue: _Queue, future: "asyncio.Future[Any]", done: "asyncio.Future[Any]"
    ) -> None:
        if done.cancelled():
            future.cancel()
        else:
            seconds, result, error = done.result()
            queue.used_seconds += seconds
            queue.order = next(self._order)
            if not future.done():
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(result)
        self._retire(source, queue)
        self._next()

    def _retire(self, source: object, queue: _Queue) -> None:
        """Forget the queue of a source that has nothing to do; what it has used is remembered, because a
        connection brings its next batch when the last one is done."""
        if queue.pieces or self._queues.get(source) is not queue:
            return
        del self._queues[source]
        self._used[source] = queue.used_seconds
        self._used.move_to_end(source)
        if len(self._used) > _REMEMBERED_MAX:
            self._used.popitem(last=False)
