"""Whether bytes are one LZ4 frame as all of Kafka's clients read it.

    | magic 4 | flags 1 | block sizes 1 | content size 8 | header checksum 1 |
    | block size 4, block, checksum 4 ... | 0 | checksum 4 |        (content size and checksums where flagged)

The frame format allows more than the Java client reads: linked blocks, a dictionary, frames to be skipped. A
second frame behind the first one is read by some clients and not by others. Kafka's broker refuses what its
own reader refuses; here the bytes behind the frame are refused as well, so that all readers find the same
records.

Walks over block sizes only. Not here: checksums and decompression (compression.py).
"""

_MAGIC = b"\x04\x22\x4d\x18"
_VERSION, _VERSION_MASK = 0x40, 0xC0
_INDEPENDENT, _BLOCK_CHECKSUMS, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
_FLAGS_RESERVED = 0x03
_SIZES_RESERVED, _BLOCK_BYTES_MIN = 0x8F, 4
_STORED = 0x80000000


class FrameError(ValueError):
    """The bytes are not one such frame."""


class ManyBlocks(Exception):
    """The frame has more blocks than were to be looked at."""


def check_lz4_frame(data: memoryview, blocks_max: int) -> None:
    """FrameError when this is anything but one frame of independent blocks; ManyBlocks when these are more
    than `blocks_max`, before the rest is looked at.
    """
    if data[:4] != _MAGIC or len(data) < 7:
        raise FrameError("it does not begin with a frame's header")
    flags, sizes = data[4], data[5]
    if flags & _VERSION_MASK != _VERSION or flags & _FLAGS_RESERVED or sizes & _SIZES_RESERVED:
        raise FrameError(f"the frame's flags {flags:#04x} {sizes:#04x} are not supported")
    if not flags & _INDEPENDENT:
        raise FrameError("the frame has linked blocks, which Kafka's Java clients do not read")
    if sizes >> 4 < _BLOCK_BYTES_MIN:
        raise FrameError(f"the frame's block size {sizes >> 4} is not supported")
    position = 7 + (8 if flags & _CONTENT_SIZE else 0)
    checksum_bytes = 4 if flags & _BLOCK_CHECKSUMS else 0
    for _ in range(blocks_max + 1):
        if position + 4 > len(data):
            raise FrameError("the frame breaks off")
        size = int.from_bytes(data[position : position + 4], "little")
        position += 4
        if not size:
            break
        position += (size & ~_STORED) + checksum_bytes
    else:
        raise ManyBlocks
    position += 4 if flags & _CONTENT_CHECKSUM else 0
    if position > len(data):
        raise FrameError("the frame breaks off")
    if position < len(data):
        raise FrameError(f"{len(data) - position} bytes follow the frame")
