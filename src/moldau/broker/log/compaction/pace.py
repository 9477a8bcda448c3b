"""Limits how fast a job reads and writes, stops it, and reports its progress.

A token bucket: the bytes that a second allows come in steadily, up to a tenth of a second's worth is saved
up, and a job that has taken more sleeps until it is made up for. The sleep is cut into short pieces, so that
a job can be stopped at any time.
"""

import math
from collections.abc import Callable

from moldau.broker.log.compaction.job import Cancelled, OnProgress, Progress

_SLEEP_SECONDS_MIN = 0.001
_SLEEP_SECONDS_MAX = 0.1
_SAVED_SECONDS = 0.1
_PROGRESS_SECONDS = 0.25

MAPPING, CLEANING = "mapping", "cleaning"


class JobPace:
    """One job's pace. `monotonic` gives seconds; `cancelled` is asked often."""

    def __init__(
        self,
        bytes_per_second: float,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
        on_progress: OnProgress,
        cancelled: Callable[[], bool],
    ) -> None:
        self._rate = bytes_per_second
        self._monotonic = monotonic
        self._sleep = sleep
        self._on_progress = on_progress
        self._cancelled = cancelled
        self._saved = bytes_per_second * _SAVED_SECONDS
        self._told_seconds = self._filled_seconds = monotonic()
        self.phase = MAPPING
        self.bytes_total = 0
        self.read_bytes = 0
        self.written_bytes = 0

    def read(self, size_bytes: int) -> None:
        """So many bytes have been read; raises `Cancelled`."""
        self.read_bytes += size_bytes
        self._spend(size_bytes)
        now = self._monotonic()
        if now - self._told_seconds >= _PROGRESS_SECONDS:
            self._told_seconds = now
            self._on_progress(Progress(self.phase, self.read_bytes, self.bytes_total))

    def wrote(self, size_bytes: int) -> None:
        """So many bytes have been written; raises `Cancelled`."""
        self.written_bytes += size_bytes
        self._spend(size_bytes)

    def _spend(self, size_bytes: int) -> None:
        self._check()
        if self._rate == math.inf:
            return
        self._saved -= size_bytes
        self._fill()
        while self._saved < 0:
            debt_seconds = -self._saved / self._rate
            self._sleep(min(max(debt_seconds, _SLEEP_SECONDS_MIN), _SLEEP_SECONDS_MAX))
            self._check()
            self._fill()

    def _fill(self) -> None:
        now = self._monotonic()
        earned = (now - self._filled_seconds) * self._rate
        self._saved = min(self._saved + earned, self._rate * _SAVED_SECONDS)
        self._filled_seconds = now

    def _check(self) -> None:
        if self._cancelled():
            raise Cancelled("the job was told to stop")
