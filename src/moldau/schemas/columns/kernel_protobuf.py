"""The part of the twin that reads Protobuf; see read_protobuf.h, whose rules these are.

Fields come in any order, more than once, or not at all; the last of a single field counts, and single
messages are merged. So every occurrence of a wanted field is collected first; then the columns are filled.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from moldau.schemas.columns.cells import Cells
from moldau.schemas.columns.program import DEPTH_MAX, Node, Op
from moldau.schemas.columns.wire_values import Malformed, read_bits, text_of, unzigzag

if TYPE_CHECKING:
    from moldau.schemas.columns.kernel import Reader

GROUP_DEPTH_MAX = 100


class Presence(IntEnum):
    """What a single field that does not come means."""

    IMPLICIT = 0
    NULL = 1
    REQUIRED = 2
    ALWAYS = 3


REPEATED = 4
CLOSED = 8
"""Of an enum: unknown numbers are unknown fields."""


class Wire(IntEnum):
    """The lowest bits of a field's tag."""

    VARINT = 0
    WIDE_8 = 1
    BYTES = 2
    GROUP = 3
    GROUP_END = 4
    WIDE_4 = 5


_WIRES = {
    Op.PB_FIXED32: Wire.WIDE_4,
    Op.PB_FIXED64: Wire.WIDE_8,
    Op.PB_STRING: Wire.BYTES,
    Op.PB_BYTES: Wire.BYTES,
    Op.PB_TIMESTAMP: Wire.BYTES,
    Op.PB_MESSAGE: Wire.BYTES,
    Op.PB_GROUP: Wire.GROUP,
}
_MESSAGES = (Op.PB_MESSAGE, Op.PB_GROUP, Op.PB_TIMESTAMP)


def wire_of(op: int) -> Wire:
    """The wire type of a field that is not packed."""
    return _WIRES.get(Op(op), Wire.VARINT)


class Found(NamedTuple):
    """One occurrence of a field: its number's bits, or its bytes."""

    wire: Wire
    value: int
    content: bytes


class MessageReader:
    """Appends messages to the columns of their nodes."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._columns = reader.columns
        self._appends: dict[int, Callable[[Cells, Found], None]] = {
            Op.PB_BOOL: lambda column, found: column.append(found.value != 0),
            Op.PB_INT32: lambda column, found: column.append(found.value),
            Op.PB_FIXED32: lambda column, found: column.append(found.value),
            Op.PB_SINT32: lambda column, found: column.append(unzigzag(found.value & 0xFFFFFFFF)),
            Op.PB_INT64: lambda column, found: column.append(found.value),
            Op.PB_FIXED64: lambda column, found: column.append(found.value),
            Op.PB_SINT64: lambda column, found: column.append(unzigzag(found.value)),
            Op.PB_STRING: lambda column, found: column.append_bytes(text_of(found.content)),
            Op.PB_BYTES: lambda column, found: column.append_bytes(found.content),
        }

    def read(self, node: Node, pieces: list[bytes], depth: int) -> None:
        """Append the message that these pieces are together."""
        if depth > DEPTH_MAX:
            raise Malformed
        fields = [self._reader.child(node, index) for index in range(node.child_count)]
        found: list[list[Found]] = [[] for _ in fields]
        for piece in pieces:
            self._scan(fields, found, piece)
        for field, occurrences in zip(fields, found, strict=True):
            self._append(field, occurrences, depth)
        self._columns[node.column].append_struct()

    def _scan(self, fields: list[Node], found: list[list[Found]], piece: bytes) -> None:
        by_number = {field.a: index for index, field in enumerate(fields)}
        at = 0
        while at < len(piece):
            number, wire, at = _read_tag(piece, at)
            one, at = _read_content(piece, at, number, wire, 0)
            index = by_number.get(number)
            if index is None:
                continue
            field = fields[index]
            expected = wire_of(field.op)
            packed = field.b & REPEATED and wire == Wire.BYTES and expected != Wire.GROUP
            if wire != expected and not packed:
                continue
            if field.b & REPEATED:
                found[index].append(one)
                continue
            if field.b & CLOSED and self._name(field, one.value) is None:
                continue
            if field.d:
                for other, each in enumerate(fields):
                    if each.d == field.d and other != index:
                        found[other].clear()
            if field.op not in _MESSAGES:
                found[index].clear()
            found[index].append(one)

    def _append(self, field: Node, found: list[Found], depth: int) -> None:
        column = self._columns[field.column]
        if field.b & REPEATED:
            for one in found:
                self._append_item(field, column.children[0], one, depth)
            column.append_list()
        elif not found:
            self._append_absent(field, column, depth)
        elif field.op == Op.PB_TIMESTAMP:
            _append_timestamp(column, [one.content for one in found])
        elif field.op in _MESSAGES:
            self.read(self._reader.child(field, 0), [one.content for one in found], depth + 1)
        else:
            self._append_scalar(field, column, found[-1])

    def _append_item(self, field: Node, items: Cells, one: Found, depth: int) -> None:
        if field.op == Op.PB_TIMESTAMP:
            _append_timestamp(items, [one.content])
        elif field.op in _MESSAGES:
            self._reader.pay(items)
            self.read(self._reader.child(field, 0), [one.content], depth + 1)
        elif one.wire == Wire.BYTES and wire_of(field.op) != Wire.BYTES:
            at = 0
            while at < len(one.content):
                item, at = _read_content(one.content, at, 0, wire_of(field.op), 0)
                self._append_scalar(field, items, item)
        else:
            self._append_scalar(field, items, one)

    def _append_scalar(self, field: Node, column: Cells, found: Found) -> None:
        if field.op != Op.PB_ENUM:
            self._appends[field.op](column, found)
            return
        name = self._name(field, found.value)
        if name is not None:
            column.append_bytes(name)
        elif not field.b & CLOSED:
            prefix = self._reader.constants[self._reader.children[field.first]]
            column.append_bytes(prefix + str(_int32(found.value)).encode())

    def _append_absent(self, field: Node, column: Cells, depth: int) -> None:
        presence = field.b & 3
        if presence == Presence.REQUIRED:
            raise Malformed
        found = Found(Wire.BYTES, 0, b"")
        if field.c >= 0:
            constant = self._reader.constants[field.c]
            found = Found(Wire.BYTES, 0, constant)
            if wire_of(field.op) != Wire.BYTES:
                found, _ = _read_content(constant, 0, 0, wire_of(field.op), 0)
        elif presence == Presence.NULL:
            column.append_null()
            return
        if field.op == Op.PB_TIMESTAMP:
            column.append(0)
        elif field.op in _MESSAGES:
            self.read(self._reader.child(field, 0), [], depth + 1)
        else:
            self._append_scalar(field, column, found)

    def _name(self, field: Node, bits: int) -> bytes | None:
        """The name of an enum's number. Its children: the prefix of unknown ones, then number, name, ..."""
        number, reader = _int32(bits), self._reader
        for at in range(field.first + 1, field.first + field.child_count, 2):
            if reader.children[at] == number:
                return reader.constants[reader.children[at + 1]]
        return None


def _int32(bits: int) -> int:
    low = bits & 0xFFFFFFFF
    return low - 2**32 if low >= 2**31 else low


def _read_tag(data: bytes, at: int) -> tuple[int, int, int]:
    tag, at = read_bits(data, at, len(data))
    if not 8 <= tag < 2**32:
        raise Malformed
    return tag >> 3, tag & 7, at


def _read_content(data: bytes, at: int, number: int, wire: int, depth: int) -> tuple[Found, int]:
    """The content of a field behind its tag, and the position behind it."""
    if wire == Wire.VARINT:
        bits, at = read_bits(data, at, len(data))
        return Found(Wire.VARINT, bits, b""), at
    if wire in (Wire.WIDE_8, Wire.WIDE_4):
        behind = at + (8 if wire == Wire.WIDE_8 else 4)
        if behind > len(data):
            raise Malformed
        return Found(Wire(wire), int.from_bytes(data[at:behind], "little"), b""), behind
    if wire == Wire.BYTES:
        size, at = read_bits(data, at, len(data))
        if size > len(data) - at:
            raise Malformed
        return Found(Wire.BYTES, 0, data[at : at + size]), at + size
    if wire != Wire.GROUP:
        raise Malformed
    start = at
    while True:
        before = at
        inner, inner_wire, at = _read_tag(data, at)
        if inner_wire == Wire.GROUP_END:
            if inner != number:
                raise Malformed
            return Found(Wire.GROUP, 0, data[start:before]), at
        if depth >= GROUP_DEPTH_MAX:
            raise Malformed
        _, at = _read_content(data, at, inner, inner_wire, depth + 1)


def _append_timestamp(column: Cells, pieces: list[bytes]) -> None:
    """google.protobuf.Timestamp and Duration: seconds (1) and nanoseconds (2) -> microseconds."""
    seconds = nanoseconds = 0
    for piece in pieces:
        at = 0
        while at < len(piece):
            number, wire, at = _read_tag(piece, at)
            found, at = _read_content(piece, at, number, wire, 0)
            if wire == Wire.VARINT and number == 1:
                seconds = found.value - 2**64 if found.value >= 2**63 else found.value
            elif wire == Wire.VARINT and number == 2:
                nanoseconds = _int32(found.value)
    us = seconds * 1_000_000 + int(nanoseconds / 1000)
    if not -(2**63) <= us < 2**63 or not -(2**63) <= seconds * 1_000_000 < 2**63:
        raise Malformed
    column.append(us)
