"""Loads a segment's indexes when the log is opened, and rebuilds those that do not fit the batches.

Offset and time index can be rebuilt from the batches' headers. The index of aborted transactions also needs
the producers' state: it is only marked for a rebuild here (rebuild.py).

Not here: how a segment ends (segment_end.py), the index files (files/index.py, transaction_index.py).
"""

import logging

from moldau.broker.log.files.segment import LOG_SUFFIX, Segment, file_name
from moldau.broker.log.recovery.found_segments import FoundSegments
from moldau.broker.log.recovery.segment_end import (
    SegmentEnd,
    WrongIndex,
    first_timestamp_ms,
    rebuild_index,
    walk_end,
)
from moldau.broker.log.state.transaction_index import DamagedIndex
from moldau.common.records.batch import HEADER_BYTES, NO_TIMESTAMP

logger = logging.getLogger("moldau.log.index_check")


class IndexCheck:
    """Checks the indexes of one partition's segments."""

    def __init__(self, found: FoundSegments) -> None:
        self._found = found

    def take_up(self, segment: Segment, limit_offset: int) -> SegmentEnd:
        """Load the segment's indexes, rebuild what is missing or wrong; how the segment ends."""
        why = ""
        if not segment.offset_index.load() or not segment.time_index.load():
            why = "one is missing, or not in order"
        try:
            segment.transaction_index.load(segment.base_offset)
        except DamagedIndex as error:
            logger.warning("%s: an index is rebuilt: %s", self._found.name, error)
            self._found.unindexed.add(segment)
        if not why:
            try:
                end = walk_end(segment, limit_offset)
            except WrongIndex as error:
                why = str(error)
            else:
                why = self._emptied(segment, end)
                if not why:
                    self._take_up_timestamps(segment)
                    return self._rebuild_indexes(segment, limit_offset) if self._sparse(segment, end) else end
        if segment.size_bytes:
            log_name = file_name(segment.base_offset, LOG_SUFFIX)
            logger.warning("%s: the indexes of %s are rebuilt: %s", self._found.name, log_name, why)
            self._found.unindexed.add(segment)
        return self._rebuild_indexes(segment, limit_offset)

    def _rebuild_indexes(self, segment: Segment, limit_offset: int) -> SegmentEnd:
        self.forget(segment)
        end = rebuild_index(segment, limit_offset, self._found.settings.index_interval_bytes)
        segment.first_timestamp_ms = first_timestamp_ms(segment)
        if segment.size_bytes:
            segment.finish()
        return end

    def forget(self, segment: Segment) -> None:
        """Empty the offset and the time index."""
        segment.offset_index.keep(0)
        segment.time_index.keep(0)
        segment.max_timestamp_ms, segment.max_timestamp_offset = NO_TIMESTAMP, segment.base_offset

    def trusted_position(self, segment: Segment, recovery_point: int) -> int:
        """A batch's beginning at or below the recovery point, from which on the segment is read; 0 at worst.

        Index entries below it are kept, if they are plausible; all others go.
        """
        offset_index, time_index = segment.offset_index, segment.time_index
        kept = (0, 0)
        if recovery_point > segment.base_offset and offset_index.load() and time_index.load():
            relative = recovery_point - segment.base_offset
            offset_index.keep(offset_index.count_below_key(relative))
            last = offset_index.last()
            if last is not None and last[1] + HEADER_BYTES <= segment.size_bytes:
                kept = last
        if not kept[1]:
            self.forget(segment)
            return 0
        time_index.keep(time_index.count_below_value(kept[0] + 1))
        self._take_up_timestamps(segment)
        return kept[1]

    def _take_up_timestamps(self, segment: Segment) -> None:
        newest = segment.time_index.last()
        if newest is not None:
            segment.max_timestamp_ms = newest[0]
            segment.max_timestamp_offset = segment.base_offset + newest[1]

    def _emptied(self, segment: Segment, end: SegmentEnd) -> str:
        """Whether the time index holds less than it must: nothing in spite of timestamps."""
        newest = segment.time_index.last()
        if end.last is None:
            return ""
        if newest is None:
            return "the time index is empty" if end.last.max_timestamp_ms >= 0 else ""
        if segment.base_offset + newest[1] >= end.next_offset:
            return f"the time index names offset {segment.base_offset + newest[1]}"
        return ""

    def _sparse(self, segment: Segment, end: SegmentEnd) -> bool:
        """Whether an offset index without entries is worth a rebuild. No sign of damage: a few batches
        between two starts each leave none, and the interval may have been longer.
        """
        if end.last is None or len(segment.offset_index):
            return False
        return end.last.position > self._found.settings.index_interval_bytes
