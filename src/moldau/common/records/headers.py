"""Whether batches that lie behind each other fit together by their headers.

    | base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | ...      the crc covers what comes after

What stands before the crc is in no checksum. But offsets rise from batch to batch, leader epochs do not fall,
and a length leads to the next header; so a bit that flips there makes a batch overlap its neighbour, except
where compaction has left a gap that hides it.

It runs over everything that is read from a disk for a Fetch: compiled (`_headers.c`: some ten nanoseconds a
batch), or without a compiler by the twin here (fifty times slower): the same arguments, results and tests.

Not here: what a reader does about a header that does not fit (appending/header_check.py).
"""

from collections.abc import Callable
from typing import TypeAlias

from moldau.common.core.kernels import kernel
from moldau.common.records.batch import HEADER, HEADER_BYTES, LENGTH_MIN, LENGTH_OVERHEAD, MAGIC

_compiled = kernel("moldau.common.records._headers")

Readable: TypeAlias = bytes | bytearray | memoryview
Fit: TypeAlias = Callable[[Readable, int, int, int, int, int], tuple[int, int, int]]


def fit_in_python(
    data: Readable, limit: int, offset_min: int, offset_max: int, epoch_min: int, epoch_max: int
) -> tuple[int, int, int]:
    """Walk over the whole batches among the first `limit` bytes, and look at every header that is there
    whole, also at that of the batch behind them.

    All records lie from `offset_min` on and before `offset_max`, all leader epochs between the other two,
    inclusive. Returns (the size of what fits, the offset behind it, -1). Where a header does not fit: (the
    size of what comes before, the offset behind that, the position of this header). Then the batch before it
    is left out as well, if that is the first one after a gap or of a leader epoch, since it may be the one
    that is damaged.
    """
    cut = cut_before = 0
    next_offset = next_before = offset_min
    leader_epoch = epoch_min
    sure = True
    limit = min(limit, len(data))
    while cut + HEADER_BYTES <= len(data):
        header = HEADER.unpack_from(data, cut)
        base_offset, length, last_offset_delta = header[0], header[1], header[6]
        if (
            length < LENGTH_MIN
            or header[3] != MAGIC
            or last_offset_delta < 0
            or not next_offset <= base_offset < offset_max - last_offset_delta
            or not leader_epoch <= header[2] <= epoch_max
        ):
            return (cut, next_offset, cut) if sure else (cut_before, next_before, cut)
        size = length + LENGTH_OVERHEAD
        if cut + size > limit:
            break
        cut_before, next_before = cut, next_offset
        sure = base_offset == next_offset and header[2] == leader_epoch
        cut, next_offset, leader_epoch = cut + size, base_offset + last_offset_delta + 1, header[2]
    return cut, next_offset, -1


fit: Fit = fit_in_python if _compiled is None else _compiled.fit
"""See `fit_in_python`."""
