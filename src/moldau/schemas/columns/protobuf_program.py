"""A Protobuf message as a program (program.py): its fields by number, and what those mean that do not come.

The reader's message reads what any version of it wrote, because fields are found by their numbers. The
writer's schema only says which message was written, by the record's indexes; another message than the
reader's is not read.

    MESSAGE  column | fields, in the order of their numbers | a: number of oneofs | b: no gaps in the numbers
    PB_...   column | for messages: MESSAGE; for enums: prefix, number, name, ... | a: field number
             b: presence, repeated, closed | c: default | d: oneof
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from moldau.schemas.columns import protobuf_types as types
from moldau.schemas.columns.avro_default import varint_bytes, zigzag
from moldau.schemas.columns.kernel_protobuf import CLOSED, REPEATED, Presence
from moldau.schemas.columns.program import Layout, Op, Program

_OPS = {
    types.DOUBLE: Op.PB_FIXED64,
    types.FLOAT: Op.PB_FIXED32,
    types.INT64: Op.PB_INT64,
    types.UINT64: Op.PB_INT64,
    types.INT32: Op.PB_INT32,
    types.FIXED64: Op.PB_FIXED64,
    types.FIXED32: Op.PB_FIXED32,
    types.BOOL: Op.PB_BOOL,
    types.STRING: Op.PB_STRING,
    types.GROUP: Op.PB_GROUP,
    types.MESSAGE: Op.PB_MESSAGE,
    types.BYTES: Op.PB_BYTES,
    types.UINT32: Op.PB_INT32,
    types.ENUM: Op.PB_ENUM,
    types.SFIXED32: Op.PB_FIXED32,
    types.SFIXED64: Op.PB_FIXED64,
    types.SINT32: Op.PB_SINT32,
    types.SINT64: Op.PB_SINT64,
}


def protobuf_program(message: Any, layout: Layout) -> Program:
    """How payloads of this message become rows of its columns."""
    made = _Compiler(layout)
    made.program.root = made.message(message, 0, (message.full_name,))
    return made.program


class _Compiler:
    def __init__(self, layout: Layout) -> None:
        self.program = Program()
        self._layout = layout

    def message(self, message: Any, column: int, inside: tuple[str, ...]) -> int:
        """The node that appends a message to a struct column."""
        oneofs: dict[str, int] = {}
        nodes = []
        for index, (field, _) in enumerate(types.fields_of(message, inside)):
            node = self._field(field, self._layout.child(column, index), inside, oneofs)
            nodes.append((field.number, node))
        nodes.sort()
        without_gaps = bool(nodes) and nodes[-1][0] - nodes[0][0] == len(nodes) - 1
        children = [node for _, node in nodes]
        return self.program.add(Op.MESSAGE, column, children, a=len(oneofs), b=int(without_gaps))

    def _field(self, field: Any, column: int, inside: tuple[str, ...], oneofs: dict[str, int]) -> int:
        if types.is_map(field):
            entries = self._entry(field.message_type, self._layout.child(column, 0), inside)
            flags = REPEATED | Presence.IMPLICIT
            return self.program.add(Op.PB_MESSAGE, column, [entries], a=field.number, b=flags)
        flags = REPEATED if field.is_repeated else _presence(field)
        oneof = 0
        if field.containing_oneof is not None and len(field.containing_oneof.fields) > 1:
            oneof = oneofs.setdefault(field.containing_oneof.name, len(oneofs) + 1)
        return self._value(field, column, flags, inside, oneof)

    def _entry(self, entry: Any, column: int, inside: tuple[str, ...]) -> int:
        """A map's key and value: a default where they do not come, a message without fields too."""
        key, value = (entry.fields_by_name[name] for name in ("key", "value"))
        return self.program.add(
            Op.MESSAGE,
            column,
            [
                self._value(key, self._layout.child(column, 0), Presence.IMPLICIT, inside, 0),
                self._value(value, self._layout.child(column, 1), Presence.ALWAYS, inside, 0),
            ],
        )

    def _value(self, field: Any, column: int, flags: int, inside: tuple[str, ...], oneof: int) -> int:
        children: list[int] = []
        op: int = _OPS[field.type]
        item = self._layout.child(column, 0) if flags & REPEATED else column
        if field.type in (types.MESSAGE, types.GROUP):
            if types.time_unit(field.message_type) is not None and op == Op.PB_MESSAGE:
                op = Op.PB_TIMESTAMP
            else:
                name = field.message_type.full_name
                children = [self.message(field.message_type, item, (*inside, name))]
        elif field.type == types.ENUM:
            children = self._enum(field.enum_type)
            flags |= CLOSED if field.enum_type.is_closed else 0
        default = _default(field) if not flags & REPEATED else None
        constant = -1 if default is None else self.program.constant(default)
        return self.program.add(op, column, children, a=field.number, b=flags, c=constant, d=oneof)

    def _enum(self, enum: Any) -> list[int]:
        """Unknown numbers are printed as Java does it, which is what Spark has."""
        words = [self.program.constant(f"UNKNOWN_ENUM_VALUE_{enum.name}_".encode())]
        names: dict[int, str] = {}
        for value in enum.values:
            names.setdefault(value.number, value.name)
        for number in sorted(names):
            words += [number, self.program.constant(names[number].encode())]
        return words


def _presence(field: Any) -> Presence:
    if field.is_required:
        return Presence.REQUIRED
    return Presence.NULL if field.has_presence else Presence.IMPLICIT


def _fixed(layout: str) -> Callable[[Any], bytes]:
    return struct.Struct(layout).pack


def _varint(number: Any) -> bytes:
    return varint_bytes(int(number) & 0xFFFFFFFFFFFFFFFF)


def _zigzag(number: Any) -> bytes:
    return varint_bytes(zigzag(number))


_DEFAULTS: dict[int, Callable[[Any], bytes]] = {
    types.DOUBLE: _fixed("<d"),
    types.FLOAT: _fixed("<f"),
    types.FIXED32: _fixed("<I"),
    types.FIXED64: _fixed("<Q"),
    types.SFIXED32: _fixed("<i"),
    types.SFIXED64: _fixed("<q"),
    types.SINT32: _zigzag,
    types.SINT64: _zigzag,
    types.STRING: lambda text: bytes(text.encode()),
    types.BYTES: bytes,
}


def _default(field: Any) -> bytes | None:
    """The field's own default, or an enum's first value where that is not 0 and "not set" is not known."""
    if field.has_default_value:
        return _DEFAULTS.get(field.type, _varint)(field.default_value)
    if field.type == types.ENUM and not field.has_presence and field.enum_type.values[0].number != 0:
        return _varint(field.enum_type.values[0].number)
    return None
