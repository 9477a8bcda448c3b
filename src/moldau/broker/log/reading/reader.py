"""Reads a log by offset: whole batches, from the one that contains the offset asked for, up to a limit.

A consumer that reads on asks for the offset where its last read ended. So the place of every read's end is
remembered (`_cursors`), and the next read neither searches an index nor walks. Where the end of a read must
be found in the middle of a segment, the index gives a batch close to it, and only the few headers after that
are walked. Whatever comes from a file is checked by its headers (header_check.py), which also finds where the
last whole batch of a piece ends.

HOT: `read`. Budget with the fetch: 27 reference loops for one record (bench/hot_path.py). Measured: a read at
the tail (one small batch, from the last write) 2 microseconds; pieces of 1 MiB 0.15 CPU seconds a gigabyte,
of which the system call is 0.08.

Invariants: never a byte beyond what is written, nor a part of a batch; a remembered place is where a batch
begins whose offsets are not below the one that it is remembered for. Not here: who may see how much
(replication/).
"""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from moldau.broker.log.appending.header_check import good_part
from moldau.broker.log.files.segment import LOG_SUFFIX, CorruptSegment, Segment
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.common.records.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD

logger = logging.getLogger("moldau.log.reader")

CURSORS_MAX = 64
UNREADABLE_MAX = 16
"""Of more such batches in one log nothing new is learned."""
_NONE_UNREADABLE: Mapping[int, tuple[int, str]] = MappingProxyType({})
LATEST_BYTES_MAX = 4096

Chunk: TypeAlias = bytes | memoryview


class OffsetOutOfRange(Exception):
    """The offset asked for lies before the log's start or behind its end; answered with
    OFFSET_OUT_OF_RANGE.
    """


class Reader:
    """Reads from a log's segments. The log keeps `start_offset` and `end_offset` (written, not staged) up to
    date.
    """

    __slots__ = (
        "_cursors",
        "_epochs",
        "aborts",
        "aborts_known",
        "changes",
        "end_offset",
        "latest",
        "latest_position",
        "read_end",
        "segments",
        "start_offset",
        "unreadable",
    )

    def __init__(
        self, segments: Sequence[Segment], start_offset: int, end_offset: int, epochs: LeaderEpochs
    ) -> None:
        """`segments` is the log's own list, in order, never empty; so are `epochs`."""
        self.segments = segments
        self._epochs = epochs
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.latest: bytes | bytearray = b""
        """The bytes of the last write, if they are few: a read at the tail then needs no system call."""
        self.latest_position = -1
        """Where in the last segment they stand; -1: they are not kept."""
        self.read_end = start_offset
        """The offset behind what the last read returned."""
        self.aborts: list[Segment] = []
        """Of the first `aborts_known` segments, which all are full, those with aborted transactions."""
        self.aborts_known = 0
        self.changes = 0
        """How often segments were truncated, replaced or removed: a paused search must then begin again.
        """
        self.unreadable: Mapping[int, tuple[int, str]] = _NONE_UNREADABLE
        """By base offset, a batch's last offset and why no consumer can read it: those that were met."""
        self._cursors: dict[int, tuple[Segment, int]] | None = None

    def read(self, offset: int, max_bytes: int, *, end_offset: int, min_one_batch: bool = True) -> Chunk:
        """Batches from the one that contains `offset`, all before `end_offset`, together at most `max_bytes`.

        With `min_one_batch` the first is returned even if it alone is larger. Empty when there is nothing to
        read below `end_offset`. Raises OffsetOutOfRange, and OSError when the disk fails.
        """
        end = self.end_offset
        if not self.start_offset <= offset <= end:
            raise OffsetOutOfRange
        end = min(end, end_offset)
        if offset >= end:
            return b""
        cursor = self._cursors.get(offset) if self._cursors else None
        offset_min = offset
        if cursor is None or cursor[1] >= cursor[0].size_bytes:
            cursor, offset_min = self._locate(offset)
        segment, position = cursor
        if end == self.end_offset and segment is self.segments[-1]:
            stop = segment.size_bytes
            next_offset = end
        else:
            stop, next_offset = self._stop(segment, end)
        size = stop - position
        if size > max_bytes or not size:
            return self._read_piece(
                segment, position, max_bytes, stop, offset_min, next_offset, min_one_batch
            )
        if position == self.latest_position and size == len(self.latest) and segment is self.segments[-1]:
            self._remember(next_offset, segment, stop)
            return memoryview(self.latest)
        segment.touched = True
        data = segment.read(position, size)
        if len(data) != size:
            raise CorruptSegment(f"{segment} is shorter than it was")
        good, behind = good_part(
            segment, position, data, size, offset_min, next_offset, self._epochs, exact=True
        )
        self._remember(behind, segment, position + good)
        return data if good == size else memoryview(data)[:good]

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        self.read_end = offset
        cursors = self._cursors
        if cursors is None:
            cursors = self._cursors = {}
        elif len(cursors) >= CURSORS_MAX and offset not in cursors:
            del cursors[next(iter(cursors))]
        cursors[offset] = (segment, position)

    def note_unreadable(self, base_offset: int, last_offset: int, reason: str) -> None:
        """No consumer can read this batch's records: for health, and the log, once."""
        noted = self.unreadable_from(self.start_offset)
        if base_offset in noted or len(noted) >= UNREADABLE_MAX:
            return
        self.unreadable = {**noted, base_offset: (last_offset, reason)}
        path = self.segments[self.segment_index(base_offset)].path(LOG_SUFFIX)
        logger.warning("%s: no consumer can read the batch at offset %d: %s", path, base_offset, reason)

    def unreadable_from(self, start_offset: int) -> Mapping[int, tuple[int, str]]:
        """`unreadable` without the batches that end below `start_offset`."""
        unreadable = self.unreadable
        if not unreadable:
            return unreadable
        return {base: noted for base, noted in unreadable.items() if noted[0] >= start_offset}

    def forget_unreadable(self) -> None:
        """The log is truncated: what is still there will be met again."""
        self.unreadable = _NONE_UNREADABLE

    def forget(self) -> None:
        """The log was truncated or segments replaced: drop remembered positions."""
        self.changes += 1
        self._cursors = None
        self.aborts, self.aborts_known = [], 0
        self.latest, self.latest_position = b"", -1

    def _index(self, offset: int) -> int:
        """The place in the list of the last segment that begins at or before `offset`."""
        segments = self.segments
        if offset >= segments[-1].base_offset:
            return len(segments) - 1
        low, high = 0, len(segments) - 1
        while low < high:
            middle = (low + high) // 2
            if segments[middle].base_offset <= offset:
                low = middle + 1
            else:
                high = middle
        return max(0, low - 1)

    def segment_index(self, offset: int) -> int:
        """The place in the list of the segment that holds `offset`."""
        return self._index(offset)

    def _locate(self, offset: int) -> tuple[tuple[Segment, int], int]:
        """Where the first batch that ends at or after `offset` begins, and an offset that it does not begin
        before. (Compaction may have left gaps.)
        """
        segments = self.segments
        index = self._index(offset)
        segment = segments[index]
        if segment.base_offset == offset and segment.size_bytes:
            return (segment, 0), offset
        found = segment.locate(offset)
        if found is not None:
            place = found[0]
            if place.base_offset >= offset:
                self._remember(offset, segment, place.position)  # who gets nothing new asks here again
            return (segment, place.position), found[1]
        for segment in segments[index + 1 :]:
            if segment.size_bytes:
                return (segment, 0), segment.base_offset
        # Compaction has taken all that was at or after this offset: there will be more at the end.
        return (segments[-1], segments[-1].size_bytes), offset

    def _stop(self, segment: Segment, end: int) -> tuple[int, int]:
        """Where reading from this segment must stop for the sake of `end`, and which offset follows."""
        index = self._index(segment.base_offset)
        last = index + 1 == len(self.segments)
        segment_end = self.end_offset if last else self.segments[index + 1].base_offset
        if end >= segment_end:
            return segment.size_bytes, segment_end
        cursor = self._cursors.get(end) if self._cursors else None
        if cursor is not None and cursor[0] is segment:
            return cursor[1], end
        place = segment.find(end)
        stop = place.position if place is not None else segment.size_bytes
        if place is None or place.base_offset >= end:
            self._remember(end, segment, stop)
        return stop, end

    def _read_piece(
        self,
        segment: Segment,
        position: int,
        max_bytes: int,
        stop: int,
        offset_min: int,
        offset_max: int,
        min_one_batch: bool,
    ) -> Chunk:
        """The whole batches among the next `max_bytes`; more follow before `stop`."""
        if position >= stop:
            return b""  # `end` lies inside this batch
        segment.touched = True
        max_bytes = max(max_bytes, 0)  # a client may ask for less than nothing
        # With the header behind the last batch, which shows whether that one is right.
        wanted_bytes = min(max_bytes + HEADER_BYTES, stop - position)
        data = segment.read(position, wanted_bytes)
        if len(data) < wanted_bytes:
            raise CorruptSegment(f"{segment} is shorter than it was")
        size, next_offset = good_part(
            segment, position, data, max_bytes, offset_min, offset_max, self._epochs
        )
        if not size:
            if not min_one_batch:
                return b""
            if len(data) < HEADER_BYTES:
                raise CorruptSegment(f"{segment} ends with a part of a batch, at position {position}")
            # The first batch alone, however large it is, and the header behind it.
            size = HEADER.unpack_from(data)[1] + LENGTH_OVERHEAD
            data = segment.read(position, min(size + HEADER_BYTES, stop - position))
            size, next_offset = good_part(
                segment, position, data, size, offset_min, offset_max, self._epochs, exact=True
            )
        self._remember(next_offset, segment, position + size)
        return memoryview(data)[:size]
