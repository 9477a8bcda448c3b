"""Numbers and text as Avro and Protobuf write them; what is not is Malformed."""

from __future__ import annotations


class Malformed(ValueError):
    """The bytes are not what the schema says."""


def read_bits(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A varint of at most 64 bits, and the position behind it."""
    bits = shift = 0
    while True:
        if at >= end or shift > 63:
            raise Malformed
        byte = data[at]
        at += 1
        if shift == 63 and byte > 1:
            raise Malformed
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return bits, at
        shift += 7


def unzigzag(bits: int) -> int:
    """0, 1, 2, 3 -> 0, -1, 1, -2."""
    return bits >> 1 ^ -(bits & 1)


def read_long(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag varint, and the position behind it."""
    bits, at = read_bits(data, at, end)
    return unzigzag(bits), at


def read_int(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag varint of 32 bits."""
    number, at = read_long(data, at, end)
    if not -(2**31) <= number < 2**31:
        raise Malformed
    return number, at


def text_of(content: bytes) -> bytes:
    """The bytes, if they are UTF-8."""
    try:
        content.decode()
    except UnicodeDecodeError:
        raise Malformed from None
    return content
