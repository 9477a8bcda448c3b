"""Fills a gap at the end of a log with batches without records, so that readers come past it.

A log without other replicas keeps its end offset when its last records are lost (recovery.py). A reader whose
position lies in such a gap would get nothing until the next append: a consumer waits, and a read until the
end offset never ends. A batch without records, as compaction leaves them, tells every client where to go on:

    | segment 0: 0..39 | 40..79, no records, epoch 1 | 80..99, no records, epoch 2 | segment 100, empty |
                         one file, 00000000000000000040.log                          the log goes on here

One batch for each leader epoch, so that the list of epochs and the batches agree; at most 2^31 - 1 offsets,
as many as a segment may hold. What lies before those is a gap as compaction leaves them, with a batch behind.

Invariant: the file appears whole or not at all (its name comes last), and only between two segments, so that
a crash at any point leaves a log that the next start opens, and fills if that is left to do. A gap between
batches needs nothing: readers are given the batch behind it.
"""

import logging
from itertools import pairwise

from moldau.broker.log.appending.writer import is_disk_full
from moldau.broker.log.files.segment import (
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    CorruptSegment,
    Segment,
    file_name,
)
from moldau.broker.log.recovery.found_segments import FoundSegments
from moldau.broker.log.recovery.segment_end import WrongIndex, walk_end
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.common.core.files import write_atomically
from moldau.common.records.builder import build_batch

logger = logging.getLogger("moldau.log.end_gap")


def fill_end_gap(found: FoundSegments, epochs: LeaderEpochs) -> None:
    """Fill what is missing before an empty last segment. OSError when the disk fails; on a full one the gap
    stays, and the next start tries again.
    """
    segments = found.segments
    if segments[-1].size_bytes or len(segments) == 1:
        return
    index = len(segments) - 2
    while index and not segments[index].size_bytes:
        index -= 1
    offset = _end_offset(segments[index])
    while index + 1 < len(segments):
        stop = segments[index + 1].base_offset
        if offset < stop:
            try:
                index = _fill(found, index, offset, stop, epochs)
            except OSError as error:
                if not is_disk_full(error):
                    raise
                logger.warning(
                    "%s: the disk is full: consumers at offsets %d to %d wait until a record is appended, or "
                    "until a start with free space",
                    found.name,
                    offset,
                    segments[-1].base_offset - 1,
                )
                return
        index, offset = index + 1, max(offset, stop)


def _end_offset(segment: Segment) -> int:
    """The offset behind the segment's last batch, which recovery has found in order."""
    try:
        return walk_end(segment).next_offset
    except WrongIndex:
        end = segment.base_offset
        try:
            for place in segment.walk(0):
                end = place.last_offset + 1
        except CorruptSegment as error:  # the index was right about that
            logger.warning("%s", error)
        return end


def _fill(found: FoundSegments, index: int, offset: int, stop: int, epochs: LeaderEpochs) -> int:
    """Put batches without records for [offset, stop) behind the segment at `index`, or into it if it is empty
    and begins there; the index of the segment that has them.
    """
    first = max(offset, stop - RELATIVE_OFFSET_MAX)
    bounds = [first, *(start for _, start in epochs.entries() if first < start < stop), stop]
    data = b"".join(
        build_batch(
            [], base_offset=base, last_offset_delta=end - 1 - base, leader_epoch=epochs.epoch_at(base)
        )
        for base, end in pairwise(bounds)
    )
    segment = found.segments[index]
    fresh = segment.base_offset != first
    if fresh:
        segment = found.new_segment(first)
    segment.close_descriptor()
    write_atomically(found.files, segment.path(LOG_SUFFIX), data)
    segment.size_bytes = segment.synced_bytes = len(data)
    if fresh:
        index += 1
        found.segments.insert(index, segment)
    logger.warning(
        "%s: nothing is left of offsets %d to %d at the log's end: a batch without records in %s tells "
        "readers to go on behind them. If you put lost files back, remove this one first",
        found.name,
        offset,
        stop - 1,
        file_name(first, LOG_SUFFIX),
    )
    return index
