"""Thread pools, as an injected dependency: blocking work goes to a `concurrent.futures.Executor`; a
simulation passes one that runs it on its own thread, when it chooses.

Two uses. The event loop gives pieces of work (an fsync, a large batch) to the broker's workers and goes on:
`loop.run_in_executor(workers, ...)`. Code that may block (recovery, the closing of logs) runs many such
pieces several at a time and waits for all of them: `with pool(threads_max) as several: several.map(...)`.
"""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Pool: TypeAlias = Callable[[int], Executor]
"""Makes an executor for so many pieces of work at a time; `with` ends it."""


def thread_pool(threads_max: int) -> Executor:
    """Threads of the machine, started as they are needed."""
    return ThreadPoolExecutor(threads_max, thread_name_prefix="moldau-worker")


class DaemonExecutor(Executor):
    """One thread for code that may never return: neither `shutdown` nor the end of the process waits for it,
    and what is cancelled before it begins is forgotten at once.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: dict[Future[Any], Callable[[], Any]] = {}
        self._changed = threading.Condition()
        self._ends = False
        self._thread: threading.Thread | None = None

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            self._waiting[future] = functools.partial(fn, *args, **kwargs)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()
        future.add_done_callback(self._forget)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._changed:
            self._ends = True
            self._waiting.clear()
            self._changed.notify()

    def _forget(self, future: Future[Any]) -> None:
        with self._changed:
            self._waiting.pop(future, None)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ends)
                if self._ends:
                    return
                future, work = next(iter(self._waiting.items()))
                del self._waiting[future]
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)


class InlineExecutor(Executor):
    """Runs the work where it is submitted, before `submit` returns: for tests, tools and simulations."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def inline_pool(threads_max: int) -> Executor:
    """A `Pool` without threads: one piece of work after the other."""
    del threads_max
    return InlineExecutor()
