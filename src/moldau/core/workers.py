"""Thread pools, as an injected dependency: blocking work goes to a `concurrent.futures.Executor`; a
simulation passes one that runs it on its own thread, when it chooses.

Two uses. The event loop gives pieces of work (an fsync, a large batch) to the broker's workers and goes on:
`loop.run_in_executor(workers, ...)`. Code that may block (recovery, the closing of logs) runs many such
pieces several at a time and waits for all of them: `with pool(threads_max) as several: several.map(...)`.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Pool: TypeAlias = Callable[[int], Executor]
"""Makes an executor for so many pieces of work at a time; `with` ends it."""


def thread_pool(threads_max: int) -> Executor:
    """Threads of the machine, started as they are needed."""
    return ThreadPoolExecutor(threads_max, thread_name_prefix="moldau-worker")


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
