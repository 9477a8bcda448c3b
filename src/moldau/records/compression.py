"""The codecs a batch's records may be compressed with, and a bound on what they may unpack to.

| number | name | framing |
| 0 | none   | |
| 1 | gzip   | RFC 1952 |
| 2 | snappy | xerial's (magic, version, blocks with their lengths: the Java client's), or one raw block |
| 3 | lz4    | the lz4 frame format, independent blocks (Kafka's Java reader refuses linked ones) |
| 4 | zstd   | RFC 8878 |

A few kilobytes can unpack to gigabytes. Nobody asks how large a client's records may be, so the bound is
ours: unpacking stops with an error at `size_max` bytes, and no more memory than about that is ever taken.

Not here: when to compress at all (log/validation.py).
"""

import struct
import zlib
from typing import TypeAlias

import cramjam

Readable: TypeAlias = bytes | bytearray | memoryview

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_NUMBERS = {name: number for number, name in enumerate(CODEC_NAMES)} | {"uncompressed": NONE}
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">i")
_FIRST_GUESS_BYTES_MIN = 64 * 1024


class CompressionFailure(ValueError):
    """The bytes are damaged, in an unknown codec, or would unpack to more than is allowed."""


def compress(codec: int, payload: Readable, level: int | None = None) -> bytes:
    """`payload` in the given codec; `level` means what the codec says (None: its default)."""
    data = bytes(payload)
    if codec == NONE:
        return data
    if codec == GZIP:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if codec == SNAPPY:
        return _compress_xerial(data)
    if codec == LZ4:
        frame = cramjam.lz4.Compressor(level=level or 1, content_checksum=False, block_linked=False)
        frame.compress(data)
        return bytes(frame.finish())
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))
    raise CompressionFailure(f"codec {codec} is unknown")


def decompress(codec: int, data: Readable, size_max: int = DECOMPRESSED_BYTES_MAX) -> Readable:
    """What was compressed; CompressionFailure when it is damaged or larger than `size_max` bytes."""
    if codec == NONE:
        return data
    try:
        if codec == GZIP:
            return _decompress_gzip(data, size_max)
        if codec == SNAPPY:
            return _decompress_snappy(bytes(data), size_max)
        if codec == LZ4:
            return _decompress_growing(cramjam.lz4.decompress_into, bytes(data), size_max)
        if codec == ZSTD:
            return _decompress_growing(cramjam.zstd.decompress_into, bytes(data), size_max)
    except (zlib.error, cramjam.DecompressionError) as error:
        raise CompressionFailure(f"{CODEC_NAMES[codec]}: {error}") from error
    raise CompressionFailure(f"codec {codec} is unknown")


def _too_large(size_max: int) -> CompressionFailure:
    return CompressionFailure(f"unpacks to more than {size_max} bytes")


def _decompress_gzip(data: Readable, size_max: int) -> bytes:
    unpacker = zlib.decompressobj(31)
    result = unpacker.decompress(data, size_max + 1)
    if len(result) > size_max:
        raise _too_large(size_max)
    if not unpacker.eof:
        raise CompressionFailure("gzip: the data breaks off")
    return result


def _decompress_growing(decompress_into, data: bytes, size_max: int) -> memoryview:  # type: ignore[no-untyped-def]
    """Unpack into a buffer that is doubled until it suffices: the library says only that it was too small."""
    guess = max(_FIRST_GUESS_BYTES_MIN, len(data) * 4)
    while True:
        guess = min(guess, size_max)
        buffer = bytearray(guess)
        try:
            size = decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):
                raise
            if guess >= size_max:
                raise _too_large(size_max) from error
            guess *= 4
        else:
            return memoryview(buffer)[:size]


def _compress_xerial(data: bytes) -> bytes:
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        pieces.append(_BLOCK_LENGTH.pack(len(block)))
        pieces.append(block)
    return b"".join(pieces)


def _decompress_snappy(data: bytes, size_max: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_raw_snappy(data, size_max)
    pieces: list[bytes] = []
    position, total = len(_XERIAL_HEADER), 0
    while position < len(data):
        if position + 4 > len(data):
            raise CompressionFailure("snappy: a block's length breaks off")
        length: int = _BLOCK_LENGTH.unpack_from(data, position)[0]
        position += 4
        if length < 0 or position + length > len(data):
            raise CompressionFailure(
                f"snappy: a block of {length} bytes does not fit the {len(data) - position} left"
            )
        piece = _decompress_raw_snappy(data[position : position + length], size_max - total)
        pieces.append(piece)
        total += len(piece)
        position += length
    return b"".join(pieces)


def _decompress_raw_snappy(data: bytes, size_max: int) -> bytes:
    size: int = cramjam.snappy.decompress_raw_len(data)
    if size > size_max:
        raise _too_large(size_max)
    return bytes(cramjam.snappy.decompress_raw(data))
