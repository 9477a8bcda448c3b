"""The bytes of a segment: a header, then frames; each frame holds the records of one append, all or none.

    header  | "moldspl1" 8 | spool id 16 | first number 8 | crc32c 4 |
    frame   | marker 4 | crc32c 4 | body bytes 4 | records 4 | synced end 8 | body: (length 4, record) ... |

The crc of a frame begins with the spool's id and the frame's place, and covers all that follows the crc. So
bytes of another spool, of another place, or inside somebody's record never count as a frame.

*Torn or damaged?* A frame that does not check out is a torn tail if a crash can have caused it: nothing at or
after it was ever synced. A frame says how far its segment was synced when it was written (`synced end`), so a
later frame whose `synced end` lies beyond the bad one proves damage, as does the position file's mark. What a
later frame cannot tell is damage in the last synced frames of a process that was killed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from moldau.common.core.crc import crc32c

MAGIC = b"moldspl1"
MARKER = b"\xf5SpL"
HEADER = struct.Struct(">8s16sQI")
FRAME = struct.Struct(">4sIIIQ")
_CHECKED = struct.Struct(">IIQ")
_PLACE = struct.Struct(">QQ")
_LENGTH = struct.Struct(">I")
ID_BYTES = 16
CRC_END = 8
"""Where in a frame the crc ends and what it covers begins."""


class Frame(NamedTuple):
    """One whole frame: its bytes, its number of records, how far the file was synced when it was written."""

    start: int
    end: int
    record_count: int
    synced_end: int


class Scan(NamedTuple):
    """The whole frames of a segment, where they end, what is wrong with the next ("" at the file's end)."""

    frames: list[Frame]
    end: int
    what: str

    @property
    def record_count(self) -> int:
        return sum(frame.record_count for frame in self.frames)


def header(spool_id: bytes, first_number: int) -> bytes:
    """The header of the segment whose first record has this number."""
    crc = crc32c(HEADER.pack(MAGIC, spool_id, first_number, 0)[:-4])
    return HEADER.pack(MAGIC, spool_id, first_number, crc)


def framed_bytes(records: Sequence[bytes]) -> int:
    """The size of the frame that these records make."""
    return FRAME.size + sum(map(len, records)) + _LENGTH.size * len(records)


def frame(records: Sequence[bytes], spool_id: bytes, first_number: int, start: int, synced_end: int) -> bytes:
    """The frame of these records at byte `start` of the segment that begins with `first_number`."""
    pack = _LENGTH.pack
    body = b"".join([piece for record in records for piece in (pack(len(record)), record)])
    crc = crc32c(_CHECKED.pack(len(body), len(records), synced_end), _seed(spool_id, first_number, start))
    crc = crc32c(body, crc)
    return FRAME.pack(MARKER, crc, len(body), len(records), synced_end) + body


def _seed(spool_id: bytes, first_number: int, start: int) -> int:
    return crc32c(spool_id + _PLACE.pack(first_number, start))


def frame_at(
    data: memoryview, start: int, spool_id: bytes, first_number: int, offset: int = 0
) -> Frame | None:
    """The frame at `start` of a segment's bytes (from its byte `offset` on); None unless it checks out."""
    if start + FRAME.size > len(data):
        return None
    marker, crc, body_bytes, record_count, synced_end = FRAME.unpack_from(data, start)
    end = start + FRAME.size + body_bytes
    if marker != MARKER or end > len(data):
        return None
    if crc32c(data[start + CRC_END : end], _seed(spool_id, first_number, offset + start)) != crc:
        return None
    return Frame(start, end, record_count, synced_end)


def scan(data: bytes, spool_id: bytes, first_number: int) -> Scan:
    """The frames of a segment, up to the first that is not whole."""
    view = memoryview(data)
    frames: list[Frame] = []
    end = HEADER.size
    while end < len(data):
        found = frame_at(view, end, spool_id, first_number)
        if found is None:
            return Scan(frames, end, "a frame is cut short or its checksum is wrong")
        frames.append(found)
        end = found.end
    return Scan(frames, end, "")


def synced_beyond(data: bytes, start: int, spool_id: bytes, first_number: int) -> bool:
    """Whether a whole frame after `start` was written when the bytes at `start` had been synced."""
    view = memoryview(data)
    place = data.find(MARKER, start + 1)
    while place >= 0:
        found = frame_at(view, place, spool_id, first_number)
        if found is not None and found.synced_end > start:
            return True
        place = data.find(MARKER, place + 1)
    return False


def records_of(data: bytes, body_start: int, body_end: int) -> Iterator[bytes]:
    """The records in the body of a frame that checked out."""
    place = body_start
    while place < body_end:
        (length,) = _LENGTH.unpack_from(data, place)
        place += _LENGTH.size
        yield data[place : place + length]
        place += length
