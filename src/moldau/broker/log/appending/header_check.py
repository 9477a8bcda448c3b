"""Checks the headers of what was read from a segment, as far as neighbours and leader epochs know better.

No crc covers a batch's base offset, length, leader epoch and magic. If a disk changes one of them, a consumer
would jump over records or see them at wrong offsets, and a follower would copy that. So whatever is read from
a file is walked over by its headers before anybody gets it (records/headers.py):

    asked for 40         | 40..41 | 42..43 | 12..13 | 46..47 |        up to 48, where the log ends
                           given             ^ does not fit

What comes before the damage is still given; a read that begins with it raises `CorruptSegment`. In a log
without gaps every changed bit of these fields is found, since the offsets before and behind are known too.
In a gap that compaction left, an offset can be wrong unseen.

A leader epoch is compared with the log's list of epochs, which itself is a file that may be damaged: if two
neighbours, written under one leader by the list, have one epoch, they are believed, and not the list.

Not here: damage that the crc covers, which clients and followers check themselves; repairs, at the next start
(checked_scan.py).
"""

from moldau.broker.log.files.segment import LOG_SUFFIX, BatchPlace, CorruptSegment, Segment
from moldau.broker.log.state.epochs import EPOCH_MAX, UNDEFINED_EPOCH, LeaderEpochs
from moldau.common.records.batch import HEADER, HEADER_BYTES
from moldau.common.records.headers import Readable, fit


def good_part(
    segment: Segment,
    position: int,
    data: Readable,
    limit: int,
    offset_min: int,
    offset_max: int,
    epochs: LeaderEpochs,
    *,
    exact: bool = False,
) -> tuple[int, int]:
    """How many of the first `limit` bytes of `data`, read at `position`, are whole batches that fit together,
    and the offset behind them; 0 when the first batch alone is longer. CorruptSegment when it is damaged.

    All records lie from `offset_min` on and before `offset_max`; `exact`: whole batches fill the limit.
    """
    end, epoch_min, epoch_max = epochs.stretch(offset_min)
    size, next_offset, misfit = fit(data, limit, offset_min, min(end, offset_max), epoch_min, epoch_max)
    if misfit >= 0:
        size, next_offset = _good_stretches(segment, position, data, limit, offset_min, offset_max, epochs)
    if exact and limit and not size:
        raise CorruptSegment(f"{segment}: the batch at position {position} does not end where it should")
    return size, next_offset


def _good_stretches(
    segment: Segment,
    position: int,
    data: Readable,
    limit: int,
    offset_min: int,
    offset_max: int,
    epochs: LeaderEpochs,
) -> tuple[int, int]:
    """As `good_part`, where the batches are of several leaders, or one is damaged."""
    view = memoryview(data)
    start, before, offset = 0, (0, offset_min), offset_min
    while True:
        end, epoch_min, epoch_max = epochs.stretch(offset)
        size, behind, misfit = fit(
            view[start:], limit - start, offset, min(end, offset_max), epoch_min, epoch_max
        )
        if misfit or not start:
            before = (start + size, behind)  # the header at the start fits, and so what lies before it
        if misfit < 0:
            return before
        start += misfit
        if end >= offset_max or HEADER.unpack_from(view, start)[0] < end:
            break
        offset = end  # the next leader's
    if _epoch_is_vouched_for(segment, position + start, epochs):
        size, behind, misfit = fit(data, limit, offset_min, offset_max, UNDEFINED_EPOCH, EPOCH_MAX)
        if misfit != start:
            before = (size, behind)
    if not before[0]:
        raise CorruptSegment(_text(segment, position + start, data[start : start + HEADER_BYTES]))
    return before


def _epoch_is_vouched_for(segment: Segment, position: int, epochs: LeaderEpochs) -> bool:
    """Whether the batch here has the leader epoch of a neighbour, and the list takes both for those of one
    leader.
    """
    near = segment.offset_index.floor_value(position - 1) if position else None
    before: BatchPlace | None = None
    try:
        for place in segment.walk(near[1] if near is not None else 0):
            if before is not None and position in (before.position, place.position):
                if place.leader_epoch == before.leader_epoch and epochs.epoch_at(
                    place.base_offset
                ) == epochs.epoch_at(before.base_offset):
                    return True
                if before.position == position:
                    return False
            before = place
    except CorruptSegment:
        pass
    return False


def _text(segment: Segment, position: int, head: Readable) -> str:
    base_offset, length, leader_epoch, magic, _, _, last_offset_delta, *_ = HEADER.unpack(head)
    return (
        f"{segment.path(LOG_SUFFIX)} is damaged at position {position} or just before: the header there says "
        f"offsets {base_offset} to {base_offset + last_offset_delta}, length {length}, leader epoch "
        f"{leader_epoch}, magic {magic}, which does not fit what surrounds it"
    )
