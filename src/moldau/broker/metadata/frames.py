"""How the metadata file is laid out, and how it is read after a crash.

    the file   | magic "MOLDAU-METADATA-1\\n" 18 | frame | frame | ...
    a frame    | length 4 | crc32 4 | payload, JSON |

Every frame is on the disk before the next one begins. So after a power cut only the last frame can be torn,
and was never acknowledged: the reader stops before it, and the writer truncates there. A bad frame with good
ones behind it is something else, a damaged disk; dropping what follows would lose acknowledged changes, so
that is refused instead.
"""

import struct
from zlib import crc32

from moldau.broker.metadata.store import MetadataStoreError

MAGIC = b"MOLDAU-METADATA-1\n"
_HEAD = struct.Struct(">II")


def frame(payload: bytes) -> bytes:
    """The payload with its length and checksum in front."""
    return _HEAD.pack(len(payload), crc32(payload)) + payload


def read_frames(content: bytes, path: str) -> tuple[list[memoryview], int]:
    """The payloads of all good frames, and the position behind the last; MetadataStoreError for a damaged
    file."""
    if not content.startswith(MAGIC):
        raise MetadataStoreError(
            f"{path} is not a metadata file of Moldau; move it away, or use another data folder"
        )
    view = memoryview(content)
    payloads: list[memoryview] = []
    position = len(MAGIC)
    while (payload := _frame_at(view, position)) is not None:
        payloads.append(payload)
        position += _HEAD.size + len(payload)
    if _good_frame_behind(view, position):
        raise MetadataStoreError(
            f"{path} is damaged at byte {position}: later entries are intact, so this is no interrupted "
            "write. Restore the file from a backup; do not delete it, since it says which topics exist"
        )
    return payloads, position


def _frame_at(view: memoryview, position: int) -> memoryview | None:
    if position + _HEAD.size > len(view):
        return None
    length, crc = _HEAD.unpack_from(view, position)
    start = position + _HEAD.size
    payload = view[start : start + length]
    if length == 0 or len(payload) < length or crc32(payload) != crc:
        return None
    return payload


def _good_frame_behind(view: memoryview, position: int) -> bool:
    if position + _HEAD.size > len(view):
        return False
    (length, _) = _HEAD.unpack_from(view, position)
    return _frame_at(view, position + _HEAD.size + length) is not None
