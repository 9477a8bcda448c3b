"""The offsets of a standalone worker, in the file of Kafka's standalone worker: a java.util.HashMap of
byte[].

    AC ED 00 05 | object, class java.util.HashMap (loadFactor, threshold) | 0.75, threshold
    block of 8 bytes: capacity, size | key, value, key, value, ...        | end
    byte[]      | array, class "[B" | length 4 | bytes |     from the second on the class is a reference

Written to another file that takes the place of the first when it is whole, so that a crash leaves one or the
other.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path

_MAGIC = b"\xac\xed\x00\x05"
_MAP_CLASS = (
    b"\x72\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02"
    b"F\x00\x0aloadFactorI\x00\x09threshold\x78\x70"
)
_BYTES_CLASS = b"\x72\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00\x78\x70"
_BYTES_REFERENCE = b"\x71\x00\x7e\x00\x02"
_OBJECT, _ARRAY, _NULL, _BLOCK, _END = b"\x73", b"\x75", b"\x70", b"\x77\x08", b"\x78"
_LOAD_FACTOR = b"\x3f\x40\x00\x00"


def encode(entries: Mapping[bytes, bytes | None]) -> bytes:
    """The file's bytes."""
    capacity = 16
    while len(entries) > capacity * 3 // 4:
        capacity *= 2
    parts = [_MAGIC, _OBJECT, _MAP_CLASS, _LOAD_FACTOR, struct.pack(">i", capacity * 3 // 4)]
    parts += [_BLOCK, struct.pack(">ii", capacity, len(entries))]
    is_first = True
    for entry in entries.items():
        for each in entry:
            if each is None:
                parts.append(_NULL)
                continue
            parts += [
                _ARRAY,
                _BYTES_CLASS if is_first else _BYTES_REFERENCE,
                struct.pack(">i", len(each)),
                each,
            ]
            is_first = False
    return b"".join((*parts, _END))


def decode(data: bytes) -> dict[bytes, bytes | None]:
    """ValueError: it is no such file."""
    reader = _Reader(data)
    for expected in (_MAGIC, _OBJECT, _MAP_CLASS, _LOAD_FACTOR):
        reader.expect(expected)
    reader.take(4)
    reader.expect(_BLOCK)
    _, size = struct.unpack(">ii", reader.take(8))
    entries: dict[bytes, bytes | None] = {}
    for _ in range(size):
        key, value = reader.array(), reader.array()
        if key is not None:
            entries[key] = value
    reader.expect(_END)
    return entries


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if len(found) != count or count < 0:
            raise ValueError("the file of offsets ends too early")
        self._at += count
        return found

    def expect(self, expected: bytes) -> None:
        if self.take(len(expected)) != expected:
            raise ValueError("it is no file of offsets of Kafka Connect")

    def array(self) -> bytes | None:
        kind = self.take(1)
        if kind == _NULL:
            return None
        if kind != _ARRAY:
            raise ValueError("it has something else than bytes")
        reference = self._data[self._at : self._at + 1] == b"\x71"
        self.expect(_BYTES_REFERENCE if reference else _BYTES_CLASS)
        (length,) = struct.unpack(">i", self.take(4))
        return self.take(length)


def load(path: Path) -> dict[bytes, bytes | None]:
    """The entries of a file; none if there is no file or it is empty. ValueError, OSError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    return decode(data) if data else {}


def save(path: Path, entries: Mapping[bytes, bytes | None]) -> None:
    """Replace the file. OSError: the one that was there stays."""
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        file.write(encode(entries))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
