"""Which log is cleaned next, and how far: pure, by the rules of Kafka's cleaner.

    |-- clean ------------|-- dirty, cleanable -------|-- not yet ----------|
    log start             first dirty offset          first uncleanable     end
                          (checkpoint)

Cleanable are closed segments that end at or below all of these: the last stable offset (what lies above may
still be taken back, or be of an open transaction), the first segment with a record younger than
min.compaction.lag.ms, and the recovery point. The last is our own: cleaning an old segment removes a value
because a newer one lies in a later segment, and if a power cut could take that one, both would be gone.

A log is due when the dirty share of what would be read exceeds min.cleanable.dirty.ratio, or when its first
dirty record is older than max.compaction.lag.ms. Of those that are due the dirtiest comes first.

Not here: taking the facts from a log, and all that follows (cleaner.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from moldau.common.settings.topic import TopicSettings


class ClosedSegment(NamedTuple):
    """A segment that no longer grows."""

    base_offset: int
    end_offset: int
    """The next segment's base offset."""
    size_bytes: int
    newest_ms: int
    """The largest timestamp, or when the file was last written if its records carry none."""
    first_ms: int
    """The first batch's largest timestamp; -1 when it has none or the value is not needed."""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What decides about a log."""

    settings: TopicSettings
    closed: Sequence[ClosedSegment]
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    recovery_point: int
    checkpoint: int | None
    """The first dirty offset that was written down, if one was."""


class Range(NamedTuple):
    """What cleaning a log now would look at."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    checkpoint_is_wrong: bool
    """The first dirty offset that was written down lies outside the log."""
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    """For how long the oldest dirty record has been past max.compaction.lag.ms; 0 when it is not."""
    due: bool

    @property
    def dirty_ratio(self) -> float:
        """The dirty share of what cleaning would read, 0 to 1."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def examine(log: LogFacts, now_ms: int) -> Range:
    """How far the log can be cleaned, and whether it should be."""
    first_dirty, wrong = _first_dirty(log)
    first_uncleanable = max(first_dirty, _first_uncleanable(log, first_dirty, now_ms))
    clean_bytes = sum(each.size_bytes for each in log.closed if each.end_offset <= first_dirty)
    cleanable = [each for each in log.closed if first_dirty < each.end_offset <= first_uncleanable]
    cleanable_bytes = sum(each.size_bytes for each in cleanable)
    overdue_ms = _overdue_ms(log, first_dirty, now_ms)
    found = Range(first_dirty, first_uncleanable, wrong, clean_bytes, cleanable_bytes, overdue_ms, due=False)
    due = log.settings.compacts and cleanable_bytes > 0
    enough = overdue_ms > 0 or found.dirty_ratio > log.settings.min_cleanable_dirty_ratio
    return found._replace(due=due and enough)


def _first_dirty(log: LogFacts) -> tuple[int, bool]:
    if log.checkpoint is None:
        return log.log_start_offset, False
    if log.log_start_offset <= log.checkpoint <= log.log_end_offset:
        return log.checkpoint, False
    return log.log_start_offset, True


def _first_uncleanable(log: LogFacts, first_dirty: int, now_ms: int) -> int:
    """The end of the last closed segment that may be cleaned, of those that follow one another from the
    first on.
    """
    decided = min(log.last_stable_offset, log.recovery_point)
    lag_ms = log.settings.min_compaction_lag_ms
    end = log.log_start_offset
    for each in log.closed:
        too_young = lag_ms > 0 and each.end_offset > first_dirty and each.newest_ms > now_ms - lag_ms
        if each.end_offset > decided or too_young:
            break
        end = each.end_offset
    return end


def _overdue_ms(log: LogFacts, first_dirty: int, now_ms: int) -> int:
    dirty = (each.first_ms for each in log.closed if each.end_offset > first_dirty and each.first_ms > 0)
    oldest_ms = min(dirty, default=None)
    if oldest_ms is None:
        return 0
    return max(0, now_ms - log.settings.max_compaction_lag_ms - oldest_ms)


def dirtiest(ranges: Iterable[Range]) -> Range | None:
    """The one to clean first, among those that are due."""
    return max((each for each in ranges if each.due), key=lambda each: each.dirty_ratio, default=None)
