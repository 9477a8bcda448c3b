"""What an encoder's kernel (encode_kernel.py, or `_encode.c`) does: the operations, and the programs of the
three languages.

The tables are those of decoding (program.py): nodes over a layout of columns. Here the layout is that of the
schema's own columns, and some of them may not be there: null in every row.

    Avro       a field without a column is its default, or null; a column with nulls needs a union with null
    Protobuf   null is left out; so is the default of a field that knows no "not set"
    JSON       null is left out, unless the schema requires the field
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pyarrow as pa

from moldau.schemas.columns import protobuf_types
from moldau.schemas.columns.avro_default import default_bytes, long_bytes
from moldau.schemas.columns.avro_tree import MISSING, AvroType, Field
from moldau.schemas.columns.avro_types import not_null
from moldau.schemas.columns.errors import NotEncodable
from moldau.schemas.columns.json_types import NULL_ALLOWED, REQUIRED, is_text
from moldau.schemas.columns.kernel_protobuf import REPEATED, Presence, Wire
from moldau.schemas.columns.program import Layout, Program

PACKED = 16


class Put(IntEnum):
    """What a node writes: Avro, Protobuf, JSON. The same numbers are in `_encode.c`."""

    CONSTANT = 0
    NULL_OR = 1
    BOOLEAN = 2
    INT = 3
    FLOAT = 4
    BYTES = 5
    FIXED = 6
    ENUM = 7
    MILLIS = 8
    DECIMAL = 9
    DECIMAL_FIXED = 10
    RECORD = 11
    ARRAY = 12
    MAP = 13
    MEMBERS = 14
    MESSAGE = 15
    PB_BOOL = 16
    PB_VARINT = 17
    PB_UNSIGNED = 18
    PB_ZIGZAG = 19
    PB_FIXED = 20
    PB_BYTES = 21
    PB_ENUM = 22
    PB_TIME = 23
    PB_MESSAGE = 24
    PB_GROUP = 25
    OBJECT = 26
    JS_BOOLEAN = 27
    JS_INT = 28
    JS_NUMBER = 29
    JS_STRING = 30
    JS_TEXT = 31
    JS_DATE = 32
    JS_TIME = 33
    JS_ARRAY = 34
    JS_MAP = 35


class Writing:
    """A program with the path of each node's column, for messages."""

    def __init__(self, layout: Layout, present: frozenset[int]) -> None:
        self.program = Program()
        self.layout, self.present = layout, present
        self.paths: dict[int, str] = {}
        self._path: list[str] = []

    def inside(self, name: str, make: Callable[[], int]) -> int:
        """What `make` adds is at this field."""
        self._path.append(name)
        node = make()
        self._path.pop()
        return node

    def add(self, op: Put, column: int, children: list[int] | None = None, **words: int) -> int:
        """A node of the column where we are."""
        node = self.program.add(op, column, children or [], **words)
        self.paths[node] = self.place()
        return node

    def place(self) -> str:
        """The path of the field where we are."""
        return ".".join(self._path) or "value"


# ---- Avro

_AVRO = {
    "boolean": Put.BOOLEAN,
    "int": Put.INT,
    "long": Put.INT,
    "float": Put.FLOAT,
    "double": Put.FLOAT,
    "bytes": Put.BYTES,
    "string": Put.BYTES,
}


class AvroWriting(Writing):
    """Programs that write Avro."""

    def root(self, type_: AvroType) -> None:
        """The whole value."""
        record = not_null(type_)[0].kind == "record"
        self.program.root = self.value(type_, 0 if record else self.layout.child(0, 0))

    def value(self, type_: AvroType, column: int) -> int:
        """A value of the schema's type; a union's branch is written in front."""
        bare, nullable = not_null(type_)
        if type_.kind != "union":
            return self._plain(type_, column)
        if bare.kind == "null":
            return self.add(Put.CONSTANT, column, a=self.program.constant(long_bytes(0)))
        inner, branch = self._branch(type_, bare, column)
        if nullable:
            null = next(index for index, each in enumerate(type_.branches) if each.kind == "null")
            return self.add(Put.NULL_OR, column, [inner], a=null, b=branch)
        if bare.kind == "union":
            return inner
        prefix = self.program.constant(long_bytes(branch))
        return self.add(
            Put.RECORD, column, [self.add(Put.CONSTANT, column, a=prefix), inner]
        )  # of two parts: the branch, the value

    def _branch(self, type_: AvroType, bare: AvroType, column: int) -> tuple[int, int]:
        """The node of what is not null, and its branch; a choice of several writes its branch itself."""
        if bare.kind == "union":
            members = []
            for index, each in enumerate(bare.branches):
                node = self._plain(each, self.layout.child(column, index))
                number = type_.branches.index(each)
                self.program.nodes[node] = self.program.nodes[node]._replace(d=number)
                members.append(node)
            return self.add(Put.MEMBERS, column, members), -1
        wanted = next(
            (index for index, each in enumerate(type_.branches) if each is bare or each.kind == bare.kind), -1
        )
        return self._plain(type_.branches[wanted], column), wanted

    def _plain(self, type_: AvroType, column: int) -> int:
        kind, logical = type_.kind, type_.logical
        if kind == "null":
            return self.add(Put.CONSTANT, column, a=self.program.constant(b""))
        if kind == "record":
            nodes = [
                self.inside(each.name, lambda each=each, index=index: self._field(each, column, index))  # type: ignore[misc]
                for index, each in enumerate(type_.fields)
            ]
            return self.add(Put.RECORD, column, nodes)
        if kind in ("array", "map"):
            assert type_.items is not None
            items = self.layout.child(column, 0)
            if kind == "map":
                items = self.layout.child(items, 1)
            node = self.value(type_.items, items)
            return self.add(Put.ARRAY if kind == "array" else Put.MAP, column, [node])
        if kind == "enum":
            return self.add(
                Put.ENUM, column, [self.program.constant(each.encode()) for each in type_.symbols]
            )
        if logical is not None and logical.name == "decimal":
            op = Put.DECIMAL_FIXED if kind == "fixed" else Put.DECIMAL
            return self.add(op, column, a=type_.size_bytes)
        if kind == "fixed":
            return self.add(Put.FIXED, column, a=type_.size_bytes)
        if logical is not None and logical.name.endswith("millis"):
            return self.add(Put.MILLIS, column)
        return self.add(_AVRO[kind], column)

    def _field(self, field: Field, column: int, index: int) -> int:
        own = self.layout.child(column, index)
        if own in self.present:
            return self.value(field.type, own)
        branches = field.type.branches if field.type.kind == "union" else [field.type]
        if field.default is not MISSING:
            for number, branch in enumerate(branches):
                value = default_bytes(branch, field.default)
                if value is not None:
                    prefix = long_bytes(number) if field.type.kind == "union" else b""
                    return self.add(Put.CONSTANT, own, a=self.program.constant(prefix + value))
        for number, branch in enumerate(branches):
            if branch.kind == "null":
                prefix = long_bytes(number) if field.type.kind == "union" else b""
                return self.add(Put.CONSTANT, own, a=self.program.constant(prefix))
        raise NotEncodable(
            f"there is no column {self.place()}, and the field has no default and cannot be null"
        )


# ---- Protobuf

_T = protobuf_types
_PROTOBUF = {
    **dict.fromkeys((_T.INT64, _T.UINT64, _T.INT32), Put.PB_VARINT),
    **dict.fromkeys((_T.SINT32, _T.SINT64), Put.PB_ZIGZAG),
    **dict.fromkeys((_T.DOUBLE, _T.FLOAT, _T.FIXED32, _T.FIXED64, _T.SFIXED32, _T.SFIXED64), Put.PB_FIXED),
    _T.UINT32: Put.PB_UNSIGNED,
    _T.BOOL: Put.PB_BOOL,
    _T.STRING: Put.PB_BYTES,
    _T.BYTES: Put.PB_BYTES,
    _T.ENUM: Put.PB_ENUM,
    _T.MESSAGE: Put.PB_MESSAGE,
    _T.GROUP: Put.PB_GROUP,
}
_WIRES = {
    **dict.fromkeys((_T.DOUBLE, _T.FIXED64, _T.SFIXED64), Wire.WIDE_8),
    **dict.fromkeys((_T.FLOAT, _T.FIXED32, _T.SFIXED32), Wire.WIDE_4),
    **dict.fromkeys((_T.STRING, _T.BYTES, _T.MESSAGE), Wire.BYTES),
    _T.GROUP: Wire.GROUP,
}


class ProtobufWriting(Writing):
    """Programs that write Protobuf, fields in the order of their numbers."""

    def root(self, message: Any) -> None:
        """The whole value."""
        self.program.root = self.message(message, 0, (message.full_name,))

    def message(self, message: Any, column: int, inside: tuple[str, ...]) -> int:
        """The fields of a message."""
        nodes = []
        for index, (field, _) in enumerate(_T.fields_of(message, inside)):
            own = self.layout.child(column, index)
            make = lambda field=field, own=own: self._field(field, own, inside)  # noqa: E731
            nodes.append((field.number, self.inside(field.name, make)))
        return self.add(Put.MESSAGE, column, [node for _, node in sorted(nodes)])

    def _field(self, field: Any, column: int, inside: tuple[str, ...]) -> int:
        if _T.is_map(field):
            entry, entries = field.message_type, self.layout.child(column, 0)
            parts = [
                self._value(
                    entry.fields_by_name[name], self.layout.child(entries, index), Presence.ALWAYS, inside
                )
                for index, name in enumerate(("key", "value"))
            ]
            made = self.add(Put.MESSAGE, entries, parts)
            tag = _signed(field.number << 3 | Wire.BYTES)
            return self.add(Put.PB_MESSAGE, column, [made], a=tag, b=REPEATED)
        if field.is_repeated:
            return self._value(field, column, REPEATED | (PACKED if field.is_packed else 0), inside)
        presence = Presence.NULL if field.has_presence else Presence.IMPLICIT
        return self._value(field, column, Presence.REQUIRED if field.is_required else presence, inside)

    def _value(self, field: Any, column: int, flags: int, inside: tuple[str, ...]) -> int:
        op = _PROTOBUF[field.type]
        wire = Wire.BYTES if flags & PACKED else _WIRES.get(field.type, Wire.VARINT)
        children: list[int] = []
        is_duration = 0
        if field.type in (_T.MESSAGE, _T.GROUP):
            time = _T.time_unit(field.message_type)
            if time is not None and field.type == _T.MESSAGE:
                op, is_duration = Put.PB_TIME, int(pa.types.is_duration(time))
            else:
                item = self.layout.child(column, 0) if flags & REPEATED else column
                name = field.message_type.full_name
                children = [self.message(field.message_type, item, (*inside, name))]
        elif field.type == _T.ENUM:
            # open enums: an unknown number as it was read (protobuf_program.py)
            prefix = f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_".encode()
            children = [-1 if field.enum_type.is_closed else self.program.constant(prefix)]
            for value in field.enum_type.values:
                children += [self.program.constant(value.name.encode()), value.number]
        tag = field.number << 3 | wire
        return self.add(op, column, children, a=_signed(tag), b=flags, d=is_duration)


def _signed(tag: int) -> int:
    return tag - 2**32 if tag >= 2**31 else tag


# ---- JSON


class JsonWriting(Writing):
    """Programs that write JSON."""

    def root(self, is_object: bool) -> None:
        """The whole value."""
        self.program.root = (
            self._object(self.layout.type, 0) if is_object else self._value(self.layout.type.field(0), 1)
        )

    def _object(self, kind: pa.StructType, column: int) -> int:
        nodes = []
        for index in range(kind.num_fields):
            field, own = kind.field(index), self.layout.child(column, index)
            node = self.inside(field.name, lambda field=field, own=own: self._value(field, own))  # type: ignore[misc]
            name = self.program.constant(f"{json.dumps(field.name, ensure_ascii=False)}:".encode())
            metadata = field.metadata or {}
            presence = Presence.NULL
            if REQUIRED in metadata:
                presence = Presence.ALWAYS if NULL_ALLOWED in metadata else Presence.REQUIRED
            self.program.nodes[node] = self.program.nodes[node]._replace(c=name, b=presence)
            nodes.append(node)
        return self.add(Put.OBJECT, column, nodes)

    def _value(self, field: pa.Field, column: int) -> int:
        kind, types = field.type, pa.types
        if types.is_struct(kind):
            return self._object(kind, column)
        if types.is_list(kind):
            return self.add(
                Put.JS_ARRAY, column, [self._value(kind.value_field, self.layout.child(column, 0))]
            )
        if types.is_map(kind):
            items = self.layout.child(self.layout.child(column, 0), 1)
            return self.add(Put.JS_MAP, column, [self._value(kind.item_field, items)])
        if types.is_boolean(kind):
            return self.add(Put.JS_BOOLEAN, column)
        if types.is_integer(kind):
            return self.add(Put.JS_INT, column)
        if types.is_floating(kind):
            return self.add(Put.JS_NUMBER, column)
        if types.is_temporal(kind):
            return self.add(Put.JS_DATE if types.is_date(kind) else Put.JS_TIME, column)
        return self.add(Put.JS_TEXT if is_text(field) else Put.JS_STRING, column)
