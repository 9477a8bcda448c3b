"""Runs a program (program.py) over records: the interface, and the twin of `_decode.c` in Python.

    kernel = make_kernel(layout, with_indexes)          # with_indexes: Protobuf's message indexes in headers
    kernel.add(header, nodes, children, constants, root)   # root -1: all records with this header are bad
    row, unknown = kernel.run(validity, offsets, data, row, end)
    columns, bad = kernel.take()

A header is what is in front of the payload: magic byte, schema, indexes. `run` stops at a record whose header
has no program yet and returns that header; the caller adds one and goes on. Both sides agree on every byte,
damaged ones included; so whatever either does is written down once, here in Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from moldau.common.core.kernels import kernel
from moldau.schemas.columns.cells import Cells
from moldau.schemas.columns.program import (
    DEPTH_MAX,
    SPARE_ITEMS,
    SPARE_VALUES,
    VALUES_PER_BYTE,
    Kind,
    Layout,
    Node,
    Op,
)
from moldau.schemas.columns.wire_values import Malformed, read_bits, read_int, read_long, text_of

compiled = kernel(
    "moldau.schemas.columns._decode"
)  # None: no C compiler where this was installed, or ruled out

INDEXES_MAX = 32
"""How deep a message may lie inside others in a .proto file."""
_ID_BYTES, _GUID_BYTES = 5, 17
_INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")

Taken: TypeAlias = tuple[int, int, bytes | None, bytes | None, bytes | None]
"""A column: rows, nulls, validity bits, values or offsets, bytes that the offsets are of."""


class Kernel(Protocol):
    """See above."""

    def add(
        self, header: bytes, nodes: bytes, children: bytes, constants: list[bytes], root: int
    ) -> None: ...

    def forget(self) -> None:
        """Forget all programs."""

    def run(self, validity: Any, offsets: Any, data: Any, row: int, end: int) -> tuple[int, bytes | None]: ...

    def take(self) -> tuple[list[Taken], Taken]: ...


def make_kernel(layout: Layout, with_indexes: bool) -> Kernel:
    """A kernel, compiled where there is one."""
    if compiled is None:
        return PythonKernel(layout.packed(), with_indexes)
    made: Kernel = compiled.Kernel(layout.packed(), with_indexes)
    return made


def header_end(value: bytes, with_indexes: bool) -> int:
    """Where the payload of a record begins; 0 if it has no header."""
    if len(value) < _ID_BYTES or value[0] > 1 or (value[0] == 1 and len(value) < _GUID_BYTES):
        return 0
    named = _ID_BYTES if value[0] == 0 else _GUID_BYTES
    if not with_indexes:
        return named
    try:
        count, position = read_long(value, named, len(value))
        if not 0 <= count <= INDEXES_MAX:
            return 0
        for _ in range(count):
            index, position = read_long(value, position, len(value))
            if index < 0:
                return 0
    except Malformed:
        return 0
    return position


class PythonKernel:
    """The twin: a node at a time."""

    def __init__(self, layout: bytes, with_indexes: bool) -> None:
        words = struct.unpack(f"={len(layout) // 4}i", layout)
        self.columns = [
            Cells(Kind(words[at]), words[at + 1], words[at + 2]) for at in range(0, len(words), 3)
        ]
        for each in reversed(self.columns):  # children are behind their parents
            each.children = self.columns[each.first : each.first + each.count]
            if each.kind is Kind.STRUCT:
                each.weight += sum(child.weight for child in each.children)
        self._bad = Cells(Kind.BOOLEAN, 0, 0)
        self._with_indexes = with_indexes
        self._programs: dict[bytes, Reader | None] = {}

    def add(self, header: bytes, nodes: bytes, children: bytes, constants: list[bytes], root: int) -> None:
        """See Kernel."""
        reader = Reader(self.columns, nodes, children, list(constants), root)
        self._programs[header] = None if root < 0 else reader

    def forget(self) -> None:
        """See Kernel."""
        self._programs.clear()

    def run(self, validity: Any, offsets: Any, data: Any, row: int, end: int) -> tuple[int, bytes | None]:
        """See Kernel."""
        ends = memoryview(offsets).cast("B").cast("i")
        values = memoryview(data if data is not None else b"").cast("B")
        bits = None if validity is None else memoryview(validity).cast("B")
        for at in range(row, end):
            if bits is not None and not bits[at >> 3] >> (at & 7) & 1:
                self.columns[0].append_null()
                self._bad.append(False)
                continue
            value = bytes(values[ends[at] : ends[at + 1]])
            start = header_end(value, self._with_indexes)
            header = value[:start]
            if start and header not in self._programs:
                return at, header
            self._read_row(self._programs[header] if start else None, value, start)
        return end, None

    def _read_row(self, reader: Reader | None, value: bytes, start: int) -> None:
        row, root = self.columns[0].length, self.columns[0]
        malformed = reader is None
        if reader is not None:
            try:
                malformed = reader.read(value, start) != len(value)
            except Malformed:
                malformed = True
        if malformed:
            root.cut(row)
            root.append_null()
        self._bad.append(malformed)

    def take(self) -> tuple[list[Taken], Taken]:
        """See Kernel."""
        return [each.take() for each in self.columns], self._bad.take()


class Reader:
    """Runs one program; the position behind a value is what every method returns."""

    def __init__(
        self, columns: list[Cells], nodes: bytes, children: bytes, constants: list[bytes], root: int
    ) -> None:
        self.columns, self.constants = columns, constants
        words = struct.unpack(f"={len(nodes) // 4}i", nodes)
        width = len(Node._fields)
        self.nodes: list[Node] = [Node(*words[at : at + width]) for at in range(0, len(words), width)]
        self.children: tuple[int, ...] = struct.unpack(f"={len(children) // 4}i", children)
        self._root = root
        self._items_left = self._values_left = 0
        self._reads: dict[int, Callable[[Node, bytes, int, int, int], int]] = {
            op: getattr(self, f"_{op.name.lower()}")
            for op in Op
            if not op.name.startswith("PB_") and op.name != "MESSAGE"
        }

    def read(self, value: bytes, start: int) -> int:
        """Append the row of a record; the position behind it. Malformed if it is bad."""
        self._items_left = len(value) + SPARE_ITEMS
        self._values_left = VALUES_PER_BYTE * len(value) + SPARE_VALUES
        root = self.nodes[self._root]
        if root.op == Op.MESSAGE:
            from moldau.schemas.columns.kernel_protobuf import MessageReader

            MessageReader(self).read(root, [value[start:]], 0)
            return len(value)
        return self._run(root, value, start, len(value), 0)

    def pay(self, items: Cells) -> None:
        """For one item of a list: the values that it makes, sent or not."""
        self._values_left -= items.weight
        if self._values_left < 0:
            raise Malformed

    def child(self, node: Node, index: int) -> Node:
        """The node of a child."""
        return self.nodes[self.children[node.first + index]]

    def _run(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        if depth > DEPTH_MAX:
            raise Malformed
        return self._reads[node.op](node, data, at, end, depth)

    def _bad(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        raise Malformed

    def _null(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        self.columns[node.column].append_null()
        return at

    def _boolean(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        if at >= end or data[at] > 1:
            raise Malformed
        self.columns[node.column].append(bool(data[at]))
        return at + 1

    def _int(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        number, at = read_int(data, at, end)
        self.columns[node.column].append(number)
        return at

    _int_as_long = _int

    def _int_as_float(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        number, at = read_int(data, at, end)
        self.columns[node.column].append(_float_bits(number))
        return at

    def _int_as_double(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        number, at = read_int(data, at, end)
        self.columns[node.column].append(_double_bits(float(number)))
        return at

    def _long(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        number, at = read_long(data, at, end)
        self.columns[node.column].append(number)
        return at

    def _long_as_float(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        number, at = read_long(data, at, end)
        self.columns[node.column].append(_float_bits(number))
        return at

    def _long_as_double(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        number, at = read_long(data, at, end)
        self.columns[node.column].append(_double_bits(float(number)))
        return at

    def _millis(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        number, at = read_long(data, at, end)
        if not _INT64_MIN <= number * 1000 <= _INT64_MAX:
            raise Malformed
        self.columns[node.column].append(number * 1000)
        return at

    def _float(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        behind = _step(at, 4, end)
        self.columns[node.column].append(int.from_bytes(data[at:behind], "little", signed=True))
        return behind

    def _float_as_double(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        behind = _step(at, 4, end)
        self.columns[node.column].append(_double_bits(_FLOAT.unpack_from(data, at)[0]))
        return behind

    def _double(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        behind = _step(at, 8, end)
        self.columns[node.column].append(int.from_bytes(data[at:behind], "little", signed=True))
        return behind

    def _bytes(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        start, behind = _sized(data, at, end)
        self.columns[node.column].append_bytes(data[start:behind])
        return behind

    def _string(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        start, behind = _sized(data, at, end)
        self.columns[node.column].append_bytes(text_of(data[start:behind]))
        return behind

    def _fixed(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        behind = _step(at, node.a, end)
        self.columns[node.column].append_bytes(data[at:behind])
        return behind

    def _enum(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        symbol, at = read_int(data, at, end)
        if not 0 <= symbol < node.child_count or self.children[node.first + symbol] < 0:
            raise Malformed
        self.columns[node.column].append_bytes(self.constants[self.children[node.first + symbol]])
        return at

    def _decimal(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        start, behind = _sized(data, at, end)
        self._append_decimal(node, data[start:behind])
        return behind

    def _decimal_fixed(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        behind = _step(at, node.a, end)
        self._append_decimal(node, data[at:behind])
        return behind

    def _append_decimal(self, node: Node, digits: bytes) -> None:
        number = int.from_bytes(digits, "big", signed=True)
        if not digits or abs(number) >= 10**node.b:
            raise Malformed
        self.columns[node.column].append(number)

    def _record(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        for index in range(node.child_count):
            at = self._run(self.child(node, index), data, at, end, depth + 1)
        self.columns[node.column].append_struct()
        return at

    def _skip_record(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        for index in range(node.child_count):
            at = self._run(self.child(node, index), data, at, end, depth + 1)
        return at

    def _block(self, data: bytes, at: int, end: int) -> tuple[int, int, int]:
        """The next block's item count (0: no more), its size where it is given (else -1), its position."""
        count, at = read_long(data, at, end)
        size = -1
        if count < 0:
            if count == _INT64_MIN:
                raise Malformed
            count = -count
            size, at = read_long(data, at, end)
            if not 0 <= size <= end - at:
                raise Malformed
        if count > self._items_left:
            raise Malformed
        self._items_left -= count
        return count, size, at

    def _array(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        item = self.child(node, 0)
        while True:
            count, _, at = self._block(data, at, end)
            if count == 0:
                self.columns[node.column].append_list()
                return at
            for _ in range(count):
                self.pay(self.columns[node.column].children[0])
                at = self._run(item, data, at, end, depth + 1)

    def _map(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        column, item = self.columns[node.column], self.child(node, 0)
        entries = column.children[0]
        while True:
            count, _, at = self._block(data, at, end)
            if count == 0:
                column.append_list()
                return at
            for _ in range(count):
                self.pay(entries)
                start, at = _sized(data, at, end)
                entries.children[0].append_bytes(text_of(data[start:at]))
                at = self._run(item, data, at, end, depth + 1)
                entries.append_struct()

    def _union(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        branch, at = read_long(data, at, end)
        if not 0 <= branch < node.child_count:
            raise Malformed
        return self._run(self.child(node, branch), data, at, end, depth + 1)

    _skip_union = _union

    def _member(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        column = self.columns[node.column]
        for index, member in enumerate(column.children):
            if index == node.a:
                at = self._run(self.child(node, 0), data, at, end, depth + 1)
            else:
                member.append_null()
        column.append_struct()
        return at

    def _constant(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        """A default; its items are the schema's and cost the record nothing."""
        value, items_left = self.constants[node.a], self._items_left
        self._items_left = _INT64_MAX
        self._run(self.child(node, 0), value, 0, len(value), depth + 1)
        self._items_left = items_left
        return at

    def _skip_varint(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        return read_bits(data, at, end)[1]

    def _skip_bytes(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        return _sized(data, at, end)[1]

    def _skip_fixed(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        return _step(at, node.a, end)

    def _skip_array(self, node: Node, data: bytes, at: int, end: int, depth: int) -> int:
        while True:
            count, size, at = self._block(data, at, end)
            if count == 0:
                return at
            if size >= 0:
                at += size
                continue
            for _ in range(count):
                if node.op == Op.SKIP_MAP:
                    at = _sized(data, at, end)[1]
                at = self._run(self.child(node, 0), data, at, end, depth + 1)

    _skip_map = _skip_array


def _step(at: int, size: int, end: int) -> int:
    if size > end - at:
        raise Malformed
    return at + size


def _sized(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where bytes with a length in front begin and end."""
    size, at = read_long(data, at, end)
    if not 0 <= size <= end - at:
        raise Malformed
    return at, at + size


def _float_bits(number: int) -> int:
    """Rounded once, as a cast in C does it, and not on the way through a double too."""
    if abs(number) >= 2**53:
        high = abs(number) >> 24 | bool(abs(number) & 0xFFFFFF)
        number = high << 24 if number > 0 else -(high << 24)
    return int.from_bytes(_FLOAT.pack(number), "little", signed=True)


def _double_bits(number: float) -> int:
    return int.from_bytes(_DOUBLE.pack(number), "little", signed=True)
