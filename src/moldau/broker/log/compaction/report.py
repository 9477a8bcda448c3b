"""Compaction's counters and state: written by the cleaner, read by metrics, health and `moldau status`.

Times are the clock's monotonic milliseconds unless a name says otherwise. Totals only grow.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.broker.log.compaction.job import CleanJob, CleanResult, Progress
from moldau.broker.log.compaction.selection import Range
from moldau.common.core.clock import Clock

Key = tuple[str, int]


@dataclass(slots=True)
class Running:
    """One log that is being cleaned now."""

    key: Key
    started_ms: float
    progress: Progress = field(default=Progress("mapping", 0, 0))

    @property
    def share(self) -> float:
        """How much is done, 0 to 1."""
        return (
            min(1.0, self.progress.bytes_done / self.progress.bytes_total)
            if self.progress.bytes_total
            else 0.0
        )


class LastClean(NamedTuple):
    """One clean that has been swapped in."""

    key: Key
    at_ms: int
    """Wall-clock time, since 1970."""
    job: CleanJob
    result: CleanResult


class Trouble(NamedTuple):
    """A log that could not be cleaned."""

    key: Key
    cause: str
    retry_at_ms: float


@dataclass(slots=True)
class Totals:
    """What all cleans since the start have done."""

    cleans: int = 0
    failures: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    seconds: float = 0.0
    workers_lost: int = 0


class CompactionReport:
    """The present state, and what has been."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.running: dict[Key, Running] = {}
        self.last: LastClean | None = None
        self.totals = Totals()
        self.seconds_max = 0.0
        self._looked_ms = clock.monotonic_ms()
        self._ranges: Mapping[Key, Range] = {}
        self._due_since_ms: dict[Key, float] = {}
        self._trouble: dict[Key, Trouble] = {}

    # -- told by the cleaner -----------------------------------------------------------------------

    def looking(self) -> None:
        """The logs are being gone through."""
        self._looked_ms = self._clock.monotonic_ms()

    def looked(self, ranges: Mapping[Key, Range]) -> None:
        """What was found."""
        self._ranges = ranges
        now_ms = self._clock.monotonic_ms()
        self._due_since_ms = {
            key: self._due_since_ms.get(key, now_ms) for key, each in ranges.items() if each.due
        }

    def mark_present(self, keys: Collection[Key]) -> None:
        """Forget all other logs."""
        self._trouble = {key: each for key, each in self._trouble.items() if key in keys}

    def cleaned(self, last: LastClean) -> None:
        """A clean has been swapped in."""
        self.last = last
        self._trouble.pop(last.key, None)
        self._due_since_ms.pop(last.key, None)
        done, totals = last.result.statistics, self.totals
        totals.cleans += 1
        totals.bytes_read += done.mapped_bytes + done.bytes_in
        totals.bytes_written += done.bytes_out
        totals.records_read += done.records_in
        totals.records_written += done.records_out
        totals.seconds += done.seconds
        self.seconds_max = max(self.seconds_max, done.seconds)

    def failed(self, trouble: Trouble, *, worker_lost: bool) -> None:
        """A log could not be cleaned, and is not tried again before this time."""
        self.totals.failures += 1
        self.totals.workers_lost += worker_lost
        self._trouble[trouble.key] = trouble

    # -- asked ---------------------------------------------------------------------------------------

    def in_trouble(self, key: Key) -> bool:
        """Whether the log must not be tried yet."""
        trouble = self._trouble.get(key)
        return trouble is not None and self._clock.monotonic_ms() < trouble.retry_at_ms

    @property
    def troubles(self) -> list[Trouble]:
        """The logs that could not be cleaned when that was last tried."""
        return list(self._trouble.values())

    def uncleanable_bytes(self) -> int:
        """The dirty bytes of these logs."""
        return sum(self._ranges[key].cleanable_bytes for key in self._trouble if key in self._ranges)

    @property
    def since_look_ms(self) -> float:
        """Milliseconds since all logs were last examined."""
        return self._clock.monotonic_ms() - self._looked_ms

    @property
    def dirty_ratio_max(self) -> float:
        """Of the dirtiest log, 0 to 1."""
        return max((each.dirty_ratio for each in self._ranges.values()), default=0.0)

    @property
    def overdue_ms_max(self) -> int:
        """How far max.compaction.lag.ms is exceeded somewhere."""
        return max((each.overdue_ms for each in self._ranges.values()), default=0)

    def backlog(self) -> tuple[int, int]:
        """How many logs wait for their clean, and how many bytes they have to be read."""
        waiting = [each for key, each in self._ranges.items() if each.due and key not in self.running]
        return len(waiting), sum(each.clean_bytes + each.cleanable_bytes for each in waiting)

    def longest_due(self) -> tuple[Key, float] | None:
        """The log that has been waiting longest for its clean, and for how many milliseconds."""
        if not self._due_since_ms:
            return None
        key = min(self._due_since_ms, key=self._due_since_ms.__getitem__)
        return key, self._clock.monotonic_ms() - self._due_since_ms[key]

    def bytes_per_second(self, running: Running) -> float:
        """How fast this one reads and writes, since it began."""
        elapsed_ms = self._clock.monotonic_ms() - running.started_ms
        return running.progress.bytes_done * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0

    def document(self) -> dict[str, object]:
        """As the health page shows it; rates in bytes a second, shares from 0 to 1."""
        logs, waiting_bytes = self.backlog()
        last = self.last
        return {
            "running": [
                {
                    "partition": _name(each.key),
                    "phase": each.progress.phase,
                    "progress": round(each.share, 4),
                    "bytes_done": each.progress.bytes_done,
                    "bytes_total": each.progress.bytes_total,
                    "bytes_per_second": round(self.bytes_per_second(each)),
                }
                for each in list(self.running.values())
            ],
            "backlog": {"partitions": logs, "bytes": waiting_bytes},
            "uncleanable": [
                {"partition": _name(each.key), "cause": each.cause} for each in self._trouble.values()
            ],
            "cleans": self.totals.cleans,
            "last": None
            if last is None
            else {
                "partition": _name(last.key),
                "at_ms": last.at_ms,
                "seconds": round(last.result.statistics.seconds, 3),
                "bytes_before": last.result.statistics.bytes_in,
                "bytes_after": last.result.statistics.bytes_out,
                "records_before": last.result.statistics.records_in,
                "records_after": last.result.statistics.records_out,
            },
        }


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
