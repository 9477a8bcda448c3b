"""The wire format that compiled codecs call as functions: variable-length integers and tag sections.

Everything else (fixed-width integers, strings, arrays) is inlined in the code that `decoder.py` and
`encoder.py` generate, because a function call costs more than the work it does.

Invariant: every length is checked against the rest of the frame before anything of that size is allocated or
looped over, so a wrong length costs the connection that sent it, and nothing else.

    unsigned varint   7 bits a byte, lowest first; the high bit says that another byte follows
    tag section       | count uvarint | then count times: | tag uvarint | size uvarint | size bytes |
"""

from __future__ import annotations

from collections.abc import Generator

_TAGS_AT_ONCE = 256
UVARINT_BYTES_MAX = 5
STRING_BYTES_MAX = 2**15 - 1
_SMALL = [bytes([value]) for value in range(128)]


class MalformedMessage(ValueError):
    """The peer's bytes are not a valid message: cut short, too long, or with a wrong length."""


def uvarint(value: int) -> bytes:
    """The unsigned varint form of `value`, which must not be negative."""
    if value < 128:
        return _SMALL[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def finish_uvarint(data: bytes | memoryview, offset: int, first: int) -> tuple[int, int]:
    """Read the rest of a varint after its first byte, `first` >= 128; return value and offset after it.

    Raises IndexError at the end of the data (compiled decoders turn it into MalformedMessage).
    """
    value, shift = first & 127, 7
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, offset
        shift += 7
        if shift >= 7 * UVARINT_BYTES_MAX:
            raise MalformedMessage(f"varint of more than {UVARINT_BYTES_MAX} bytes at offset {offset}")


def read_uvarint(data: bytes | memoryview, offset: int) -> tuple[int, int]:
    """An unsigned varint and the offset behind it; IndexError where the data ends early."""
    first = data[offset]
    if first < 128:
        return first, offset + 1
    return finish_uvarint(data, offset + 1, first)


def skip_tags(data: bytes | memoryview, offset: int, count: int, end: int) -> int:
    """Skip `count` unknown tagged fields; return the offset after them."""
    if count * 2 > end - offset:
        raise MalformedMessage(f"{count} tagged fields announced in {end - offset} bytes")
    for _ in range(count):
        _, offset = read_uvarint(data, offset)
        size, offset = read_uvarint(data, offset)
        offset += size
        if offset > end:
            raise MalformedMessage(f"tagged field of {size} bytes ends {offset - end} bytes too late")
    return offset


def skip_tags_in_slices(
    data: bytes | memoryview, offset: int, count: int, end: int
) -> Generator[None, None, int]:
    """As `skip_tags`, yielding now and then."""
    while count > _TAGS_AT_ONCE:
        # What is announced is checked against all bytes, as there may be so many tags in all.
        if count * 2 > end - offset:
            raise MalformedMessage(f"{count} tagged fields announced in {end - offset} bytes")
        offset = skip_tags(data, offset, _TAGS_AT_ONCE, end)
        count -= _TAGS_AT_ONCE
        yield
    return skip_tags(data, offset, count, end)
