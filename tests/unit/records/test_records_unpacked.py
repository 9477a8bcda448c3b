"""Unpacking beside the event loop: the same bytes as `decompress`, within bounds, and nothing kept."""

import mmap
import struct
import weakref

import cramjam
import pytest

from moldau.common.records import compression
from moldau.common.records.compression import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    SMALL_BYTES_MAX,
    SNAPPY,
    ZSTD,
    CompressionFailure,
    UnpacksToMore,
    compress,
    unpacked,
)

PACKED = [GZIP, SNAPPY, LZ4, ZSTD]
TEXTS = [b"", b"x", bytes(range(256)) * 256, bytes(range(256)) * 257, bytes(3_000_000)]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("text", TEXTS, ids=len)
def test_it_gives_what_was_packed(codec: int, text: bytes) -> None:
    with unpacked(codec, memoryview(compress(codec, text))) as payload:
        assert bytes(payload) == text


@pytest.mark.parametrize("codec", PACKED, ids=CODEC_NAMES[1:])
@pytest.mark.parametrize("size", [SMALL_BYTES_MAX - 1, SMALL_BYTES_MAX, SMALL_BYTES_MAX + 1, 1_000_000])
def test_the_bound_holds_to_the_byte(codec: int, size: int) -> None:
    data = compress(codec, bytes(size))
    with unpacked(codec, data, size) as payload:
        assert len(payload) == size
    with pytest.raises(UnpacksToMore, match=f"more than {size - 1} bytes"), unpacked(codec, data, size - 1):
        pass


@pytest.mark.parametrize("codec", PACKED, ids=CODEC_NAMES[1:])
@pytest.mark.parametrize("size", [1000, 300_000])
def test_damage_is_an_error_of_ours(codec: int, size: int) -> None:
    data = compress(codec, b"text " * (size // 5))
    for damaged in (data[:-3], data[: len(data) // 2], b"\x00\x01\x02garbage" * 5):
        with pytest.raises(CompressionFailure), unpacked(codec, damaged):
            pass


def test_a_xerial_frame_that_breaks_off_or_lies_is_refused() -> None:
    head = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    block = bytes(cramjam.snappy.compress_raw(b"block"))
    for frame in (b"\x00\x00", struct.pack(">i", -1), struct.pack(">i", 99) + block):
        with pytest.raises(CompressionFailure), unpacked(SNAPPY, head + frame):
            pass
    huge = b"\xff\xff\xff\xff\x0f" + b"x" * 10
    with pytest.raises(UnpacksToMore), unpacked(SNAPPY, huge, 1 << 20):
        pass


@pytest.mark.parametrize("codec", PACKED, ids=CODEC_NAMES[1:])
def test_large_memory_goes_back_when_the_block_ends_also_by_an_error(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[mmap.mmap]] = []
    closed: list[bool] = []

    class Watched(mmap.mmap):
        def __new__(cls, *arguments: int) -> "Watched":
            memory = super().__new__(cls, *arguments)
            made.append(weakref.ref(memory))
            return memory

        def close(self) -> None:
            super().close()
            closed.append(self.closed)

    monkeypatch.setattr(compression, "mmap", Watched)
    data = compress(codec, bytes(1_000_000))
    with unpacked(codec, data):
        pass
    with pytest.raises(ZeroDivisionError), unpacked(codec, data):
        _ = 1 / 0
    with pytest.raises(UnpacksToMore), unpacked(codec, data, 999_999):
        pass
    assert closed == [True] * 3
