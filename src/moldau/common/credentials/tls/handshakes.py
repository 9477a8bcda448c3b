"""Handshakes in worker threads, so that a thousand connections at once do not stop the event loop.

One step of a handshake is a millisecond of arithmetic (RSA) or a third of that (elliptic curves), in which
OpenSSL holds no lock of Python's. Steps wait here in the order in which they came; `JOB_STEPS_MAX` of them
are one job, and `jobs_max` jobs run at a time:

    waiting  | a | b | c | d | e | ...      -> job: a, b, c, d -> on the loop: results of a, b, c, d

So a storm takes the time of one core or two, the loop a tenth of a millisecond for each connection, and other
connections' requests go on meanwhile. The threads are this class's own: the broker's workers write to disks.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from moldau.common.core.workers import Pool

JOB_STEPS_MAX = 4
_JOBS_MAX = 2


class HandshakeStep(Protocol):
    """A connection that shakes hands."""

    def compute(self) -> None:
        """Take one step, in a worker. It raises nothing, and keeps the outcome for `computed`."""

    def computed(self) -> None:
        """The step is taken: go on, on the event loop."""


class Handshakes:
    """The handshakes of one program."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: Pool, jobs_max: int = _JOBS_MAX) -> None:
        """Threads start with the first handshake."""
        self._loop = loop
        self._pool = pool
        self._jobs_max = jobs_max
        self._executor: Executor | None = None
        self._waiting: deque[HandshakeStep] = deque()
        self._jobs = 0
        self._closed = False

    @property
    def waiting_count(self) -> int:
        """How many steps wait for a worker."""
        return len(self._waiting)

    def take_step(self, step: HandshakeStep) -> None:
        """Have one step computed, after those that wait."""
        if not self._closed:
            self._waiting.append(step)
            self._start_jobs()

    def close(self) -> None:
        """Take no more steps; those that wait are forgotten."""
        self._closed = True
        self._waiting.clear()
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    def _start_jobs(self) -> None:
        if self._executor is None:
            self._executor = self._pool(self._jobs_max)
        while self._waiting and self._jobs < self._jobs_max:
            count = min(len(self._waiting), JOB_STEPS_MAX)
            steps = [self._waiting.popleft() for _ in range(count)]
            self._jobs += 1
            job = self._loop.run_in_executor(self._executor, _job(steps))
            job.add_done_callback(lambda done, steps=steps: self._job_done(steps))  # type: ignore[misc]

    def _job_done(self, steps: list[HandshakeStep]) -> None:
        self._jobs -= 1
        if self._closed:
            return
        self._start_jobs()
        for step in steps:
            step.computed()


def _job(steps: list[HandshakeStep]) -> Callable[[], None]:
    def run() -> None:
        for step in steps:
            step.compute()

    return run
