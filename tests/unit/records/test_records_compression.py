"""The codecs: round trips, the framings that clients use, damage, and bombs."""

import gzip
import random
import struct
import zlib
from collections.abc import Iterator

import cramjam
import pytest

from moldau.common.records import compression
from moldau.common.records.compression import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    CompressionFailure,
    PacksToMore,
    compress,
    decompress,
)

TEXTS = [b"", b"x", b"a line of text " * 1000, bytes(range(256)) * 700]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("text", TEXTS, ids=len)
def test_round_trip(codec: int, text: bytes) -> None:
    assert bytes(decompress(codec, memoryview(compress(codec, text)))) == text


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=CODEC_NAMES[1:])
def test_a_bomb_is_stopped_at_the_limit(codec: int) -> None:
    bomb = compress(codec, bytes(3_000_000))
    assert len(bytes(decompress(codec, bomb, 3_000_000))) == 3_000_000
    with pytest.raises(CompressionFailure, match="more than"):
        decompress(codec, bomb, 2_999_999)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=CODEC_NAMES[1:])
def test_damage_is_an_error_of_ours(codec: int) -> None:
    data = compress(codec, b"some text that is long enough to be compressed " * 50)
    with pytest.raises(CompressionFailure):
        decompress(codec, data[:-3])
    with pytest.raises(CompressionFailure):
        decompress(codec, b"\x00\x01\x02garbage" * 5)


def test_raw_snappy_is_understood_too() -> None:
    text = b"librdkafka writes one raw block " * 10
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(text))) == text


def test_xerial_frames_of_several_blocks() -> None:
    head = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in (b"one", b"two", b"three")]
    framed = head + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    assert decompress(SNAPPY, framed) == b"onetwothree"
    with pytest.raises(CompressionFailure):
        decompress(SNAPPY, framed[:-1])
    with pytest.raises(CompressionFailure):
        decompress(SNAPPY, head + struct.pack(">i", -1))


def test_a_snappy_block_that_lies_about_its_size_takes_no_memory() -> None:
    with pytest.raises(CompressionFailure):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x" * 10, 1 << 20)


def test_lz4_blocks_are_independent_and_levels_are_passed_on() -> None:
    frame = compress(LZ4, b"a" * 200_000)
    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0x20, "Kafka's Java reader refuses linked blocks"
    text = b"".join(b"%d %d;" % (i, i * i) for i in range(5000))
    assert compress(GZIP, text, 9) != compress(GZIP, text, 1)
    assert len(compress(ZSTD, text, 19)) < len(compress(ZSTD, text, 1))


def test_gzip_as_other_tools_write_it() -> None:
    assert decompress(GZIP, gzip.compress(b"text")) == b"text"
    with pytest.raises(CompressionFailure):
        decompress(GZIP, zlib.compress(b"text"))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs(codec: int) -> None:
    with pytest.raises(CompressionFailure):
        decompress(codec, b"x")
    with pytest.raises(CompressionFailure):
        compress(codec, b"x")


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_packing_stops_once_the_result_is_too_large(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that comes again at a distance is small in zstd, and as large as it is in the other codecs."""
    payload = random.Random(7).randbytes(120_000) * 100
    whole = compress(codec, payload)
    assert bytes(decompress(codec, whole)) == payload
    assert compress(codec, payload, size_max=len(whole)) == whole
    sizes: list[int] = []
    packed = compression._packed

    def noted(*given: object) -> Iterator[bytes]:
        for piece in packed(*given):  # type: ignore[arg-type]
            sizes.append(len(piece))
            yield piece

    monkeypatch.setattr(compression, "_packed", noted)
    with pytest.raises(PacksToMore):
        compress(codec, payload, size_max=300_000)
    assert 300_000 < sum(sizes) <= 300_000 + 1_100_000
    with pytest.raises(PacksToMore):
        compress(codec, payload, size_max=len(whole) - 1)
