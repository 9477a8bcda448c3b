"""Measures the event loop's lag and CPU use, and detects a wall clock that was set back, with one small
timer.

Ten times a second the sampler asks to be called after 100 ms. The difference to the real time is what every
request of that moment waited, too. The same call reads the loop thread's CPU time and the two clocks: if the
wall clock moved less than the monotonic one, it was set back.

Costs about 10 us of CPU a second. Not here: the limit for the lag (probes).
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers

_INTERVAL_MS = 100.0
_WINDOW_SAMPLES = 600
_JUMP_MS_MIN = 1_000.0


class Lag(NamedTuple):
    """The lag over the last minute, in milliseconds, and the number of samples."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    sample_count: int


class ClockJump(NamedTuple):
    """The wall clock went back by `back_ms`, detected at this monotonic time."""

    back_ms: float
    noticed_ms: float


class LoopLag:
    """Samples the event loop from `start` to `stop`."""

    def __init__(self, clock: Clock, timers: Timers, thread_seconds: Callable[[], float]) -> None:
        """`thread_seconds` gives the CPU time of the calling thread, which is the loop's."""
        self._clock = clock
        self._timers = timers
        self._thread_seconds = thread_seconds
        self._samples: deque[float] = deque(maxlen=_WINDOW_SAMPLES)
        self._busy: deque[tuple[float, float]] = deque(maxlen=_WINDOW_SAMPLES)
        self._timer: TimerHandle | None = None
        self._asked_ms = 0.0
        self._wall_ms = 0
        self.jump: ClockJump | None = None

    def start(self) -> None:
        """Start sampling."""
        self._ask()

    def stop(self) -> None:
        """Stop sampling."""
        if self._timer is not None:
            self._timer.cancel()

    def _ask(self) -> None:
        self._asked_ms = self._clock.monotonic_ms()
        self._wall_ms = self._clock.now_ms()
        self._timer = self._timers.call_later(_INTERVAL_MS, self._sample)

    def _sample(self) -> None:
        now_ms = self._clock.monotonic_ms()
        passed_ms = now_ms - self._asked_ms
        self._samples.append(max(0.0, passed_ms - _INTERVAL_MS))
        self._busy.append((now_ms, self._thread_seconds() * 1000))
        back_ms = passed_ms - (self._clock.now_ms() - self._wall_ms)
        if back_ms > _JUMP_MS_MIN:
            self.jump = ClockJump(back_ms, now_ms)
        self._ask()

    def lag(self) -> Lag:
        """The lag over the last minute; zeros before the first sample."""
        ordered = sorted(self._samples)
        if not ordered:
            return Lag(0.0, 0.0, 0.0, 0)
        last = len(ordered) - 1
        return Lag(ordered[last // 2], ordered[int(last * 0.99)], ordered[-1], len(ordered))

    def idle_ratio(self) -> float:
        """The share of the last minute in which the loop's thread used no CPU, from 0 to 1."""
        if len(self._busy) < 2:
            return 1.0
        (first_ms, first_cpu_ms), (last_ms, last_cpu_ms) = self._busy[0], self._busy[-1]
        if last_ms <= first_ms:
            return 1.0
        return min(1.0, max(0.0, 1.0 - (last_cpu_ms - first_cpu_ms) / (last_ms - first_ms)))
