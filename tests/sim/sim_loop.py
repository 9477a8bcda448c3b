"""An event loop without a machine below: time is a number that jumps to the next timer when nothing is ready.

    ready     client: read | node1: write | node2: timer ...       run in order; each costs CALLBACK_SECONDS
    timers    12.004 node1 | 12.5 client | ...           when nothing is ready, time jumps to the first
    workers   a blocking function runs whole, on this thread, at a later moment drawn from the seed

Callbacks of one process keep their order, as asyncio promises. Between processes the order is drawn from the
seed (they would run on different machines). A killed process's callbacks are dropped; its tasks are kept
until the end, so that no `finally` of it runs in between, at a moment that the garbage collector chooses.

Invariant: nothing here reads a clock, an address or a hash. Not here: sockets (sim_network.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import random
import warnings
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from sim_process import Process, current_process, process_of
from sim_trace import Trace

from moldau.testing.simulated_files import Crash

T = TypeVar("T")

CALLBACK_SECONDS = 20e-6
STANDSTILL_EVENTS = 3_000_000
_WORK_SECONDS_MAX = 0.004


class StandsStill(AssertionError):
    """Nothing can ever happen again, and what was waited for has not happened; or far too much happens."""


class _Handle(asyncio.Handle):
    __slots__ = ("process",)

    def __init__(
        self, callback: Callable[..., object], args: Sequence[Any], loop: VirtualLoop,
        context: contextvars.Context,
    ) -> None:  # fmt: skip
        super().__init__(callback, args, loop, context)
        self.process = process_of(context)


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ("process",)

    def __init__(
        self, when: float, callback: Callable[..., object], args: Sequence[Any], loop: VirtualLoop,
        context: contextvars.Context,
    ) -> None:  # fmt: skip
        super().__init__(when, callback, args, loop, context)
        self.process = process_of(context)


class VirtualLoop(asyncio.AbstractEventLoop):
    """One thread, one seed, no machine."""

    def __init__(self, source: random.Random, trace: Trace) -> None:
        self.trace = trace
        self.works_left: Counter[Process | None] = Counter()
        """How much each process has given to its threads that has not been done yet."""
        self.failures: list[str] = []
        """Exceptions that nobody handled, in processes that were alive."""
        self.worker_fault: Callable[[Process | None, Callable[..., object]], None] = lambda process, work: (
            None
        )
        """Asked before a blocking function runs; what it raises is the function's outcome."""
        self.events_max = STANDSTILL_EVENTS
        """After so many events a run counts as one that does not end."""
        self._random = source
        self._now = 0.0
        self._order = itertools.count()
        self._ready: dict[Process | None, deque[_Handle | _TimerHandle]] = {}
        self._timers: list[tuple[float, int, _TimerHandle]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_pruned_at = 1000
        self._at_work: Process | None = None
        self._closed = False
        self._running = False

    # Time and callbacks

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, contextvars.copy_context() if context is None else context)
        self._put(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = _TimerHandle(
            when, callback, args, self, contextvars.copy_context() if context is None else context
        )
        if not self._closed:
            heapq.heappush(self._timers, (when, next(self._order), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        del handle  # it is dropped when its time comes

    def _put(self, handle: _Handle | _TimerHandle) -> None:
        if not self._closed:
            self._ready.setdefault(handle.process, deque()).append(handle)

    # Futures, tasks, workers

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_pruned_at:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._tasks_pruned_at = 2 * len(self._tasks) + 1000
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run the function at a later moment; its result arrives another moment later."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        process = current_process()

        self.works_left[process] += 1

        def work() -> None:
            self.works_left[process] -= 1
            if future.cancelled():
                return
            self.trace.add(self._now, str(process), f"works {_name(func)}")
            try:
                self.worker_fault(process, func)
                result = func(*args)
            except Exception as error:
                self.call_later(self._work_seconds(process), _settle, future, None, error)
            else:
                self.call_later(self._work_seconds(process), _settle, future, result, None)

        self.call_later(self._work_seconds(process), work)
        return future

    def _work_seconds(self, process: Process | None) -> float:
        # Mostly soon, sometimes long after everything else.
        more = (
            0.0
            if process is None or not process.work_seconds
            else process.work_seconds * self._random.random()
        )
        return self._random.random() ** 4 * _WORK_SECONDS_MAX + more

    # Running

    def run_until(self, done: Callable[[], bool], seconds_max: float) -> None:
        """Run until `done()`. StandsStill when that cannot come, or has not after so much virtual time."""
        end = self._now + seconds_max
        events_end = self.trace.count + self.events_max
        asyncio._set_running_loop(self)
        self._running = True
        try:
            while not done():
                if not self._step():
                    raise StandsStill("nothing is ready and no timer is set, but something is waited for")
                if self._now > end:
                    raise StandsStill(f"not done after {seconds_max} s of virtual time")
                if self.trace.count > events_end:
                    raise StandsStill(f"not done after {self.events_max} events")
        finally:
            self._running = False
            asyncio._set_running_loop(None)

    def run_until_complete(self, future: Any) -> Any:
        """Run until the future (or a coroutine as a task) is done; its result."""
        task = asyncio.ensure_future(future, loop=self)
        self.run_until(task.done, 1e9)
        return task.result()

    def _step(self) -> bool:
        """Run one callback; False when there is none, now or later."""
        timers = self._timers
        ready = self._ready
        processes = _awake(ready)
        if not processes and timers:
            self._now = max(self._now, timers[0][0])
        if timers and timers[0][0] <= self._now:
            while timers and timers[0][0] <= self._now:
                self._put(heapq.heappop(timers)[2])
            processes = _awake(ready)
        if not processes:
            return bool(timers)
        process = processes[0] if len(processes) == 1 else self._random.choice(processes)
        queue = ready[process]
        handle = queue.popleft()
        if not queue:
            del ready[process]
        if handle.cancelled():
            return True
        if process is not None:
            if process.alive:
                process.before_callback()
            if not process.alive:
                return True
        self._now += CALLBACK_SECONDS
        self.trace.add(self._now, str(process), _name(handle._callback))  # type: ignore[attr-defined]
        self._at_work = process
        handle._run()
        if process is not None and process.alive:
            process.after_callback()
        return True

    # The rest of what asyncio asks of a loop

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        process = self._at_work
        if self._closed or (process is not None and not process.alive):
            return
        error = context.get("exception")
        if isinstance(error, Crash):
            return  # a task of a process that died: it is collected while another one is at work
        self.failures.append(f"{process}: {context['message']}: {error!r}")
        if isinstance(error, BaseException):
            self.failures.extend(_traceback(error))

    async def shutdown_asyncgens(self) -> None:
        pass

    def close(self) -> None:
        """End all coroutines that still wait, quietly: their `finally` blocks find everything dead."""
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    with contextlib.suppress(BaseException):
                        task.get_coro().close()  # type: ignore[union-attr]
        self._tasks.clear()


def _awake(ready: dict[Process | None, deque[_Handle | _TimerHandle]]) -> list[Process | None]:
    """Who may run now, in the order in which each became ready."""
    return [each for each in ready if each is None or not each.paused]


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _name(callback: Any) -> str:
    """A name for a callback that is the same in every run: no address, no counter."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"task {getattr(owner.get_coro(), '__qualname__', '?')}"
    inner = getattr(callback, "func", None)  # functools.partial
    return str(getattr(inner or callback, "__qualname__", type(callback).__name__))


def _traceback(error: BaseException) -> list[str]:
    import traceback

    return traceback.format_exception(error)
