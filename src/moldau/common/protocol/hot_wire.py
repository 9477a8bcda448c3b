"""Shared by the two hand-tuned codecs: varints, skipping tagged fields, array lengths.

They read from a `memoryview` of one frame and never past its end. Hot; budgets with the codecs
(hot_produce.py, hot_fetch.py; bench/hot_path.py).
"""

import struct

from moldau.common.protocol.wire import MalformedMessage


def uvarint(view: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits at `position`: (value, position after it)."""
    value = shift = 0
    while True:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise MalformedMessage("a varint is longer than five bytes")
    if value > 0xFFFFFFFF:
        raise MalformedMessage("a varint does not fit 32 bits")
    return value, position


def skip_tagged_fields(view: memoryview, position: int) -> int:
    """The position after a block of tagged fields, which are ignored."""
    count, position = uvarint(view, position)
    for _ in range(count):
        _, position = uvarint(view, position)
        size_bytes, position = uvarint(view, position)
        position += size_bytes
        if position > len(view):
            raise MalformedMessage("a tagged field reaches past the end of the frame")
    return position


def checked_count(count: int, left_bytes: int, element_bytes_min: int) -> int:
    """An array's length, checked against the bytes that are left in the frame."""
    if count < 0 or count * element_bytes_min > left_bytes:
        raise MalformedMessage(f"an array says it has {count} elements, in {left_bytes} bytes")
    return count


_HEADER = struct.Struct(">ii").pack


def frame_answer(correlation_id: int, flexible: bool, body: bytes) -> bytes:
    """A complete response frame: size, correlation id, an empty block of tagged fields if flexible, body."""
    if flexible:
        return _HEADER(len(body) + 5, correlation_id) + b"\x00" + body
    return _HEADER(len(body) + 4, correlation_id) + body


def frame_answer_parts(
    correlation_id: int, flexible: bool, parts: list[bytes | memoryview]
) -> list[bytes | memoryview]:
    """The same for a body in parts, none of which is copied."""
    size_bytes = sum(map(len, parts))
    if flexible:
        parts[0] = _HEADER(size_bytes + 5, correlation_id) + b"\x00" + parts[0]
    else:
        parts[0] = _HEADER(size_bytes + 4, correlation_id) + parts[0]
    return parts
