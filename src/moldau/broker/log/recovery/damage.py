"""Finds whole batches behind damage, and saves what is cut off to `.damaged` files.

Bytes that recovery cuts off and that may hold records go to a file of their own, which the broker never reads
again and never removes:

    00000000000000000042.log.5310.damaged      what stood in the segment from position 5310 on
    00000000000000000099.log.damaged           a whole segment

What a crash leaves of a write that was under way (half a batch, zeros) holds no record and is not kept.

Not here: finding the damage (checked_scan.py, segment_end.py), deciding on it (recovery.py).
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from moldau.broker.log.files.index import OffsetIndex
from moldau.broker.log.files.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    SEGMENT_SUFFIXES,
    Segment,
)
from moldau.common.core.crc import crc32c
from moldau.common.core.files import Files, write_fully
from moldau.common.records.batch import HEADER, HEADER_BYTES, LENGTH_MIN, LENGTH_OVERHEAD, MAGIC

DAMAGED_SUFFIX = ".damaged"
_COPY_BYTES = 1024 * 1024
_INDEX_ENTRIES_TRIED = 64
_HEADERS_TRIED = 64


class Damage(NamedTuple):
    """Where a segment stops being good, and why."""

    position: int
    reason: str


def whole_batch(segment: Segment, position: int) -> tuple[int, int] | None:
    """(size in bytes, last offset) of the batch at this position, if there is one and its crc is right."""
    head = segment.read(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return None
    header = HEADER.unpack(head)
    length = header[1]
    if length < LENGTH_MIN or header[3] != MAGIC or position + length + LENGTH_OVERHEAD > segment.size_bytes:
        return None
    batch = memoryview(segment.read(position, length + LENGTH_OVERHEAD))
    if len(batch) < length + LENGTH_OVERHEAD or crc32c(batch[21:]) != header[4]:
        return None
    return len(batch), header[0] + header[6]


def records_behind(segment: Segment, position: int) -> int | None:
    """The end offset that whole batches behind the damage at `position` reach, or None: there are none.

    Looks where the damaged batch says that it ends, and where the index knows of later batches.
    """
    for start in _starts_behind(segment, position):
        found = whole_batch(segment, start)
        if found is None:
            continue
        end_offset = segment.base_offset
        while found is not None:
            if 0 <= found[1] - segment.base_offset <= RELATIVE_OFFSET_MAX:
                end_offset = max(end_offset, found[1] + 1)
            start += found[0]
            found = whole_batch(segment, start)
        return end_offset
    return None


def _starts_behind(segment: Segment, position: int) -> list[int]:
    """Where batches may begin: at the position itself (the bytes may be good, and only their place wrong),
    where one header after the other says, and where the index says.
    """
    starts = [position]
    for _ in range(_HEADERS_TRIED):
        head = segment.read(starts[-1], HEADER_BYTES)
        length = HEADER.unpack(head)[1] if len(head) == HEADER_BYTES else 0
        if length < LENGTH_MIN:
            break
        starts.append(starts[-1] + length + LENGTH_OVERHEAD)
    index = OffsetIndex(segment.files, segment.path(INDEX_SUFFIX))
    if index.load():
        known = index.count_below_value(position + 1)
        stop = min(len(index), known + _INDEX_ENTRIES_TRIED)
        starts += [index.entry(each)[1] for each in range(known, stop)]
    return [start for start in starts if position <= start < segment.size_bytes]


def next_whole(segment: Segment, position: int, offset_min: int, offset_limit: int) -> tuple[int, int] | None:
    """(position, base offset) of the first whole batch behind the damage at `position` whose offsets are in
    this range, or None.
    """
    for start in sorted(_starts_behind(segment, position)):
        found = whole_batch(segment, start)
        if found is None:
            continue
        base_offset = HEADER.unpack(segment.read(start, HEADER_BYTES))[0]
        limit = min(offset_limit, segment.base_offset + RELATIVE_OFFSET_MAX + 1)
        if offset_min <= base_offset <= found[1] < limit:
            return start, base_offset
    return None


def copy_tail(files: Files, segment: Segment, position: int, path: str) -> None:
    """Let what stands in the segment from `position` on be a file of its own, on the disk for certain."""
    aside = path + ".tmp"
    _copy(files, segment, position, aside)
    files.rename(aside, path)
    files.sync_directory(os.path.dirname(path))


def keep_tail(files: Files, segment: Segment, position: int) -> str | None:
    """Copy what stands in the segment from `position` on to a file beside it; its path, or None when there
    are only zeros. OSError when the disk has no room for it.
    """
    path = f"{segment.path(LOG_SUFFIX)}.{position}{DAMAGED_SUFFIX}"
    if not any(any(part) for part in _parts(segment, position)):
        return None
    _copy(files, segment, position, path)
    return path


def _copy(files: Files, segment: Segment, position: int, path: str) -> None:
    fd = files.open(path, create=True, truncate=True)
    try:
        at = 0
        for part in _parts(segment, position):
            write_fully(files, fd, part, at)
            at += len(part)
        files.sync(fd)
    finally:
        files.close(fd)


def _parts(segment: Segment, position: int) -> Iterator[bytes]:
    """The bytes of the segment from this position on, in pieces."""
    while position < segment.size_bytes:
        part = segment.read(position, min(_COPY_BYTES, segment.size_bytes - position))
        if not part:
            return
        yield part
        position += len(part)


def keep_segment(files: Files, segment: Segment) -> str:
    """Take the whole segment out of the log under another name; that name."""
    segment.close_descriptor()
    path = segment.path(LOG_SUFFIX)
    files.rename(path, path + DAMAGED_SUFFIX)
    for suffix in SEGMENT_SUFFIXES[1:]:
        files.remove(segment.path(suffix))
    return path + DAMAGED_SUFFIX
