"""Cuts what is damaged out of a partition's segments when the log is opened.

A log without other replicas keeps as much as it can. Behind the recovery point a crash may have torn
anything, so the log ends at the damage and the rest goes; before it, later segments were on the disk and
stay, and whole batches behind the damage get a segment of their own:

    |  segment 0  |  segment 40 ~~~|  segment 80  |  segment 120  ..~~~
                    cut at 61,      80 and 120 stay    ^ recovery point    cut here

A log with other replicas ends at the first damage, wherever that is: a follower fetches from its end on, and
would never fill a gap.

Bytes that may hold records are kept aside (damage.py). Not here: finding damage (checked_scan.py,
segment_end.py).
"""

import logging

from moldau.broker.log.files.segment import LOG_SUFFIX, Segment, file_name
from moldau.broker.log.recovery.damage import (
    Damage,
    copy_tail,
    keep_segment,
    keep_tail,
    next_whole,
    records_behind,
    whole_batch,
)
from moldau.broker.log.recovery.found_segments import FoundSegments
from moldau.broker.log.recovery.rebuild import cut_segment

logger = logging.getLogger("moldau.log.cutting")


class Cutting:
    """Cuts one partition's segments."""

    def __init__(self, found: FoundSegments, *, sole_copy: bool) -> None:
        self._found = found
        self._sole_copy = sole_copy

    def log_goes_on(self, index: int, damage: Damage, end_offset: int, flushed_offset: int) -> bool:
        """Whether the log continues behind this damage, because it lies below the recovery point and so was
        not torn by the crash.
        """
        if not self._sole_copy or end_offset >= flushed_offset:
            return False
        return self.split(index, damage, end_offset) or self._found.limit(index) <= flushed_offset

    def split(self, index: int, damage: Damage, end_offset: int) -> bool:
        """Give the whole batches behind the damage a segment of their own; whether there are any."""
        segment = self._found.segments[index]
        found = next_whole(segment, damage.position, end_offset, self._found.limit(index))
        if found is None or found[1] == segment.base_offset:
            return False
        position, base_offset = found
        fresh = self._found.new_segment(base_offset)
        copy_tail(self._found.files, segment, position, fresh.path(LOG_SUFFIX))
        fresh.size_bytes = segment.size_bytes - position
        self._found.segments.insert(index + 1, fresh)
        self._found.unindexed.add(fresh)
        if segment in self._found.rescanned:
            self._found.rescanned.add(fresh)
        return True

    def cut_within(self, index: int, damage: Damage, end_offset: int) -> None:
        """Cut a segment whose successors stay: a gap is left, as compaction leaves them."""
        segment = self._found.segments[index]
        lost = segment.size_bytes - damage.position
        kept = keep_tail(self._found.files, segment, damage.position)
        cut_segment(segment, damage.position, end_offset)
        segment.sync()
        self._found.files.sync_directory(self._found.directory)
        self._count(lost, damage)
        logger.error(
            "%s: %d bytes were cut off in %s at position %d: %s. Offsets %d to %d are lost, which were on "
            "the disk before; readers go on behind them%s",
            self._found.name,
            lost,
            file_name(segment.base_offset, LOG_SUFFIX),
            damage.position,
            damage.reason,
            end_offset,
            self._found.limit(index) - 1,
            f". What was cut off is kept in {kept}" if kept else "",
        )

    def cut_end(self, index: int, damage: Damage) -> None:
        """Cut the segment at the damage; everything behind it goes, and is kept aside if it holds records."""
        segment = self._found.segments[index]
        lost = segment.size_bytes - damage.position
        kept: list[str] = []
        if index and not damage.position:
            # Nothing of it is good: the log goes on in the segment before.
            self._take_out(segment, kept)
            del self._found.segments[index]
            index -= 1
        else:
            behind = records_behind(segment, damage.position)
            if behind is not None:
                self._found.hinted_end_offset = max(self._found.hinted_end_offset, behind)
                path = keep_tail(self._found.files, segment, damage.position)
                if path is not None:
                    kept.append(path)
            segment.cut(damage.position)
            segment.sync()
        for later in self._found.segments[index + 1 :]:
            lost += later.size_bytes
            self._take_out(later, kept)
        del self._found.segments[index + 1 :]
        self._found.files.sync_directory(self._found.directory)
        self._count(lost, damage)
        self._found.records_cut |= bool(kept)
        logger.log(
            logging.ERROR if kept else logging.WARNING,
            "%s: %d bytes were cut off in %s at position %d: %s. Everything before was checked and is "
            "kept.%s",
            self._found.name,
            lost,
            file_name(segment.base_offset, LOG_SUFFIX),
            damage.position,
            damage.reason,
            f" Whole batches stood behind it: they are kept in {', '.join(kept)}" if kept else "",
        )

    def _take_out(self, segment: Segment, kept: list[str]) -> None:
        if segment.size_bytes and whole_batch(segment, 0) is not None:
            self._found.hinted_end_offset = max(
                self._found.hinted_end_offset, records_behind(segment, 0) or 0
            )
            kept.append(keep_segment(self._found.files, segment))
        else:
            segment.remove()

    def _count(self, lost_bytes: int, damage: Damage) -> None:
        self._found.bytes_truncated += lost_bytes
        self._found.truncated_because = self._found.truncated_because or damage.reason
