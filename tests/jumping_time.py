"""A whole broker on this machine's files and threads, in a time that jumps.

    something is ready, or a socket has data      it runs; no time passes
    a thread is at work for the loop              time passes as on the wall
    neither                                       time jumps to the next timer

So `await asyncio.sleep(60)` shows that nothing happens within a minute of the broker's, and takes none;
`settled` waits for what was begun, and `until` for a condition. The broker gets the same time through its
host's clock.

Not here: worlds from a seed, with simulated files and network (tests/sim). A scene that speaks through real
sockets runs in real time: what lies in the kernel's buffers, no loop can see.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from moldau.broker.host import Host, system_host
from moldau.common.core.timers import LoopTimers

T = TypeVar("T")


class JumpingLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop with another idea of time."""

    def __init__(self) -> None:
        self.now_seconds = 0.0
        self.at_work = 0
        """Functions that were given to threads, and whose results have not come back."""
        self.idle_waiters: list[asyncio.Future[None]] = []
        self.settled_waiters: list[asyncio.Future[None]] = []
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.now_seconds

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self.at_work += 1
        future.add_done_callback(self._has_come_back)
        return future

    def _has_come_back(self, _: object) -> None:
        self.at_work -= 1

    def nothing_is_ready(self) -> bool:
        """Resumes who waited for that; whether there was anyone."""
        waiters, self.idle_waiters = self.idle_waiters, []
        if not self.at_work:
            waiters += self.settled_waiters
            self.settled_waiters = []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        return bool(waiters)


class _JumpingSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What the loop calls when nothing is ready (timeout > 0, or None without a timer), or in between."""
        loop = self._loop
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if loop.nothing_is_ready():
            return []
        if timeout is None or loop.at_work:
            began = time.monotonic()
            events = super().select(timeout)
            loop.now_seconds += time.monotonic() - began
            return events
        loop.now_seconds += timeout
        return []


class LoopClock:
    """Both clocks by the loop's time; the wall clock began when the loop did."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._began_ms = time.time_ns() // 1_000_000 - int(loop.time() * 1000)

    def now_ms(self) -> int:
        return self._began_ms + int(self._loop.time() * 1000)

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000


def host_of_the_loop() -> Host:
    """This machine, with the running loop's time."""
    host = system_host()
    return replace(host, clock=LoopClock(host.loop), timers=LoopTimers(host.loop))


async def idle() -> None:
    """Until the loop has nothing to do but to wait: for a time, or for threads."""
    loop = _jumping_loop()
    loop.idle_waiters.append(loop.create_future())
    await loop.idle_waiters[-1]


async def settled() -> None:
    """Until all that was begun has happened, in threads too; only timers are left."""
    loop = _jumping_loop()
    loop.settled_waiters.append(loop.create_future())
    await loop.settled_waiters[-1]


async def until(condition: Callable[[], object]) -> None:
    """Until it is so; AssertionError after a minute. In real time as well."""
    for _ in range(60_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it has not come to that within a minute")


def _jumping_loop() -> JumpingLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    return loop


def run_in_jumping_time(scene: Coroutine[Any, Any, T], seconds_max: float) -> T:
    """Run the coroutine; TimeoutError after so many seconds of its time."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(asyncio.wait_for(scene, seconds_max))
