"""Avro's primitive types: a pair of functions each, from JSON to bytes and from bytes to JSON."""

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_LONG_BYTES_MAX = 10
EMPTY_ITEMS_MAX = 100_000
"""Array items and fields without bytes in one value."""
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "INF": math.inf, "-INF": -math.inf}


class BadValue(Exception):
    """A value that does not fit; the path to it grows as the error passes through records and arrays."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self._path: list[str | int] = []

    def within(self, step: str | int) -> None:
        """Note the field, key or index in which it happened."""
        self._path.append(step)

    def sentence(self) -> str:
        """The reason with the place, for a person."""
        path = "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self._path[-50:])
        )
        return f"{path.lstrip('.')}: {self.args[0]}" if path else str(self.args[0])


class Reader:
    """Bytes and how far they were read."""

    __slots__ = ("data", "empty_items", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.empty_items = 0

    def note_empty(self, count: int) -> None:
        """Values without bytes were read. BadValue if they are too many."""
        if count > 0:
            self.empty_items += count
            if self.empty_items > EMPTY_ITEMS_MAX:
                raise BadValue(f"it has over {EMPTY_ITEMS_MAX} items and fields without bytes")

    def take(self, size: int) -> bytes:
        """Return the next bytes. BadValue if there are not so many."""
        start = self.position
        if not 0 <= size <= len(self.data) - start:
            raise BadValue(f"{size} bytes are announced, and {len(self.data) - start} are left")
        self.position = start + size
        return self.data[start : self.position]


Encode = Callable[[Any, bytearray], None]
Decode = Callable[[Reader], Any]


def shown(value: Any) -> str:
    """A value, short enough for a message."""
    text = repr(value) if not isinstance(value, dict | list) else type(value).__name__
    text = {"None": "null", "True": "true", "False": "false", "dict": "an object", "list": "an array"}.get(
        text, text
    )
    return text if len(text) <= 60 else text[:57] + "..."


def write_long(value: int, out: bytearray) -> None:
    """Append a zigzag varint."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_long(reader: Reader) -> int:
    """Read a zigzag varint of at most 64 bits."""
    data, position, value = reader.data, reader.position, 0
    for shift in range(0, 7 * _LONG_BYTES_MAX, 7):
        if position >= len(data):
            raise BadValue("the bytes end early")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            reader.position = position
            value &= 0xFFFF_FFFF_FFFF_FFFF
            return value >> 1 ^ -(value & 1)
    raise BadValue("a number has over 64 bits")


def _integer(bits: int, name: str) -> tuple[Encode, Decode]:
    bound = 1 << bits - 1

    def encode(value: Any, out: bytearray) -> None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadValue(f"{name} is expected, not {shown(value)}")
        if not -bound <= value < bound:
            raise BadValue(f"{shown(value)} is too large for {name}")
        write_long(value, out)

    def decode(reader: Reader) -> int:
        value = read_long(reader)
        if not -bound <= value < bound:
            raise BadValue(f"{value} is too large for {name}")
        return value

    return encode, decode


def _floating(form: struct.Struct, name: str) -> tuple[Encode, Decode]:
    def encode(value: Any, out: bytearray) -> None:
        if isinstance(value, str):
            value = _SPECIAL.get(value, value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadValue(f"{name} is expected, not {shown(value)}")
        try:
            out += form.pack(value)
        except (OverflowError, struct.error):
            raise BadValue(f"{shown(value)} is too large for {name}") from None

    def decode(reader: Reader) -> float | str:
        (value,) = form.unpack(reader.take(form.size))
        if math.isfinite(value):
            return _shortest(value) if form is _FLOAT else float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    return encode, decode


def _shortest(value: float) -> float:
    """The number with the fewest digits that is the same in 32 bits, as Java prints a float."""
    for digits in range(6, 10):
        short = float(f"{value:.{digits}g}")
        try:
            if _FLOAT.unpack(_FLOAT.pack(short))[0] == value:
                return short
        except OverflowError:  # Rounded up beyond the largest float.
            continue
    return value


def _encode_null(value: Any, out: bytearray) -> None:
    if value is not None:
        raise BadValue(f"null is expected, not {shown(value)}")


def _encode_boolean(value: Any, out: bytearray) -> None:
    if not isinstance(value, bool):
        raise BadValue(f"true or false is expected, not {shown(value)}")
    out.append(value)


def _decode_boolean(reader: Reader) -> bool:
    byte = reader.take(1)[0]
    if byte > 1:
        raise BadValue(f"a boolean is 0 or 1, not {byte}")
    return byte == 1


def _text(codec: str, expected: str) -> tuple[Encode, Decode]:
    # Java's reader replaces what is no UTF-8, and so do we: the rest of the record is still worth seeing.
    errors = "replace" if codec == "utf-8" else "strict"

    def encode(value: Any, out: bytearray) -> None:
        if not isinstance(value, str):
            raise BadValue(f"{expected} is expected, not {shown(value)}")
        try:
            data = value.encode(codec)
        except UnicodeEncodeError as problem:
            raise BadValue(
                f"{expected} is expected; {value[problem.start]!a} at position {problem.start} is not of it"
            ) from None
        write_long(len(data), out)
        out += data

    return encode, lambda reader: reader.take(read_long(reader)).decode(codec, errors)


PRIMITIVES: Mapping[str, tuple[Encode, Decode]] = {
    "null": (_encode_null, lambda reader: None),
    "boolean": (_encode_boolean, _decode_boolean),
    "int": _integer(32, "an int"),
    "long": _integer(64, "a long"),
    "float": _floating(_FLOAT, "a float"),
    "double": _floating(_DOUBLE, "a double"),
    "bytes": _text("latin-1", "text of characters up to U+00FF, one a byte,"),
    "string": _text("utf-8", "text"),
}
