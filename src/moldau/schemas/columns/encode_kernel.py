"""Writes rows by a program (writing.py): the interface, and the twin of `_encode.c` in Python.

    encode(layout, columns, nodes, children, constants, root, header, rows)
        -> (offsets, data)         of as many values as there are rows; a row that is null has no bytes
        -> (row, node, reason)     of the first value that cannot be written

A column is (offset, validity, data or offsets, bytes), as Arrow has them, or None where there is none. Both
sides write the same bytes.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import date, timedelta
from enum import IntEnum
from typing import Any, TypeAlias

from moldau.common.core.kernels import kernel
from moldau.schemas.columns.avro_default import long_bytes, varint_bytes
from moldau.schemas.columns.kernel_protobuf import REPEATED, Presence
from moldau.schemas.columns.program import Kind, Node
from moldau.schemas.columns.writing import PACKED, Put

compiled = kernel(
    "moldau.schemas.columns._encode"
)  # None: no C compiler where this was installed, or ruled out

Column: TypeAlias = tuple[int, Any, Any, Any]
_NUMBER = re.compile(rb"-?[0-9]{1,10}")
_DAY_US = 86_400_000_000
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


class Reason(IntEnum):
    """What keeps a value from being written."""

    IS_NULL = 1
    NO_SYMBOL = 2
    WRONG_SIZE = 3
    TOO_LARGE = 4
    NO_NUMBER = 5


SENTENCES = {
    Reason.IS_NULL: "is null, and the schema does not allow that",
    Reason.NO_SYMBOL: "is no symbol of the schema's enum",
    Reason.WRONG_SIZE: "has another length than the schema's fixed",
    Reason.TOO_LARGE: "is out of the range that the schema's type has",
    Reason.NO_NUMBER: "is not a number, or infinite, which JSON does not have",
}


def encode(*arguments: Any) -> tuple[bytes, bytes] | tuple[int, int, int]:
    """See above."""
    if compiled is not None:
        result: tuple[bytes, bytes] | tuple[int, int, int] = compiled.encode(*arguments)
        return result
    return python_encode(*arguments)


def python_encode(
    layout: bytes,
    columns: list[Column | None],
    nodes: bytes,
    children: bytes,
    constants: list[bytes],
    root: int,
    header: bytes,
    rows: int,
) -> tuple[bytes, bytes] | tuple[int, int, int]:
    """The twin."""
    return _Writer(layout, columns, nodes, children, constants).write(root, header, rows)


class _Failed(Exception):
    """A value cannot be written: the node, and the reason."""


class _Input:
    """A column of the batch."""

    def __init__(self, kind: int, first: int, count: int, column: Column | None) -> None:
        self.kind, self.first, self.count = Kind(kind), first, count
        self.present = column is not None
        self.offset, validity, data, heap = column or (0, None, None, None)
        self._validity = None if validity is None else memoryview(validity).cast("B")
        self._data = memoryview(data if data is not None else b"").cast("B")
        self._heap = memoryview(heap if heap is not None else b"").cast("B")

    def is_null(self, row: int) -> bool:
        if not self.present or self.kind is Kind.NULL:
            return True
        at = self.offset + row
        return self._validity is not None and not self._validity[at >> 3] >> (at & 7) & 1

    def boolean(self, row: int) -> bool:
        at = self.offset + row
        return bool(self._data[at >> 3] >> (at & 7) & 1)

    def raw(self, row: int) -> bytes:
        width = {Kind.WIDE_4: 4, Kind.WIDE_8: 8, Kind.WIDE_16: 16}[self.kind]
        at = width * (self.offset + row)
        return bytes(self._data[at : at + width])

    def integer(self, row: int) -> int:
        return int.from_bytes(self.raw(row), "little", signed=True)

    def number(self, row: int) -> float:
        raw = self.raw(row)
        value: float = struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0]
        return value

    def items(self, row: int) -> tuple[int, int]:
        first, end = struct.unpack_from("=2i", self._data, 4 * (self.offset + row))
        return first, end

    def bytes(self, row: int) -> bytes:
        first, end = self.items(row)
        return bytes(self._heap[first:end])


class _Writer:
    def __init__(
        self,
        layout: bytes,
        columns: list[Column | None],
        nodes: bytes,
        children: bytes,
        constants: list[bytes],
    ) -> None:
        shapes = list(struct.iter_unpack("=3i", layout))
        self._inputs = [
            _Input(kind, first, count, column)
            for (kind, first, count), column in zip(shapes, columns, strict=True)
        ]
        width = len(Node._fields)
        self._nodes = [Node(*words) for words in struct.iter_unpack(f"={width}i", nodes)]
        self._children: tuple[int, ...] = struct.unpack(f"={len(children) // 4}i", children)
        self._constants = constants
        self._puts: dict[int, Callable[[Node, _Input, int], bytes]] = {
            Put.BOOLEAN: lambda node, column, row: bytes([column.boolean(row)]),
            Put.INT: lambda node, column, row: long_bytes(column.integer(row)),
            Put.MILLIS: lambda node, column, row: long_bytes(column.integer(row) // 1000),
            Put.FLOAT: lambda node, column, row: column.raw(row),
            Put.BYTES: lambda node, column, row: _sized(column.bytes(row)),
            Put.FIXED: self._fixed,
            Put.ENUM: self._enum,
            Put.DECIMAL: self._decimal,
            Put.DECIMAL_FIXED: self._decimal,
            Put.RECORD: self._record,
            Put.ARRAY: self._items,
            Put.MAP: self._items,
            Put.MEMBERS: self._members,
            Put.MESSAGE: self._message,
            Put.OBJECT: self._object,
            Put.JS_BOOLEAN: lambda node, column, row: b"true" if column.boolean(row) else b"false",
            Put.JS_INT: lambda node, column, row: str(column.integer(row)).encode(),
            Put.JS_NUMBER: self._number,
            Put.JS_STRING: lambda node, column, row: _quoted(column.bytes(row)),
            Put.JS_TEXT: lambda node, column, row: column.bytes(row),
            Put.JS_DATE: lambda node, column, row: b'"%s"' % self._date(node, column.integer(row)),
            Put.JS_TIME: self._time_text,
            Put.JS_ARRAY: self._json_items,
            Put.JS_MAP: self._json_items,
        }

    def write(self, root: int, header: bytes, rows: int) -> tuple[bytes, bytes] | tuple[int, int, int]:
        """All rows."""
        out, ends = bytearray(), [0]
        for row in range(rows):
            if not self._inputs[0].is_null(row):
                try:
                    out += header + self._put(self._nodes[root], row)
                except _Failed as failed:
                    node, reason = failed.args
                    return row, next(i for i, each in enumerate(self._nodes) if each is node), int(reason)
            ends.append(len(out))
        return struct.pack(f"={len(ends)}i", *ends), bytes(out)

    def _child(self, node: Node, index: int) -> Node:
        return self._nodes[self._children[node.first + index]]

    def _put(self, node: Node, row: int) -> bytes:
        if node.op == Put.CONSTANT:
            return self._constants[node.a]
        column = self._inputs[node.column]
        null = column.is_null(row)
        if node.op == Put.NULL_OR:
            if null:
                return long_bytes(node.a)
            inner = self._put(self._child(node, 0), row)
            return (long_bytes(node.b) if node.b >= 0 else b"") + inner
        if null:
            raise _Failed(node, Reason.IS_NULL)
        return self._puts[node.op](node, column, row)

    def _fixed(self, node: Node, column: _Input, row: int) -> bytes:
        value = column.bytes(row)
        if len(value) != node.a:
            raise _Failed(node, Reason.WRONG_SIZE)
        return value

    def _enum(self, node: Node, column: _Input, row: int) -> bytes:
        value = column.bytes(row)
        for symbol in range(node.child_count):
            if self._constants[self._children[node.first + symbol]] == value:
                return long_bytes(symbol)
        raise _Failed(node, Reason.NO_SYMBOL)

    def _decimal(self, node: Node, column: _Input, row: int) -> bytes:
        number = column.integer(row)
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        if node.op == Put.DECIMAL:
            return _sized(number.to_bytes(size, "big", signed=True))
        if size > node.a:
            raise _Failed(node, Reason.TOO_LARGE)
        return number.to_bytes(node.a, "big", signed=True)

    def _record(self, node: Node, column: _Input, row: int) -> bytes:
        return b"".join(self._put(self._child(node, index), row) for index in range(node.child_count))

    def _items(self, node: Node, column: _Input, row: int) -> bytes:
        first, end = column.items(row)
        out = bytearray(long_bytes(end - first) if first < end else b"")
        keys = self._inputs[self._inputs[column.first].first] if node.op == Put.MAP else None
        for at in range(first, end):
            if keys is not None:
                out += _sized(keys.bytes(at))
            out += self._put(self._child(node, 0), at)
        return bytes(out) + b"\0"

    def _members(self, node: Node, column: _Input, row: int) -> bytes:
        for index in range(node.child_count):
            member = self._child(node, index)
            if not self._inputs[member.column].is_null(row):
                return long_bytes(member.d) + self._put(member, row)
        raise _Failed(node, Reason.IS_NULL)

    def _message(self, node: Node, column: _Input, row: int) -> bytes:
        return b"".join(self._field(self._child(node, index), row) for index in range(node.child_count))

    def _field(self, node: Node, row: int) -> bytes:
        column = self._inputs[node.column]
        if column.is_null(row):
            if node.b & 3 >= Presence.REQUIRED and not node.b & REPEATED:
                raise _Failed(node, Reason.IS_NULL)
            return b""
        tag = varint_bytes(node.a & 0xFFFFFFFF)
        if not node.b & REPEATED:
            if node.b & 3 == Presence.IMPLICIT and self._is_default(node, column, row):
                return b""
            return tag + self._pb_value(node, column, row)
        items = self._inputs[column.first]
        first, end = column.items(row)
        if any(items.is_null(at) for at in range(first, end)):
            raise _Failed(node, Reason.IS_NULL)
        values = [self._pb_value(node, items, at) for at in range(first, end)]
        if node.b & PACKED:
            return tag + _length(b"".join(values)) if values else b""
        return b"".join(tag + each for each in values)

    def _pb_value(self, node: Node, column: _Input, row: int) -> bytes:
        op = node.op
        if op == Put.PB_BOOL:
            return bytes([column.boolean(row)])
        if op == Put.PB_VARINT:
            return varint_bytes(column.integer(row) & (1 << 64) - 1)
        if op == Put.PB_UNSIGNED:
            return varint_bytes(column.integer(row) & (1 << 32) - 1)
        if op == Put.PB_ZIGZAG:
            return long_bytes(column.integer(row))
        if op == Put.PB_FIXED:
            return column.raw(row)
        if op == Put.PB_BYTES:
            return _length(column.bytes(row))
        if op == Put.PB_ENUM:
            number = self._enum_number(node, column, row)
            if number is None:
                raise _Failed(node, Reason.NO_SYMBOL)
            return varint_bytes(number & (1 << 64) - 1)
        if op == Put.PB_TIME:
            return _length(_time(column.integer(row), bool(node.d)))
        content = self._message(self._child(node, 0), column, row)
        return content + varint_bytes((node.a & 0xFFFFFFFF) + 1) if op == Put.PB_GROUP else _length(content)

    def _enum_number(self, node: Node, column: _Input, row: int) -> int | None:
        value = column.bytes(row)
        for at in range(node.first + 1, node.first + node.child_count, 2):
            if self._constants[self._children[at]] == value:
                return self._children[at + 1]
        prefix = self._children[node.first]
        if prefix < 0 or not value.startswith(self._constants[prefix]):
            return None
        digits = value[len(self._constants[prefix]) :]
        found = _NUMBER.fullmatch(digits)
        return int(digits) if found and -(2**31) <= int(digits) < 2**31 else None

    def _is_default(self, node: Node, column: _Input, row: int) -> bool:
        if node.op == Put.PB_BOOL:
            return not column.boolean(row)
        if node.op == Put.PB_BYTES:
            return not column.bytes(row)
        if node.op == Put.PB_ENUM:
            return self._enum_number(node, column, row) == 0
        return node.op not in (Put.PB_MESSAGE, Put.PB_GROUP, Put.PB_TIME) and column.integer(row) == 0

    def _object(self, node: Node, column: _Input, row: int) -> bytes:
        parts = []
        for index in range(node.child_count):
            field = self._child(node, index)
            if self._inputs[field.column].is_null(row):
                if field.b & 3 == Presence.REQUIRED:
                    raise _Failed(field, Reason.IS_NULL)
                if field.b & 3 != Presence.ALWAYS:
                    continue
            parts.append(self._constants[field.c] + self._json_item(field, row))
        return b"{%s}" % b",".join(parts)

    def _json_item(self, node: Node, row: int) -> bytes:
        return b"null" if self._inputs[node.column].is_null(row) else self._put(node, row)

    def _json_items(self, node: Node, column: _Input, row: int) -> bytes:
        items = [self._json_item(self._child(node, 0), at) for at in range(*column.items(row))]
        if node.op == Put.JS_ARRAY:
            return b"[%s]" % b",".join(items)
        keys = self._inputs[self._inputs[column.first].first]
        names = [_quoted(keys.bytes(at)) for at in range(*column.items(row))]
        return b"{%s}" % b",".join(b"%s:%s" % pair for pair in zip(names, items, strict=True))

    def _number(self, node: Node, column: _Input, row: int) -> bytes:
        value = column.number(row)
        if not math.isfinite(value):
            raise _Failed(node, Reason.NO_NUMBER)
        return repr(value).encode()

    def _date(self, node: Node, days: int) -> bytes:
        try:
            return (date(1970, 1, 1) + timedelta(days)).isoformat().encode()
        except OverflowError:
            raise _Failed(node, Reason.TOO_LARGE) from None

    def _time_text(self, node: Node, column: _Input, row: int) -> bytes:
        days, rest = divmod(column.integer(row), _DAY_US)
        seconds, fraction = divmod(rest, 1_000_000)
        text = f"T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        text += f".{fraction:06}Z" if fraction else "Z"
        return b'"%s%s"' % (self._date(node, days), text.encode())


def _sized(content: bytes) -> bytes:
    return long_bytes(len(content)) + content


def _length(content: bytes) -> bytes:
    return varint_bytes(len(content)) + content


def _quoted(text: bytes) -> bytes:
    plain = text.decode()
    escaped = "".join(_SHORT.get(each) or (f"\\u{ord(each):04x}" if each < " " else each) for each in plain)
    return b'"%s"' % escaped.encode()


def _time(us: int, is_duration: bool) -> bytes:
    """A Timestamp's nanoseconds are never negative; a Duration's have the sign of its seconds."""
    seconds = us // 1_000_000
    if is_duration and us < 0:
        seconds = -(-us // 1_000_000)
    nanoseconds = (us - seconds * 1_000_000) * 1000
    mask = (1 << 64) - 1
    first = b"\x08" + varint_bytes(seconds & mask) if seconds else b""
    return first + (b"\x10" + varint_bytes(nanoseconds & mask) if nanoseconds else b"")
