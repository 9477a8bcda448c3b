"""A writer's Avro schema resolved to the reader's, as a program: what is read, skipped, promoted, filled in.

The rules are those of Avro's specification ("Schema Resolution"), names compared as Java does it: those of
enums and fixed without the namespace or by an alias of the reader's, those of records only inside a union. A
value that the reader has no branch, symbol or type for makes its record bad, not the schema: a union with
such a branch is readable while nobody writes that branch. Only where nothing can be read at all
(`Unresolvable`) are all records of the writer's schema bad.

A default is written once as Avro and read like any value. A unit of time is the writer's where both sides
have one, since the column's unit is microseconds anyway; decimals must agree in their scale.
"""

from __future__ import annotations

from typing import Any

from moldau.schemas.columns.avro_default import default_bytes
from moldau.schemas.columns.avro_tree import MISSING, AvroType, Field
from moldau.schemas.columns.avro_types import not_null
from moldau.schemas.columns.program import Layout, Op, Program


class Unresolvable(ValueError):
    """What was written with one schema cannot be read with the other; the message says where."""


def avro_program(writer: AvroType, reader: AvroType, layout: Layout) -> Program:
    """How records of `writer` become rows of `reader`, whose columns are `layout`."""
    made = _Resolver(layout)
    root = not_null(reader)[0]
    if root.kind == "record":
        made.program.root = made.read(writer, reader, 0)
    else:
        value = made.read(writer, reader, layout.child(0, 0))
        made.program.root = made.program.add(Op.RECORD, 0, [value])
    return made.program


_PROMOTED = {
    ("int", "long"): Op.INT_AS_LONG,
    ("int", "float"): Op.INT_AS_FLOAT,
    ("int", "double"): Op.INT_AS_DOUBLE,
    ("long", "float"): Op.LONG_AS_FLOAT,
    ("long", "double"): Op.LONG_AS_DOUBLE,
    ("float", "double"): Op.FLOAT_AS_DOUBLE,
    ("string", "bytes"): Op.BYTES,
    ("bytes", "string"): Op.STRING,
}
_PLAIN = {
    "null": Op.NULL,
    "boolean": Op.BOOLEAN,
    "int": Op.INT,
    "long": Op.LONG,
    "float": Op.FLOAT,
    "double": Op.DOUBLE,
    "bytes": Op.BYTES,
    "string": Op.STRING,
}


class _Resolver:
    def __init__(self, layout: Layout) -> None:
        self.program = Program()
        self._layout = layout
        self._skips: dict[int, int] = {}
        self._without_bytes: dict[int, bool] = {}
        self._path: list[str] = []

    def read(self, writer: AvroType, reader: AvroType, column: int) -> int:
        """The node that reads a value of `writer` into the reader's column."""
        if writer.kind == "union":
            return self._of_each(writer.branches, reader, column)
        if reader.kind == "union":
            return self._into_union(writer, reader, column)
        return self._read_plain(writer, reader, column, reader.kind)

    def _of_each(self, branches: list[AvroType], reader: AvroType, column: int) -> int:
        """Fails only if no branch can be read."""
        nodes, failed = [], None
        for branch in branches:
            try:
                nodes.append(self.read(branch, reader, column))
            except Unresolvable as error:
                failed = failed or error
                nodes.append(self.program.add(Op.BAD))
        if failed is not None and all(self.program.nodes[node].op == Op.BAD for node in nodes):
            raise failed
        return self.program.add(Op.UNION, column, nodes)

    def _into_union(self, writer: AvroType, reader: AvroType, column: int) -> int:
        branch = _best_branch(writer, reader.branches)
        if branch is None:
            raise self._error(writer, reader)
        bare, _ = not_null(reader)
        if branch.kind == "null":
            return self.program.add(Op.NULL, column)
        if bare.kind == "union":
            member = bare.branches.index(branch)
            node = self.read(writer, branch, self._layout.child(column, member))
            return self.program.add(Op.MEMBER, column, [node], a=member)
        if bare is not branch:  # [int, long] or [float, double]: a plain number in Spark
            branch = AvroType(branch.kind)
        return self._read_plain(writer, branch, column, bare.kind)

    def _read_plain(self, writer: AvroType, reader: AvroType, column: int, shown: str) -> int:
        """`shown` is the column's kind: wider than the reader's type where a union of both is one column."""
        if reader.kind == "record":
            return self._record(writer, reader, column)
        if reader.kind in ("array", "map"):
            return self._items(writer, reader, column)
        if reader.kind == "enum":
            return self._enum(writer, reader, column)
        if reader.logical is not None and reader.logical.name == "decimal":
            return self._decimal(writer, reader, column)
        if writer.kind == "fixed" and reader.kind == "fixed":
            if not _same_name(writer, reader) or writer.size_bytes != reader.size_bytes:
                raise self._error(writer, reader)
            return self.program.add(Op.FIXED, column, a=writer.size_bytes)
        if writer.kind != reader.kind and (writer.kind, reader.kind) not in _PROMOTED:
            raise self._error(writer, reader)
        if reader.kind == "long" and reader.logical is not None:
            named = writer.logical if writer.kind == "long" and writer.logical else reader.logical
            return self.program.add(Op.MILLIS if named.name.endswith("millis") else Op.LONG, column)
        op = _PLAIN[shown] if writer.kind == shown else _PROMOTED[writer.kind, shown]
        return self.program.add(op, column)

    def _record(self, writer: AvroType, reader: AvroType, column: int) -> int:
        if writer.kind != "record":
            raise self._error(writer, reader)
        number = self.program.reserve()
        unread = {each.name: index for index, each in enumerate(reader.fields)}
        by_alias: dict[str, list[int]] = {}
        for at, each in enumerate(reader.fields):
            for alias in each.aliases:
                by_alias.setdefault(alias, []).append(at)
        nodes = []
        for theirs in writer.fields:
            found = unread.get(theirs.name)
            named = (at for at in by_alias.get(theirs.name, ()) if reader.fields[at].name in unread)
            index = next(named, None) if found is None else found
            if index is None:
                nodes.append(self.skip(theirs.type))
                continue
            ours = reader.fields[index]
            del unread[ours.name]
            self._path.append(ours.name)
            try:
                nodes.append(self.read(theirs.type, ours.type, self._layout.child(column, index)))
            finally:
                self._path.pop()
        for name, index in unread.items():
            if reader.fields[index].default is MISSING:
                place = ".".join([*self._path, name])
                raise Unresolvable(f"the field {place} is not in what was written, and has no default")
            nodes.append(self._default(reader.fields[index], self._layout.child(column, index)))
        return self.program.define(number, Op.RECORD, column, nodes)

    def _default(self, ours: Field, column: int) -> int:
        """A union's default is of its first branch; Java also takes one that fits a later branch."""
        branches = ours.type.branches if ours.type.kind == "union" else [ours.type]
        for branch in branches:
            value = default_bytes(branch, ours.default)
            if value is not None:
                node = self.read(branch, ours.type, column)
                return self.program.add(Op.CONSTANT, column, [node], a=self.program.constant(value))
        raise Unresolvable(f"the default of the field {ours.name} is not of its type")

    def _items(self, writer: AvroType, reader: AvroType, column: int) -> int:
        if writer.kind != reader.kind:
            raise self._error(writer, reader)
        assert writer.items is not None
        assert reader.items is not None
        inner = self._layout.child(column, 0)
        if reader.kind == "map":
            inner = self._layout.child(inner, 1)
        node = self._or_bad(writer.items, reader.items, inner)
        return self.program.add(Op.ARRAY if reader.kind == "array" else Op.MAP, column, [node])

    def _or_bad(self, writer: AvroType, reader: AvroType, column: int) -> int:
        """Items that cannot be read: an empty array can."""
        try:
            return self.read(writer, reader, column)
        except Unresolvable:
            return self.program.add(Op.BAD)

    def _enum(self, writer: AvroType, reader: AvroType, column: int) -> int:
        if writer.kind != "enum" or not _same_name(writer, reader):
            raise self._error(writer, reader)
        self.program.require_room(len(reader.symbols) + len(writer.symbols))
        numbers = {symbol: self.program.constant(symbol.encode()) for symbol in reader.symbols}
        fallback = numbers.get(reader.default_symbol, -1) if reader.default_symbol is not None else -1
        symbols = [numbers.get(symbol, fallback) for symbol in writer.symbols]
        return self.program.add(Op.ENUM, column, symbols)

    def _decimal(self, writer: AvroType, reader: AvroType, column: int) -> int:
        ours, theirs = reader.logical, writer.logical
        assert ours is not None
        if theirs is not None and theirs.name == "decimal" and theirs.scale != ours.scale:
            raise Unresolvable(
                f"the decimal {self._place()} was written with scale {theirs.scale}, "
                f"and is read with {ours.scale}"
            )
        if reader.kind == "fixed":
            if writer.kind != "fixed" or not _same_name(writer, reader):
                raise self._error(writer, reader)
            if writer.size_bytes != reader.size_bytes:
                raise self._error(writer, reader)
            return self.program.add(Op.DECIMAL_FIXED, column, a=writer.size_bytes, b=ours.precision)
        if writer.kind not in ("bytes", "string"):
            raise self._error(writer, reader)
        return self.program.add(Op.DECIMAL, column, b=ours.precision)

    def skip(self, type_: AvroType) -> int:
        """The node that steps over a value; shared, and circular for a recursive type."""
        known = self._skips.get(id(type_))
        if known is not None:
            return known
        program, kind = self.program, type_.kind
        number = self._skips[id(type_)] = program.reserve()
        if self._has_no_bytes(type_):
            return program.define(number, Op.SKIP_FIXED)
        if kind == "record":
            # Without those of no bytes, the steps that it takes are not more than the bytes by far.
            skipped = [each.type for each in type_.fields if not self._has_no_bytes(each.type)]
            return program.define(number, Op.SKIP_RECORD, -1, [self.skip(each) for each in skipped])
        if kind == "union":
            return program.define(number, Op.SKIP_UNION, -1, [self.skip(each) for each in type_.branches])
        if kind in ("array", "map"):
            assert type_.items is not None
            op = Op.SKIP_ARRAY if kind == "array" else Op.SKIP_MAP
            return program.define(number, op, -1, [self.skip(type_.items)])
        if kind in ("int", "long", "enum"):
            return program.define(number, Op.SKIP_VARINT)
        if kind in ("bytes", "string"):
            return program.define(number, Op.SKIP_BYTES)
        sizes = {"null": 0, "boolean": 1, "float": 4, "double": 8, "fixed": type_.size_bytes}
        return program.define(number, Op.SKIP_FIXED, a=sizes[kind])

    def _has_no_bytes(self, type_: AvroType) -> bool:
        """Whether every value is written as nothing: records of records of nulls."""
        known = self._without_bytes.get(id(type_))
        if known is not None:
            return known
        self._without_bytes[id(type_)] = False  # where it contains itself, there is no end of bytes
        nothing = type_.kind == "null" or (type_.kind == "fixed" and type_.size_bytes == 0)
        if type_.kind == "record":
            nothing = all(self._has_no_bytes(each.type) for each in type_.fields)
        self._without_bytes[id(type_)] = nothing
        return nothing

    def _place(self) -> str:
        return ".".join(self._path) or "value"

    def _error(self, writer: AvroType, reader: AvroType) -> Unresolvable:
        return Unresolvable(f"{self._place()} was written as {_said(writer)}, and is read as {_said(reader)}")


def _said(type_: AvroType) -> str:
    return f"{type_.kind} {type_.name}" if type_.name else type_.kind


def _same_name(writer: AvroType, reader: AvroType) -> bool:
    theirs = writer.name.rpartition(".")[2]
    return theirs == reader.name.rpartition(".")[2] or writer.name in reader.aliases


def _best_branch(writer: AvroType, branches: list[AvroType]) -> AvroType | None:
    """The reader's branch for a value: of the same type (and name), else the first that takes it promoted."""

    def same(branch: AvroType, full: bool) -> bool:
        if branch.kind != writer.kind:
            return False
        if not branch.name:
            return True
        return branch.name == writer.name if full else _same_name(writer, branch)

    tests: tuple[Any, ...] = (
        lambda branch: same(branch, True),
        lambda branch: same(branch, False),
        lambda branch: (writer.kind, branch.kind) in _PROMOTED,
    )
    for test in tests:
        for branch in branches:
            if test(branch):
                return branch
    return None
