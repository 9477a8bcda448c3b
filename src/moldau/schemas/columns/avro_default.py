"""The default of a field, given in JSON by the schema, as Avro bytes.

Bytes and fixed are written in JSON as text with one character a byte. A record's default may leave fields out
that have defaults of their own; so a short text may stand for any number of values, and one that takes more
than DEFAULT_STEPS_MAX is none.
"""

from __future__ import annotations

import struct
from typing import Any

from moldau.schemas.columns.avro_tree import MISSING, AvroType

DEFAULT_STEPS_MAX = 100_000
"""Values in one default, with those of branches that it is not of; ten characters count as one."""


def default_bytes(type_: AvroType, value: Any) -> bytes | None:
    """The value as Avro; None if it is not of this type, or takes too many steps."""
    return _Encoder().tried(type_, value)


def zigzag(number: int) -> int:
    """0, -1, 1, -2 -> 0, 1, 2, 3."""
    return (number << 1) ^ (number >> 63)


def long_bytes(number: int) -> bytes:
    """A zigzag varint."""
    return varint_bytes(zigzag(number))


def varint_bytes(bits: int) -> bytes:
    """A varint."""
    out = bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    out.append(bits)
    return bytes(out)


def _sized(content: bytes) -> bytes:
    return long_bytes(len(content)) + content


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError("of another type")


class _Encoder:
    def __init__(self) -> None:
        self._steps_left = DEFAULT_STEPS_MAX

    def tried(self, type_: AvroType, value: Any) -> bytes | None:
        """None if it is not of this type."""
        try:
            return self.encoded(type_, value)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error):
            return None

    def encoded(self, type_: AvroType, value: Any) -> bytes:
        self._steps_left -= 1 + (len(value) // 10 if isinstance(value, str) else 0)
        _require(self._steps_left >= 0)
        kind = type_.kind
        if kind in ("int", "long"):
            _require(isinstance(value, int) and not isinstance(value, bool))
            bits = 31 if kind == "int" else 63
            _require(-(2**bits) <= value < 2**bits)
            return long_bytes(value)
        if kind in ("float", "double"):
            _require(isinstance(value, int | float) and not isinstance(value, bool))
            return struct.pack("<f" if kind == "float" else "<d", value)
        if kind == "null":
            _require(value is None)
            return b""
        if kind == "boolean":
            _require(isinstance(value, bool))
            return bytes([value])
        if kind == "string":
            return _sized(value.encode())
        if kind == "bytes":
            return _sized(value.encode("latin-1"))
        if kind == "fixed":
            content: bytes = value.encode("latin-1")
            _require(len(content) == type_.size_bytes)
            return content
        if kind == "enum":
            return long_bytes(type_.symbols.index(value))
        if kind == "union":
            return self._of_union(type_, value)
        if kind == "record":
            return self._of_record(type_, value)
        return self._of_items(type_, value)

    def _of_union(self, type_: AvroType, value: Any) -> bytes:
        for index, branch in enumerate(type_.branches):
            encoded = self.tried(branch, value)
            if encoded is not None:
                return long_bytes(index) + encoded
        raise ValueError("of no branch")

    def _of_record(self, type_: AvroType, value: Any) -> bytes:
        _require(isinstance(value, dict))
        fields = [(each, value.get(each.name, each.default)) for each in type_.fields]
        _require(all(chosen is not MISSING for _, chosen in fields))
        return b"".join(self.encoded(each.type, chosen) for each, chosen in fields)

    def _of_items(self, type_: AvroType, value: Any) -> bytes:
        assert type_.items is not None
        _require(isinstance(value, list if type_.kind == "array" else dict))
        if type_.kind == "array":
            items = [self.encoded(type_.items, each) for each in value]
        else:
            items = [_sized(key.encode()) + self.encoded(type_.items, each) for key, each in value.items()]
        return (long_bytes(len(items)) if items else b"") + b"".join(items) + b"\0"
