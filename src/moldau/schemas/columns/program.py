"""What a decoder's kernel runs: a schema as a table of nodes, the columns as a table of columns.

A node says how one value is read from the bytes and where it goes. Nodes refer to others by number, and may
form a circle where a recursive value is skipped; columns are a tree, numbered so that a column's children are
neighbours, and column 0 is the struct of the whole row.

    node     op | column | first | count | a | b | c | d
             the numbers of its `count` children start at children[first]
    column   kind | first child | count

The operations are the same in `_decode.c`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from struct import pack
from typing import NamedTuple

import pyarrow as pa

from moldau.schemas.columns.errors import NoColumns

COLUMNS_MAX = 20_000
NODES_MAX = 500_000
"""Nodes and children of a program. A writer's unions in unions are as many ways to the same few columns."""
"""A schema of few lines can ask for more than any machine has (records that use records twice)."""
DEPTH_MAX = 200
"""Values inside values; more are a bad record."""
VALUES_PER_BYTE, SPARE_VALUES = 64, 1_000_000
"""What all items of arrays and maps in a record may make, fields not sent included: two bytes are an empty
message, and a message may have a thousand fields.
"""
SPARE_ITEMS = 1000
"""A record may have as many items in arrays and maps as it has bytes, and so many more: items of no bytes
(nulls) must not cost memory that nobody sent.
"""


class TooLarge(NoColumns):
    """A program would have more than NODES_MAX nodes."""


class Kind(IntEnum):
    """How a column is laid out: fixed widths in bytes, or int32 offsets with bytes or children."""

    NULL = 0
    BOOLEAN = 1
    WIDE_4 = 2
    WIDE_8 = 3
    WIDE_16 = 4
    BYTES = 5
    LIST = 6
    STRUCT = 7


class Op(IntEnum):
    """What a node does: Avro's, those that only step over Avro, and Protobuf's."""

    BAD = 0
    NULL = 1
    BOOLEAN = 2
    INT = 3
    INT_AS_LONG = 4
    INT_AS_FLOAT = 5
    INT_AS_DOUBLE = 6
    LONG = 7
    LONG_AS_FLOAT = 8
    LONG_AS_DOUBLE = 9
    FLOAT = 10
    FLOAT_AS_DOUBLE = 11
    DOUBLE = 12
    BYTES = 13
    STRING = 14
    FIXED = 15
    ENUM = 16
    MILLIS = 17
    DECIMAL = 18
    DECIMAL_FIXED = 19
    RECORD = 20
    ARRAY = 21
    MAP = 22
    UNION = 23
    MEMBER = 24
    CONSTANT = 25
    SKIP_VARINT = 26
    SKIP_BYTES = 27
    SKIP_FIXED = 28
    SKIP_ARRAY = 29
    SKIP_MAP = 30
    SKIP_UNION = 31
    SKIP_RECORD = 32
    MESSAGE = 33
    PB_BOOL = 34
    PB_INT32 = 35
    PB_SINT32 = 36
    PB_INT64 = 37
    PB_SINT64 = 38
    PB_FIXED32 = 39
    PB_FIXED64 = 40
    PB_STRING = 41
    PB_BYTES = 42
    PB_ENUM = 43
    PB_TIMESTAMP = 44
    PB_MESSAGE = 45
    PB_GROUP = 46


class Node(NamedTuple):
    """See above; what a, b, c and d mean depends on the operation."""

    op: int
    column: int = -1
    first: int = 0
    child_count: int = 0
    a: int = 0
    b: int = 0
    c: int = -1
    d: int = 0


@dataclass
class Program:
    """A node table under construction. Node numbers are given before the children's, so circles can be."""

    nodes: list[Node] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    constants: list[bytes] = field(default_factory=list)
    root: int = 0
    _packed: tuple[bytes, bytes] | None = None

    def reserve(self) -> int:
        """The number of a node that `define` will fill."""
        self.require_room(1)
        self.nodes.append(Node(Op.BAD))
        return len(self.nodes) - 1

    def require_room(self, more: int) -> None:
        """TooLarge if there is none for so many."""
        if len(self.nodes) + len(self.children) + len(self.constants) + more > NODES_MAX:
            raise TooLarge(f"reading it as the reader's schema takes more than {NODES_MAX} steps")

    def define(
        self,
        number: int,
        op: int,
        column: int = -1,
        children: Sequence[int] = (),
        *,
        a: int = 0,
        b: int = 0,
        c: int = -1,
        d: int = 0,
    ) -> int:
        """Fill a reserved node."""
        self.require_room(len(children))
        self.nodes[number] = Node(op, column, len(self.children), len(children), a, b, c, d)
        self.children.extend(children)
        return number

    def add(self, op: int, column: int = -1, children: Sequence[int] = (), **words: int) -> int:
        """A new node; returns its number."""
        return self.define(self.reserve(), op, column, children, **words)

    def constant(self, value: bytes) -> int:
        """The number of a constant."""
        self.constants.append(value)
        return len(self.constants) - 1

    def packed(self) -> tuple[bytes, bytes, list[bytes], int]:
        """For the kernel; made once, then the program must not grow any more."""
        if self._packed is None:
            words = [word for node in self.nodes for word in node]
            nodes = pack(f"={len(words)}i", *words)
            self._packed = (nodes, pack(f"={len(self.children)}i", *self.children))
        return (*self._packed, self.constants, self.root)

    @property
    def size_bytes(self) -> int:
        """What `packed` takes, about."""
        return 32 * len(self.nodes) + 4 * len(self.children) + 64 * len(self.constants)


class Layout:
    """The column table of an Arrow struct type."""

    def __init__(self, row: pa.StructType) -> None:
        self.type = row
        self.rows: list[tuple[int, int, int]] = []
        self.fields: list[pa.Field] = []
        self.types: list[pa.DataType] = []
        pending = [self._add(pa.field("row", row))]
        for number in pending:
            kind = self.types[number]
            children = _children(kind)
            first = len(self.rows)
            pending.extend(self._add(child) for child in children)
            self.rows[number] = (_kind(kind), first, len(children))
            if len(self.rows) > COLUMNS_MAX:
                raise NoColumns(f"the schema has more than {COLUMNS_MAX} columns")

    def _add(self, field: pa.Field) -> int:
        self.rows.append((0, 0, 0))
        self.fields.append(field)
        self.types.append(field.type)
        return len(self.rows) - 1

    def child(self, column: int, index: int) -> int:
        """The number of a column's child."""
        return self.rows[column][1] + index

    def packed(self) -> bytes:
        """For the kernel."""
        words = [word for row in self.rows for word in row]
        return pack(f"={len(words)}i", *words)


def _children(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(kind):
        return [kind.field(index) for index in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [pa.field("entries", pa.struct([kind.key_field, kind.item_field]))]
    return [kind.value_field] if pa.types.is_list(kind) else []


def _kind(kind: pa.DataType) -> Kind:
    if pa.types.is_struct(kind):
        return Kind.STRUCT
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return Kind.LIST
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return Kind.BYTES
    if pa.types.is_null(kind):
        return Kind.NULL
    return {1: Kind.BOOLEAN, 32: Kind.WIDE_4, 64: Kind.WIDE_8, 128: Kind.WIDE_16}[kind.bit_width]
