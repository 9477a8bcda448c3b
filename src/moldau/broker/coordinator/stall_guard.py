"""After this process stood still for long, its coordinators answer nothing before the metadata are confirmed.

A process that was stopped (SIGSTOP, a virtual machine that hung) wakes up with requests in its sockets and
the metadata of before. Another broker may have been elected meanwhile. What this one writes then is never
committed, but what it reads is outdated: a producer would be told that it is fenced, a group where it stood
a minute ago. So after half a session's time without a turn of the event loop, requests are refused until the
metadata store has been asked for everything that was decided meanwhile; resigning is part of that.

    tick tick tick ........ stopped ........ | request: refused ──> store asked ──> confirmed | served

While the store cannot be reached, nothing that went on before is interrupted: only a process that stood still
refuses. Not here: a coordinator that is merely cut off (shard.py: its callers wait in vain, and go).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers

RETRY_MS = 100
_TICKS = 4
"""Looks in the time that counts as standing still."""

_log = logging.getLogger("moldau.coordinator.stall_guard")


class StallGuard:
    """Called before each decision: has this process stalled, and what was decided since is not known?

    `confirm()` is true once all that was decided before the call is known here. Where it is false, or raises,
    it is called again.
    """

    def __init__(
        self, clock: Clock, timers: Timers, stall_ms: float, confirm: Callable[[], Awaitable[bool]]
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._stall_ms = stall_ms
        self._confirm = confirm
        self._seen_ms = clock.monotonic_ms()
        self._confirming: asyncio.Future[None] | None = None
        self._timer: TimerHandle | None = None

    def __call__(self) -> bool:
        if self._confirming is None:
            stood_ms = self._clock.monotonic_ms() - self._seen_ms
            if stood_ms <= self._stall_ms:
                return False
            _log.warning("this process stood still for %d ms; groups and transactions wait", stood_ms)
            self._confirming = asyncio.ensure_future(self._find_out())
        return True

    def start(self) -> None:
        """Begin to look, whether there are requests or not."""
        if not self():
            self._seen_ms = self._clock.monotonic_ms()
        self._timer = self._timers.call_later(self._stall_ms / _TICKS, self.start)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._confirming is not None:
            self._confirming.cancel()

    async def _find_out(self) -> None:
        while True:
            began_ms = self._clock.monotonic_ms()
            try:
                confirmed = await self._confirm()
            except Exception:  # without an answer the refusals would last for ever
                _log.exception("the metadata could not be confirmed; trying again")
                confirmed = False
            now_ms = self._clock.monotonic_ms()
            if confirmed and now_ms - began_ms <= self._stall_ms:
                break
            await self._pause()
        self._seen_ms, self._confirming = now_ms, None

    async def _pause(self) -> None:
        over = asyncio.Event()
        self._timers.call_later(RETRY_MS, over.set)
        await over.wait()


def never() -> bool:
    """The guard of a broker that nobody can depose."""
    return False
