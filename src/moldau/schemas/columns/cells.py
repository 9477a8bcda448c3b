"""A column that grows, in Python: what column_buffers.h is in C."""

from __future__ import annotations

import struct

from moldau.schemas.columns.program import Kind

_WIDTHS = {Kind.WIDE_4: 4, Kind.WIDE_8: 8, Kind.WIDE_16: 16}


class Cells:
    """Values of one column. How far it is filled follows from its parent: `cut` can take a row back."""

    def __init__(self, kind: Kind, first: int, count: int) -> None:
        self.kind, self.first, self.count = kind, first, count
        self.children: list[Cells] = []
        self.weight = 1
        """The values that one of this column makes, without those of lists in it."""
        self._clear()

    def _clear(self) -> None:
        self._valid: list[bool] = []
        self._values: list[int] = []
        self._ends = [0]
        self._heap = bytearray()

    @property
    def length(self) -> int:
        """How many values there are."""
        return len(self._valid)

    def append(self, value: int) -> None:
        """A boolean or the bits of a fixed-width value, as a signed or unsigned number."""
        self._valid.append(True)
        self._values.append(value)

    def append_bytes(self, value: bytes) -> None:
        """A string."""
        self._valid.append(True)
        self._heap += value
        self._ends.append(len(self._heap))

    def append_struct(self) -> None:
        """End a struct whose children have been appended."""
        self._valid.append(True)

    def append_list(self) -> None:
        """End a list whose items have been appended."""
        self._valid.append(True)
        self._ends.append(self.children[0].length)

    def append_null(self) -> None:
        """A null, in a struct's children too."""
        self._valid.append(False)
        if self.kind in (Kind.BYTES, Kind.LIST):
            self._ends.append(self._ends[-1])
        elif self.kind is Kind.STRUCT:
            for child in self.children:
                child.append_null()
        elif self.kind is not Kind.NULL:
            self._values.append(0)

    def cut(self, length: int) -> None:
        """Take back everything behind `length` values."""
        del self._valid[length:]
        if self.kind is Kind.STRUCT:
            for child in self.children:
                child.cut(length)
        elif self.kind in (Kind.BYTES, Kind.LIST):
            del self._ends[length + 1 :]
            if self.kind is Kind.BYTES:
                del self._heap[self._ends[-1] :]
            else:
                self.children[0].cut(self._ends[-1])
        else:
            del self._values[length:]

    def take(self) -> tuple[int, int, bytes | None, bytes | None, bytes | None]:
        """The column as Arrow's buffers; empties it."""
        length, nulls = self.length, self._valid.count(False)
        validity = None if nulls == 0 or self.kind is Kind.NULL else _bits(self._valid)
        data: bytes | None = None
        heap: bytes | None = None
        if self.kind is Kind.BOOLEAN:
            data = _bits(self._values)
        elif self.kind in _WIDTHS:
            width = _WIDTHS[self.kind]
            mask = (1 << 8 * width) - 1
            data = b"".join((value & mask).to_bytes(width, "little") for value in self._values)
        elif self.kind in (Kind.BYTES, Kind.LIST):
            data = struct.pack(f"={len(self._ends)}i", *self._ends)
            heap = bytes(self._heap) if self.kind is Kind.BYTES else None
        self._clear()
        return length, nulls, validity, data, heap


def _bits(values: list[bool] | list[int]) -> bytes:
    out = bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        if value:
            out[index >> 3] |= 1 << (index & 7)
    return bytes(out)
