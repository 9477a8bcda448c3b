"""Batches whose checksum is right and whose records are not: what a broken or hostile producer sends.

Each case says what Apache Kafka 4.3.1 answers (asked with tests/clients/test_poison_by_client.py and
`MOLDAU_TEST_BROKER=kafka`). Where ours differs, `ours` has it.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import NamedTuple

import cramjam

from moldau.common.records import compression
from moldau.common.records.batch import CRC_START, HEADER, HEADER_BYTES, LENGTH_OVERHEAD, POSITION, seal
from moldau.common.records.builder import build_batch
from moldau.common.records.compression import CODEC_NAMES, CODEC_NUMBERS
from moldau.common.records.record import Record, encode_varint

ACCEPTED, UNKNOWN_SERVER_ERROR, MESSAGE_TOO_LARGE, INVALID_RECORD = 0, -1, 10, 87
NOW_MS = 1_700_000_000_000
COUNT = 10
PACKED = CODEC_NAMES[1:]


class Poison(NamedTuple):
    """One batch, and the error codes that answer it."""

    name: str
    batch: bytes
    kafka: int
    ours: int

    @property
    def count(self) -> int:
        """How many records its header says."""
        return int(HEADER.unpack_from(self.batch)[12])


def batch_of(codec: str, body: bytes, count: int = COUNT, max_timestamp_ms: int = NOW_MS) -> bytes:
    """A batch with this body, as it is, behind a header of so many records."""
    head = HEADER.pack(
        0,
        HEADER_BYTES - LENGTH_OVERHEAD + len(body),
        -1,
        2,
        0,
        CODEC_NUMBERS[codec],
        count - 1,
        NOW_MS,
        max_timestamp_ms,
        -1,
        -1,
        -1,
        count,
    )
    batch = bytearray(head + body)
    seal(batch)
    return bytes(batch)


def record(index: int, fields: bytes | None = None, length: int | None = None) -> bytes:
    """A record with this offset delta; with other fields behind it, or another length before it."""
    body = bytearray(1)
    encode_varint(0, body)
    encode_varint(index, body)
    body += b"\x02k\x02v\x00" if fields is None else fields
    out = bytearray()
    encode_varint(len(body) if length is None else length, out)
    return bytes(out + body)


def payload(count: int = COUNT) -> bytes:
    return b"".join(map(record, range(count)))


def pack(codec: str, text: bytes) -> bytes:
    return compression.compress(CODEC_NUMBERS[codec], text)


def zstd_zeros(size_bytes: int) -> bytes:
    """A frame of zeros: four bytes for each 128 KiB."""
    block = 128 * 1024
    count = size_bytes // block
    one, last = ((block << 3 | 2 | end).to_bytes(3, "little") + b"\0" for end in (0, 1))
    return b"\x28\xb5\x2f\xfd\x00\x38" + one * (count - 1) + last


def lz4_frame(text: bytes, flags: int = 0x60, sizes: int = 0x40) -> bytes:
    """A frame of one stored block, with flags of one's choice."""
    descriptor = bytes((flags, sizes))
    check = xxh32(descriptor) >> 8 & 0xFF
    block = struct.pack("<I", len(text) | 0x80000000) + text
    return b"\x04\x22\x4d\x18" + descriptor + bytes((check,)) + block + bytes(4)


def xxh32(data: bytes) -> int:
    """XXH32 with seed 0, of fewer than 16 bytes (the specification of the lz4 frame asks for it)."""
    first, second, third, fourth, fifth = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    value = fifth + len(data)
    position = 0
    while position + 4 <= len(data):
        value += int.from_bytes(data[position : position + 4], "little") * third
        value &= 0xFFFFFFFF
        value = (value << 17 | value >> 15) * fourth & 0xFFFFFFFF
        position += 4
    for byte in data[position:]:
        value = value + byte * fifth & 0xFFFFFFFF
        value = (value << 11 | value >> 21) * first & 0xFFFFFFFF
    value = (value ^ value >> 15) * second & 0xFFFFFFFF
    value = (value ^ value >> 13) * third & 0xFFFFFFFF
    return value ^ value >> 16


def _records() -> list[tuple[str, bytes, int, int, int]]:
    """(name, payload, count in the header, Kafka's answer if packed, Kafka's answer if not)"""
    good = payload()
    server, bad, fine = UNKNOWN_SERVER_ERROR, INVALID_RECORD, ACCEPTED
    return [
        ("sound", good, COUNT, fine, fine),
        ("count too small", good, 5, bad, bad),
        ("count too large", good, 2_000_000, bad, bad),
        ("offset deltas all 0", record(0) * COUNT, COUNT, server, fine),
        ("bytes behind the records", good + b"\0\0\0", COUNT, bad, bad),
        ("length 0", good[: len(record(0))] + bytes(40), COUNT, bad, bad),
        ("length negative", record(0, length=-5) * COUNT, COUNT, server, bad),
        ("length beyond the end", payload(9) + record(9, length=1 << 20), COUNT, fine, bad),
        ("length of 2 GB", payload(9) + record(9, length=(1 << 31) - 1), COUNT, fine, bad),
        ("key beyond the record", payload(9) + record(9, b"\x7ek\x02v\x00"), COUNT, bad, bad),
        ("headers beyond the record", payload(9) + record(9, b"\x02k\x02v\x40"), COUNT, bad, bad),
        ("header without a name", payload(9) + record(9, b"\x02k\x02v\x02\x01\x01"), COUNT, bad, bad),
        ("bytes behind the fields", payload(9) + record(9, b"\x02k\x02v\x00zzz"), COUNT, bad, bad),
        ("nothing", b"", COUNT, bad, bad),
        ("zeros", bytes(100), COUNT, bad, bad),
    ]


def _streams(codec: str) -> list[tuple[str, bytes, int, int]]:
    """(name, compressed bytes, Kafka's answer, ours)"""
    good = pack(codec, payload())
    half = len(record(0)) * 5
    server, bad, fine = UNKNOWN_SERVER_ERROR, INVALID_RECORD, ACCEPTED
    cases = [
        ("garbage", bytes(range(200, 250)) * 2, server, bad),
        ("cut short", good[:-5], server, bad),
        ("cut in half", good[: len(good) // 2], server, bad),
        ("garbage behind it", good + b"garbage", fine if codec in ("gzip", "lz4") else server, bad),
        ("itself twice", good + good, fine if codec == "lz4" else bad, bad),
        (
            "two streams",
            pack(codec, payload()[:half]) + pack(codec, payload()[half:]),
            bad if codec == "lz4" else fine,
            fine if codec == "zstd" else bad,
        ),
    ]
    if codec == "zstd":
        cases += [
            ("24 GB of zeros", zstd_zeros(24 << 30), bad, bad),
            ("a window of 2 GB", b"\x28\xb5\x2f\xfd\x00\xa8\x01\0\0", server, bad),
            ("a frame to be skipped before it", b"\x50\x2a\x4d\x18\x04\0\0\0skip" + good, fine, fine),
        ]
    if codec == "lz4":
        cases += [
            ("stored blocks", lz4_frame(payload()), fine, fine),
            ("linked blocks", lz4_frame(payload(), flags=0x40), server, bad),
            ("a frame to be skipped before it", b"\x50\x2a\x4d\x18\x04\0\0\0skip" + good, server, bad),
        ]
    if codec == "snappy":
        raw = bytes(cramjam.snappy.compress_raw(payload()))
        cases += [
            ("one raw block", raw, fine, fine),
            ("version 0", good[:8] + bytes(4) + good[12:], fine, fine),
            ("says 4 GB", b"\xff\xff\xff\xff\x0f" + raw[1:], server, MESSAGE_TOO_LARGE),
        ]
    if codec == "gzip":
        cases.append(("zlib's format", zlib.compress(payload()), server, bad))
    return cases


def poisons() -> list[Poison]:
    """All of them."""
    found = []
    for name, text, count, packed, plain in _records():
        for codec in CODEC_NAMES:
            kafka = plain if codec == "none" else packed
            ours = ACCEPTED if name == "sound" else INVALID_RECORD
            body = text if codec == "none" else pack(codec, text)
            found.append(Poison(f"{codec}: {name}", batch_of(codec, body, count), kafka, ours))
    for codec in PACKED:
        for name, body, kafka, ours in _streams(codec):
            found.append(Poison(f"{codec}: {name}", batch_of(codec, body), kafka, ours))
    return found


def large(codec: str, size_bytes: int, *, damaged_at: float | None = None) -> bytes:
    """A sound batch of about this size when unpacked, of values that do not pack well; or one whose packed
    bytes have another value at this share of their length.
    """
    value = os.urandom(700).hex().encode()
    rows = [Record(index, NOW_MS, b"k", value, ()) for index in range(max(1, size_bytes // 1400))]
    batch = bytearray(build_batch(rows, compression=codec))
    if damaged_at is not None:
        at = HEADER_BYTES + int((len(batch) - HEADER_BYTES - 1) * damaged_at)
        batch[at] ^= 0x5A
    POSITION.pack_into(batch, 0, 0, len(batch) - LENGTH_OVERHEAD, -1)
    seal(batch)
    assert len(batch) > CRC_START
    return bytes(batch)
