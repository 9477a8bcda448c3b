"""A table on disk, and how far its topic had been read.

    | "MLDTAB1\\n" 8 | header length 4 | crc 4 | header: JSON |
    | count 4 | keys bytes 8 | values bytes 8 | crc 4 | key lengths | value lengths | keys | values |  a block
    ...
    | 0 | 0 | 0 | crc |                                                                  the end

Numbers are little-endian; a block's crc (zlib) covers what follows it. Columns, because a million single
reads would take as long as the topic does.

It is written beside the old one (`.new`), synced, and renamed: a crash or a full disk leaves the old one.
Whatever is wrong with a file raises DamagedSnapshot with a sentence. Not here: whether the topic still is
what the snapshot was taken of (follower.py).
"""

from __future__ import annotations

import json
import os
import struct
import sys
import zlib
from array import array
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import IO, NamedTuple

from moldau.kit.errors import KitError

MAGIC = b"MLDTAB1\n"
_HEADER = struct.Struct("<II")
_BLOCK = struct.Struct("<IQQI")
_ENTRIES_A_BLOCK = 65_536
_HEADER_BYTES_MAX = 16 * 1024 * 1024


class DamagedSnapshot(KitError):
    """A snapshot file that cannot be used as it is."""


class Position(NamedTuple):
    """How far a partition has been read."""

    next_offset: int
    leader_epoch: int  # of the last record; -1 if it is not known


class Snapshot(NamedTuple):
    """A table at a moment."""

    topic: str
    topic_id: str
    as_of_ms: int  # every record older than this is in it
    positions: dict[int, Position]
    data: dict[bytes, bytes]


def write_snapshot(path: Path, snapshot: Snapshot) -> int:
    """Replace the file; returns its size in bytes. Raises OSError, and leaves the old one."""
    new = path.with_name(path.name + ".new")
    head = {
        "topic": snapshot.topic,
        "topic_id": snapshot.topic_id,
        "as_of_ms": snapshot.as_of_ms,
        "positions": {str(number): list(position) for number, position in snapshot.positions.items()},
        "count": len(snapshot.data),
    }
    header = json.dumps(head).encode()
    try:
        with new.open("wb") as file:
            file.write(MAGIC + _HEADER.pack(len(header), zlib.crc32(header)) + header)
            entries = iter(snapshot.data.items())
            while block := list(islice(entries, _ENTRIES_A_BLOCK)):
                _write_block(file, [key for key, _ in block], [value for _, value in block])
            _write_block(file, [], [])
            file.flush()
            os.fsync(file.fileno())
            size_bytes = file.tell()
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return size_bytes


def _write_block(file: IO[bytes], keys: list[bytes], values: list[bytes]) -> None:
    joined_keys, joined_values = b"".join(keys), b"".join(values)
    lengths = _little(array("I", map(len, keys))), _little(array("I", map(len, values)))
    body = b"".join((*lengths, joined_keys, joined_values))
    file.write(_BLOCK.pack(len(keys), len(joined_keys), len(joined_values), zlib.crc32(body)))
    file.write(body)


def _little(numbers: array[int]) -> bytes:
    if sys.byteorder != "little":
        numbers.byteswap()
    return numbers.tobytes()


def read_snapshot(path: Path) -> Snapshot | None:
    """The snapshot in a file, or None if there is no file. Raises DamagedSnapshot, OSError."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    with file:
        left = os.fstat(file.fileno()).st_size
        if file.read(len(MAGIC)) != MAGIC:
            raise DamagedSnapshot(f"{path} is no snapshot of a table: it begins otherwise")
        length, crc = _HEADER.unpack(_read(file, path, _HEADER.size))
        if length > min(_HEADER_BYTES_MAX, left):
            raise DamagedSnapshot(f"{path} is damaged: its header would be {length} bytes long")
        header = _read(file, path, length)
        if zlib.crc32(header) != crc:
            raise DamagedSnapshot(f"{path} is damaged: its header's checksum is another")
        head = json.loads(header)
        data: dict[bytes, bytes] = {}
        number = 0
        while _read_block(file, path, number, left, data):
            number += 1
        if file.read(1):
            raise DamagedSnapshot(f"{path} is damaged: something stands behind its end")
        if len(data) != head["count"]:
            raise DamagedSnapshot(f"{path} is damaged: {len(data)} keys of {head['count']}")
    positions = {int(number): Position(*position) for number, position in head["positions"].items()}
    return Snapshot(head["topic"], head["topic_id"], head["as_of_ms"], positions, data)


def _read(file: IO[bytes], path: Path, count_bytes: int) -> bytes:
    found = file.read(count_bytes)
    if len(found) < count_bytes:
        raise DamagedSnapshot(f"{path} is damaged: it ends in the middle")
    return found


def _read_block(file: IO[bytes], path: Path, number: int, left: int, data: dict[bytes, bytes]) -> bool:
    count, keys_bytes, values_bytes, crc = _BLOCK.unpack(_read(file, path, _BLOCK.size))
    size_bytes = 8 * count + keys_bytes + values_bytes
    if size_bytes > left:
        raise DamagedSnapshot(f"{path} is damaged: block {number} would be {size_bytes} bytes long")
    body = _read(file, path, size_bytes)
    if zlib.crc32(body) != crc:
        raise DamagedSnapshot(f"{path} is damaged: the checksum of block {number} is another")
    if not count:
        return False
    keys = _split(body, 0, count, 8 * count)
    values = _split(body, 4 * count, count, 8 * count + keys_bytes)
    data.update(zip(keys, values, strict=True))
    return True


def _split(body: bytes, at: int, count: int, begin: int) -> list[bytes]:
    """Cut a column: lengths at `at`, contents from `begin`."""
    lengths = array("I")
    lengths.frombytes(body[at : at + 4 * count])
    if sys.byteorder != "little":
        lengths.byteswap()
    ends = list(accumulate(lengths, initial=begin))
    return [body[first:last] for first, last in pairwise(ends)]
