"""The compression codecs of batches, with a bound on the decompressed size.

| number | name | framing |
| 0 | none   | |
| 1 | gzip   | RFC 1952 |
| 2 | snappy | xerial's (magic, version, blocks with their lengths: the Java client's), or one raw block |
| 3 | lz4    | the lz4 frame format, independent blocks (Kafka's Java reader refuses linked ones) |
| 4 | zstd   | RFC 8878 |

A few kilobytes can decompress to gigabytes. Kafka has no limit for the decompressed size, so the bound is
ours: decompression fails at `size_max` bytes, and never takes much more memory than that.

`unpacked` runs beside the broker's event loop, in a worker thread. What does not fit a small buffer goes to
anonymous memory, which takes no room before it is written and is returned to the system at once. None of it
holds the GIL for longer than a switch between threads: measured with 200 MB in each codec, another thread
waited 8 ms at most. (A `bytearray` of that size holds it for 100 ms, to fill it with zeros.)

Not here: when to compress at all (appending/validation.py).
"""

import struct
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import TypeAlias

import cramjam

from moldau.common.records.lz4_frame import FrameError, ManyBlocks, check_lz4_frame

Readable: TypeAlias = bytes | bytearray | memoryview
Buffer: TypeAlias = bytearray | memoryview | mmap

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_NUMBERS = {name: number for number, name in enumerate(CODEC_NAMES)} | {"uncompressed": NONE}
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">i")
_FIRST_GUESS_BYTES_MIN = 64 * 1024
SMALL_BYTES_MAX = 128 * 1024
"""What unpacks to no more is unpacked in ordinary memory: 20 to 110 microseconds, gzip 400."""
_MIDDLE_BYTES = 2 << 20
_LATER_BYTES = (32 << 20,)
_PIECE_BYTES = 128 * 1024
_LZ4_PIECE_BYTES = 64 * 1024
_LZ4_FLUSHED_BYTES = 1024 * 1024


class CompressionFailure(ValueError):
    """The bytes are damaged, in an unknown codec, or too large when decompressed."""


class UnpacksToMore(CompressionFailure):
    """The decompressed size exceeds the limit; the first `filled_bytes` of it are in the buffer."""

    filled_bytes = 0


class PacksToMore(ValueError):
    """The compressed size exceeds the limit."""


def compress(codec: int, payload: Readable, level: int | None = None, size_max: int | None = None) -> bytes:
    """`payload` in the given codec; `level` has the codec's meaning (None: its default).

    PacksToMore as soon as the result exceeds `size_max` bytes (with zstd: at the end).
    """
    pieces: list[bytes] = []
    size = 0
    for piece in _packed(codec, payload, level):
        pieces.append(piece)
        size += len(piece)
        if size_max is not None and size > size_max:
            raise PacksToMore(f"packs to more than {size_max} bytes")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _packed(codec: int, payload: Readable, level: int | None) -> Iterator[bytes]:
    """The result, piece by piece: no piece holds the GIL for long."""
    view = memoryview(payload)
    if codec == NONE:
        yield bytes(payload)
    elif codec == GZIP:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        for start in range(0, len(view), _PIECE_BYTES):
            yield packer.compress(view[start : start + _PIECE_BYTES])
        yield packer.flush()
    elif codec == SNAPPY:
        yield _XERIAL_HEADER
        for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
            yield _BLOCK_LENGTH.pack(len(block)) + block
    elif codec == LZ4:
        frame = cramjam.lz4.Compressor(level=level or 1, content_checksum=False, block_linked=False)
        for start in range(0, len(view), _LZ4_PIECE_BYTES):  # it holds the GIL for each
            frame.compress(bytes(view[start : start + _LZ4_PIECE_BYTES]))
            if start and start % _LZ4_FLUSHED_BYTES == 0:
                yield bytes(frame.flush())
        yield bytes(frame.finish())
    elif codec == ZSTD:
        yield bytes(cramjam.zstd.compress(payload, level=3 if level is None else level))
    else:
        raise CompressionFailure(f"codec {codec} is unknown")


def decompress(codec: int, data: Readable, size_max: int = DECOMPRESSED_BYTES_MAX) -> Readable:
    """The decompressed bytes. CompressionFailure if damaged or larger than `size_max` bytes."""
    if codec == NONE:
        return data
    try:
        if codec == GZIP:
            return _decompress_gzip(data, size_max)
        if codec == SNAPPY:
            return _decompress_snappy(data, size_max)
        if codec == LZ4:
            return _decompress_growing(cramjam.lz4.decompress_into, bytes(data), size_max)
        if codec == ZSTD:
            return _decompress_growing(cramjam.zstd.decompress_into, bytes(data), size_max)
    except (zlib.error, cramjam.DecompressionError) as error:
        raise CompressionFailure(f"{CODEC_NAMES[codec]}: {error}") from error
    raise CompressionFailure(f"codec {codec} is unknown")


@contextmanager
def unpacked(codec: int, data: Readable, size_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Readable]:
    """The decompressed bytes, for the `with` block. UnpacksToMore beyond `size_max` bytes,
    CompressionFailure for damage.
    """
    if codec == NONE:
        yield data
        return
    small = bytearray(min(size_max, SMALL_BYTES_MAX))
    try:
        size = _decompress_into(codec, data, small)
    except UnpacksToMore:
        if size_max <= SMALL_BYTES_MAX:
            raise
    else:
        yield memoryview(small)[:size]
        return
    memory = mmap(-1, size_max, MAP_PRIVATE | MAP_ANONYMOUS)
    try:
        size = _decompress_into(codec, data, memory)
        with memoryview(memory) as whole, whole[:size] as view:
            yield view
    finally:
        memory.close()  # gives up the GIL, which the object's end would not


def unpacked_prefixes(codec: int, data: Readable, size_max: int) -> Generator[tuple[Readable, bool]]:
    """(the decompressed bytes from the start, whether these are all): more of them each time, until all.

    Who finds something wrong in a prefix closes the generator, and the rest is never unpacked: of 24 GB of
    zeros only the first 2 MiB. CompressionFailure for damage and for bytes behind the data, where clients
    differ in what they read; UnpacksToMore after the prefix of `size_max` bytes. Bytes that were handed out
    may not be used after the next step.
    """
    if codec == NONE:
        yield data, True
        return
    if codec == LZ4:
        try:
            check_lz4_frame(memoryview(data), size_max // _BLOCK_BYTES_MEAN_MIN)
        except ManyBlocks:
            raise _too_large(size_max) from None
        except FrameError as error:
            raise CompressionFailure(f"lz4: {error}") from error
    for buffers, stage_bytes in ((_small_buffers, SMALL_BYTES_MAX), (_middle_buffers, _MIDDLE_BYTES)):
        if len(data) >= stage_bytes:
            continue  # it would hold too little of it
        try:
            buffer = buffers.pop()
        except IndexError:  # other threads have them
            buffer = bytearray(stage_bytes)
        try:
            with memoryview(buffer)[: min(size_max, stage_bytes)] as target:
                size, whole = _fill(codec, data, target)
                with target[:size] as view:
                    yield view, whole
        finally:
            buffers.append(buffer)
        if whole:
            return
        if size_max <= stage_bytes:
            raise _too_large(size_max)
    memory = mmap(-1, size_max, MAP_PRIVATE | MAP_ANONYMOUS)
    try:
        with memoryview(memory) as all_of_it:
            for stage_bytes in (*(each for each in _LATER_BYTES if each < size_max), size_max):
                with all_of_it[:stage_bytes] as target:
                    size, whole = _fill(codec, data, target)
                    with target[:size] as view:
                        yield view, whole
                if whole:
                    return
    finally:
        memory.close()
    raise _too_large(size_max)


_BLOCK_BYTES_MEAN_MIN = 2048
"""A block costs about as much as this many bytes, however few it holds, and counts as so many. Clients
make blocks of 32 KiB."""

# Kept, one for each thread that unpacks at the same time: fresh memory costs as much as unpacking into it.
_small_buffers: list[bytearray] = []
_middle_buffers: list[bytearray] = []


def _fill(codec: int, data: Readable, target: memoryview) -> tuple[int, bool]:
    """(how many bytes of the target are filled, whether that is everything)."""
    try:
        return _decompress_into(codec, data, target, strict=True), True
    except UnpacksToMore as more:
        return more.filled_bytes, False


def _decompress_into(codec: int, data: Readable, buffer: Buffer, *, strict: bool = False) -> int:
    """Decompress into the buffer, without the GIL; returns the size in bytes. With `strict`, nothing may
    follow the data.
    """
    try:
        if codec == GZIP:
            return _gzip_into(data, buffer, strict=strict)
        if codec == SNAPPY:
            return _snappy_into(memoryview(data), buffer)
        if codec == LZ4:
            return int(cramjam.lz4.decompress_into(data, buffer))
        if codec == ZSTD:
            return int(cramjam.zstd.decompress_into(data, buffer))
    except (zlib.error, cramjam.DecompressionError) as error:
        if "write whole buffer" in str(error):
            raise _too_large(len(buffer), len(buffer)) from error
        raise CompressionFailure(f"{CODEC_NAMES[codec]}: {error}") from error
    raise CompressionFailure(f"codec {codec} is unknown")


def _gzip_into(data: Readable, buffer: Buffer, *, strict: bool) -> int:
    unpacker = zlib.decompressobj(31)
    position, rest = 0, data
    while not unpacker.eof:
        piece = unpacker.decompress(rest, _PIECE_BYTES)
        rest = unpacker.unconsumed_tail
        if position + len(piece) > len(buffer):
            buffer[position:] = piece[: len(buffer) - position]
            raise _too_large(len(buffer), len(buffer))
        buffer[position : position + len(piece)] = piece
        position += len(piece)
        if not piece and not rest and not unpacker.eof:
            raise CompressionFailure("gzip: the data breaks off")
    if strict and unpacker.unused_data:
        raise CompressionFailure(f"gzip: {len(unpacker.unused_data)} bytes follow the data")
    return position


def _snappy_into(data: memoryview, buffer: Buffer) -> int:
    with memoryview(buffer) as whole:
        position = 0
        for number, block in enumerate(_snappy_blocks(data)):
            if number > len(whole) // _BLOCK_BYTES_MEAN_MIN:
                raise _too_large(len(whole), position)
            size: int = cramjam.snappy.decompress_raw_len(block)
            if size > len(whole) - position:
                raise _too_large(len(whole), position)
            with whole[position : position + size] as target:
                position += int(cramjam.snappy.decompress_raw_into(block, target))
        return position


def _too_large(size_max: int, filled_bytes: int = 0) -> CompressionFailure:
    error = UnpacksToMore(f"unpacks to more than {size_max} bytes")
    error.filled_bytes = filled_bytes
    return error


def _decompress_gzip(data: Readable, size_max: int) -> bytes:
    unpacker = zlib.decompressobj(31)
    result = unpacker.decompress(data, size_max + 1)
    if len(result) > size_max:
        raise _too_large(size_max)
    if not unpacker.eof:
        raise CompressionFailure("gzip: the data breaks off")
    return result


def _decompress_growing(decompress_into, data: bytes, size_max: int) -> memoryview:  # type: ignore[no-untyped-def]
    """Decompress into a buffer that is doubled until it suffices: the library only reports that it was
    too small.
    """
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


def _snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    """The compressed blocks of a xerial frame, or the single raw block."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield data
        return
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if position + 4 > len(data):
            raise CompressionFailure("snappy: a block's length breaks off")
        length: int = _BLOCK_LENGTH.unpack_from(data, position)[0]
        position += 4
        if length < 0 or position + length > len(data):
            raise CompressionFailure(
                f"snappy: a block of {length} bytes does not fit the {len(data) - position} left"
            )
        yield data[position : position + length]
        position += length


def _decompress_snappy(data: Readable, size_max: int) -> bytes:
    pieces: list[bytes] = []
    total = 0
    for block in _snappy_blocks(memoryview(data)):
        piece = _decompress_raw_snappy(block, size_max - total)
        pieces.append(piece)
        total += len(piece)
    return b"".join(pieces)


def _decompress_raw_snappy(data: memoryview, size_max: int) -> bytes:
    size: int = cramjam.snappy.decompress_raw_len(data)
    if size > size_max:
        raise _too_large(size_max)
    return bytes(cramjam.snappy.decompress_raw(data))
