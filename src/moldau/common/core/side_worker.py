"""Runs long work in threads beside the event loop: decompressing and validating clients' large batches.

A thread of the broker's pool does it, never more than one, so that memory is bounded by the largest piece and
fsyncs find a free thread. Each source (a connection, a request) has a queue of its own. The source that has
used the thread least goes first, so that a source with seconds of work delays itself only:

    used so far   | A 1.6 s: piece, piece | B 1.2 s: piece | C, new: piece |    ->   C, B, A ...

A new or returning source starts a little below the use of the one that ran last: short pieces go before long
ones, and idle sources save up nothing.

How long a piece takes may show only while it runs: a batch of 8 KB may unpack to 256 MB. Such a piece gives
up early (`PutOff`) and is done in a second thread: pieces of the usual length do not wait for it.

A piece must not hold the GIL for long, must touch nothing that the loop may change meanwhile, and is not
interrupted: who is cancelled while it runs goes at once, and its result is dropped.
"""

import asyncio
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")

CREDIT_SECONDS = 0.05
"""How far below the others' use a source begins: a few short pieces, and less than one long one."""
_REMEMBERED_MAX = 256  # sources that have nothing to do at the moment, which stay in memory that long

_Piece = tuple["asyncio.Future[Any]", Callable[[], Any], Callable[[], Any] | None]


class PutOff(Exception):
    """A piece turns out to be long: it has done nothing, and is done in the other thread."""


class _Queue:
    """One source's pieces, and how much of the thread's time it has used, in seconds."""

    __slots__ = ("order", "pieces", "used_seconds")

    def __init__(self, used_seconds: float) -> None:
        self.used_seconds = used_seconds
        self.order = 0  # among those that have used the same
        self.pieces: deque[_Piece] = deque()


class SideWorker:
    """A queue of work for one thread at a time, and another for what is put off."""

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
        self._long: SideWorker | None = None

    def run(
        self, work: Callable[[], T], source: object, long_work: Callable[[], T] | None = None
    ) -> "asyncio.Future[T]":
        """The result of `work()`, or its error, once its turn has come; after PutOff that of `long_work()`.

        A source's pieces keep their order, except for those that are put off.
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
        queue.pieces.append((future, work, long_work))
        if not self._runs:
            self._next()
        return future

    def close(self) -> None:
        """Nothing more is begun; who waits is cancelled."""
        self._closed = True
        if self._long is not None:
            self._long.close()
        queues, self._queues = self._queues, {}
        for queue in queues.values():
            for future, _, _ in queue.pieces:
                future.cancel()

    def _next(self) -> None:
        self._runs = False
        while self._queues:
            source, queue = min(self._queues.items(), key=lambda item: (item[1].used_seconds, item[1].order))
            future, work, long_work = queue.pieces.popleft()
            if future.done():  # its request was cancelled meanwhile
                self._retire(source, queue)
                continue
            self._runs = True
            self._least_seconds = max(self._least_seconds, queue.used_seconds)
            running = self._loop.run_in_executor(self._executor, self._timed, work)
            running.add_done_callback(partial(self._ended, source, queue, future, long_work))
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
        self,
        source: object,
        queue: _Queue,
        future: "asyncio.Future[Any]",
        long_work: Callable[[], Any] | None,
        done: "asyncio.Future[Any]",
    ) -> None:
        if done.cancelled():
            future.cancel()
        else:
            seconds, result, error = done.result()
            queue.used_seconds += seconds
            queue.order = next(self._order)
            if not future.done():
                if isinstance(error, PutOff) and long_work is not None:
                    self._put_off(future, long_work, source)
                elif error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(result)
        self._retire(source, queue)
        self._next()

    def _put_off(self, future: "asyncio.Future[Any]", long_work: Callable[[], Any], source: object) -> None:
        if self._closed:
            future.cancel()
            return
        if self._long is None:
            self._long = SideWorker(self._loop, self._executor, self._now_seconds)
        later = self._long.run(long_work, source)
        later.add_done_callback(partial(_hand_on, future))
        future.add_done_callback(lambda _: later.cancel())  # whoever waited is gone, or has it already

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


def _hand_on(future: "asyncio.Future[Any]", done: "asyncio.Future[Any]") -> None:
    """What `done` ended with is `future`'s."""
    if future.done():
        return
    if done.cancelled():
        future.cancel()
    elif (error := done.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())
