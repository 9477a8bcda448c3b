"""Whether the records of a small compressed batch are sound: unpacked and walked over, in one call.

The answer for nearly every compressed batch of a client. What takes longer than the event loop has, and what
may be wrong, is left to appending/inspection.py.

HOT: `judge_packed`. Budget: 4 microseconds beside the decompression and the walk.

Not here: uncompressed batches (usual.py), which error a record causes (appending/inspection.py).
"""

from contextlib import closing
from enum import IntEnum

from moldau.common.records import walk
from moldau.common.records.batch import CODEC_MASK, HEADER, HEADER_BYTES
from moldau.common.records.compression import (
    LZ4,
    SMALL_BYTES_MAX,
    SNAPPY,
    CompressionFailure,
    UnpacksToMore,
    unpacked_prefixes,
)

PACKED_BYTES_MAX = 64 * 1024
_FAST_CODECS = (LZ4, SNAPPY)
_FAST_PACKED_BYTES_MAX = 768 * 1024
_FAST_UNPACKED_BYTES_MAX = 1280 * 1024


def loop_limits(codec: int) -> tuple[int, int]:
    """So many bytes of a compressed batch, and so many unpacked, are looked at on the event loop: half a
    millisecond. A batch of 1 MB in a fast codec takes that; a worker thread would cost as much again.
    """
    if codec in _FAST_CODECS:
        return _FAST_PACKED_BYTES_MAX, _FAST_UNPACKED_BYTES_MAX
    return PACKED_BYTES_MAX, SMALL_BYTES_MAX


SHORT_RECORDS_MAX = 20_000 if walk.is_compiled else 100
"""So many records are walked over on the event loop."""


class Verdict(IntEnum):
    """What a look at a batch has found."""

    SOUND = 0
    DOUBTFUL = 1
    """Something may be wrong: the complete validation decides."""
    LONG = 2
    """It cannot be told in the time that the event loop has."""


def judge_packed(batch: walk.Readable) -> Verdict:
    """Judge a compressed batch whose header is right: its count, and its base and maximum timestamps."""
    size = len(batch)
    header = HEADER.unpack_from(batch)
    count = header[12]
    if size > PACKED_BYTES_MAX or count > SHORT_RECORDS_MAX:
        return Verdict.LONG
    codec = header[5] & CODEC_MASK
    body = memoryview(batch)[HEADER_BYTES:]
    try:
        with closing(unpacked_prefixes(codec, body, loop_limits(codec)[1])) as prefixes:
            for payload, whole in prefixes:
                if whole:
                    outcome, position, _, max_timestamp_ms = walk.check(
                        payload, 0, 0, count, header[7], False, walk.INT64_MIN, header[8], walk.NO_TIMESTAMP
                    )
                    right = position == len(payload) and max_timestamp_ms == header[8]
                    return Verdict.SOUND if outcome == walk.WALKED and right else Verdict.DOUBTFUL
    except UnpacksToMore:
        return Verdict.LONG
    except CompressionFailure:
        return Verdict.DOUBTFUL
    raise AssertionError("the whole payload was judged")
