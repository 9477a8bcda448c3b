"""Records of batches -> the buffers of Arrow columns; in Python. `_columns.c` is its compiled twin.

A record's place is known only when the one before it has been read, because its fields are variable-length
integers; so something must walk over each record. The kernel does that in C, ten million records a second and
more; this twin, where there is no kernel, at a million (plain ones in large batches) or two hundred thousand.
Both have one class with one behaviour, and the same tests:

    columns = Columns(with_headers)
    position, index = columns.add(payload, position, index, count, base_offset, base_timestamp_ms,
                                  append_time_ms, start, end, rows_max, bytes_max)
    columns.rows, columns.take()

`add` walks on from record number `index` at `position` until the `count` records of the payload are done
(then index >= count) or the columns are full. Timestamps become microseconds, clipped to what 64 bits hold.
Anything malformed is a ValueError; which one says `records/record.py`, whose rules these are (`explain`).

`MOLDAU_COLUMNS=python` in the environment chooses the twin where the kernel is there too.

Layouts are Arrow's: offsets int32 with a leading 0, validity bits lowest first, None where nothing is null.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias

from moldau.common.core.kernels import built, ruled_out
from moldau.common.records.record import decode_records

compiled = built("moldau.client._columns")  # None: installed where there is no C compiler

Readable: TypeAlias = bytes | bytearray | memoryview

PLAIN_RECORDS_MIN = 16
"""Fewer are not worth the calls."""
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
_MICROSECONDS = 1000


class BinaryColumn(NamedTuple):
    """A column of byte strings as Arrow's three buffers."""

    validity: bytes | None
    offsets: bytes
    data: bytes
    null_count: int


class HeaderColumn(NamedTuple):
    """A column of lists of (name, value); a record without headers has null."""

    validity: bytes | None
    offsets: bytes
    null_count: int
    names: BinaryColumn
    values: BinaryColumn


class Taken(NamedTuple):
    """The result of `take`: everything added since the last call."""

    rows: int
    offsets: bytes
    timestamps_us: bytes
    keys: tuple[bytes | None, bytes, bytes, int]
    values: tuple[bytes | None, bytes, bytes, int]
    headers: tuple[bytes | None, bytes, int, tuple, tuple] | None  # type: ignore[type-arg]


class ColumnBuilder(Protocol):
    """The interface of kernel and twin."""

    rows: int

    def add(
        self,
        payload: Readable,
        position: int,
        index: int,
        count: int,
        base_offset: int,
        base_timestamp_ms: int,
        append_time_ms: int | None,
        start: int,
        end: int,
        rows_max: int,
        bytes_max: int,
    ) -> tuple[int, int]:
        """Add records from `index` on; return where to continue."""

    def take(self) -> Taken:
        """Return the columns so far and empty the builder."""


def decoder_name() -> str:
    """The builder used in this process: "compiled" or "python"."""
    forced = ruled_out() or os.environ.get("MOLDAU_COLUMNS", "").lower() == "python"
    return "python" if compiled is None or forced else "compiled"


def make_columns(with_headers: bool) -> ColumnBuilder:
    """A new builder of the kind `decoder_name` returns."""
    if decoder_name() == "python":
        return PythonColumns(with_headers)
    builder: ColumnBuilder = compiled.Columns(with_headers)
    return builder


@cache
def _vector() -> Any:
    """The module for plain records, if its libraries are installed."""
    try:
        return import_module("moldau.client.columns_vector")
    except ImportError:
        return None


class _Binary:
    """One growing column of byte strings."""

    __slots__ = ("data", "nulls", "offsets")

    def __init__(self) -> None:
        self.offsets = array("i", (0,))
        self.data = bytearray()
        self.nulls: list[int] = []

    def extend(self, row: int, content: tuple[Any, Readable], sizes: Any) -> None:
        """Append many rows: where each ends within the bytes, the bytes, and sizes of which -1 is null."""
        ends, data = content
        self.offsets.frombytes((ends + len(self.data)).astype("i4").tobytes())
        self.data += data
        self.nulls.extend((row + (sizes < 0).nonzero()[0]).tolist())

    def take(self) -> BinaryColumn:
        rows = len(self.offsets) - 1
        validity = _validity(rows, self.nulls)
        return BinaryColumn(validity, self.offsets.tobytes(), bytes(self.data), len(self.nulls))


def _validity(rows: int, nulls: list[int]) -> bytes | None:
    if not nulls:
        return None
    bits = bytearray(b"\xff") * ((rows + 7) // 8)
    if rows & 7:
        bits[-1] = (1 << (rows & 7)) - 1
    for row in nulls:
        bits[row >> 3] &= ~(1 << (row & 7))
    return bytes(bits)


class PythonColumns:
    """The twin."""

    def __init__(self, with_headers: bool) -> None:
        self._with_headers = with_headers
        self._clear()

    def _clear(self) -> None:
        self.rows = 0
        self._bytes = 0
        self._offsets = array("q")
        self._timestamps_us = array("q")
        self._keys, self._values = _Binary(), _Binary()
        self._header_offsets, self._header_nulls = array("i", (0,)), list[int]()
        self._header_names, self._header_values = _Binary(), _Binary()

    def take(self) -> Taken:
        """See ColumnBuilder."""
        headers = None
        if self._with_headers:
            headers = HeaderColumn(
                _validity(self.rows, self._header_nulls),
                self._header_offsets.tobytes(),
                len(self._header_nulls),
                self._header_names.take(),
                self._header_values.take(),
            )
        taken = Taken(
            self.rows,
            self._offsets.tobytes(),
            self._timestamps_us.tobytes(),
            self._keys.take(),
            self._values.take(),
            headers,
        )
        self._clear()
        return taken

    def add(
        self,
        payload: Readable,
        position: int,
        index: int,
        count: int,
        base_offset: int,
        base_timestamp_ms: int,
        append_time_ms: int | None,
        start: int,
        end: int,
        rows_max: int,
        bytes_max: int,
    ) -> tuple[int, int]:
        """See ColumnBuilder. Plain records go a column at a time (columns_vector.py), others one by one."""
        if count - index >= PLAIN_RECORDS_MIN:
            position, index = self._add_plain(
                payload, position, index, count, base_offset, base_timestamp_ms, append_time_ms, start, end,
                rows_max, bytes_max,
            )  # fmt: skip
        size = len(payload)
        keys, values = self._keys, self._values
        try:
            while index < count:
                record_start = position
                length, position = _varint(payload, position, size, 28)
                record_end = position + length
                if length < 0 or record_end > size:
                    raise ValueError("a record's length")
                time_delta, cursor = _varint(payload, position + 1, record_end, 63)
                offset_delta, cursor = _varint(payload, cursor, record_end, 28)
                offset = base_offset + offset_delta
                wanted = start <= offset < end
                if wanted and self.rows and (self.rows >= rows_max or self._bytes + length > bytes_max):
                    return record_start, index
                key_start, key_end = _field(payload, cursor, record_end)
                value_start, value_end = _field(payload, key_end, record_end)
                headers = _headers(payload, value_end, record_end)
                if wanted:
                    if append_time_ms is None:
                        time_ms = min(max(base_timestamp_ms + time_delta, INT64_MIN), INT64_MAX)
                    else:
                        time_ms = append_time_ms
                    self._offsets.append(offset)
                    self._timestamps_us.append(min(max(time_ms * _MICROSECONDS, INT64_MIN), INT64_MAX))
                    _append(keys, self.rows, payload, key_start, key_end)
                    _append(values, self.rows, payload, value_start, value_end)
                    if self._with_headers:
                        self._add_headers(headers)
                    self.rows += 1
                    self._bytes += length
                position = record_end
                index += 1
        except IndexError:
            raise ValueError("a record breaks off") from None
        if position != size:
            raise ValueError("bytes are left after the last record")
        return position, index

    def _add_plain(
        self,
        payload: Readable,
        position: int,
        index: int,
        count: int,
        base_offset: int,
        base_timestamp_ms: int,
        append_time_ms: int | None,
        start: int,
        end: int,
        rows_max: int,
        bytes_max: int,
    ) -> tuple[int, int]:
        """Add the next records if all are plain, wanted, and fit. Returns where to continue, unchanged
        if none was added.
        """
        rows = min(count - index, rows_max - self.rows)
        usual = (
            0 <= start <= base_offset < 2**62
            and len(payload) + max(len(self._keys.data), len(self._values.data)) < 2**31
        )
        if rows < PLAIN_RECORDS_MIN or not usual:
            return position, index
        vector = _vector()
        if vector is None:
            return position, index
        data = bytes(payload)
        parsed = vector.parse_plain(data, position, rows)
        if parsed is None:
            return position, index
        plain, lengths, behind = parsed
        size, offsets = int(lengths.sum()), plain.offset_deltas + base_offset
        if self._bytes + size > bytes_max or offsets.min() < start or offsets.max() >= end:
            return position, index
        if append_time_ms is None:
            if not vector.times_are_plain(base_timestamp_ms, plain):
                return position, index
            times_us = (plain.time_deltas_ms + base_timestamp_ms) * _MICROSECONDS
        else:
            times_us = offsets * 0 + min(max(append_time_ms * _MICROSECONDS, INT64_MIN), INT64_MAX)
        self._offsets.frombytes(offsets.tobytes())
        self._timestamps_us.frombytes(times_us.tobytes())
        keys, values = vector.copy_fields(data, plain)
        self._keys.extend(self.rows, keys, plain.key_sizes)
        self._values.extend(self.rows, values, plain.value_sizes)
        if self._with_headers:
            self._header_nulls.extend(range(self.rows, self.rows + rows))
            self._header_offsets.extend([self._header_offsets[-1]] * rows)
        self.rows += rows
        self._bytes += size
        return behind, index + rows

    def _add_headers(self, headers: list[tuple[str, bytes | None]]) -> None:
        names, values = self._header_names, self._header_values
        for name, value in headers:
            row = len(names.offsets) - 1
            _append_bytes(names, row, name.encode())
            _append_bytes(values, row, value)
        if not headers:
            self._header_nulls.append(self.rows)
        self._header_offsets.append(len(names.offsets) - 1)


def _varint(data: Readable, position: int, end: int, shift_max: int) -> tuple[int, int]:
    """A zigzag varint whose last possible byte is shifted by `shift_max`."""
    if position >= end:
        raise ValueError("breaks off")
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    number, shift = byte & 0x7F, 7
    while True:
        if position >= end or shift > shift_max:
            raise ValueError("breaks off or is too long")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == 63 and byte > 1:
                raise ValueError("more than 64 bits")
            return (number >> 1) ^ -(number & 1), position
        shift += 7


def _field(data: Readable, position: int, end: int) -> tuple[int, int]:
    """Where a field's bytes begin and end; begin is -1 for null."""
    length, position = _varint(data, position, end, 28)
    if length == -1:
        return -1, position
    if length < 0 or position + length > end:
        raise ValueError("a field's length")
    return position, position + length


def _headers(data: Readable, position: int, end: int) -> list[tuple[str, bytes | None]]:
    count, position = _varint(data, position, end, 28)
    if not 0 <= count <= end - position:
        raise ValueError("the number of headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name_start, position = _field(data, position, end)
        if name_start < 0:
            raise ValueError("a header's name")
        name = str(data[name_start:position], "utf-8", "replace")
        value_start, position = _field(data, position, end)
        headers.append((name, None if value_start < 0 else bytes(data[value_start:position])))
    if position != end:
        raise ValueError("bytes are left at the end of a record")
    return headers


def _append(column: _Binary, row: int, data: Readable, start: int, end: int) -> None:
    if start < 0:
        column.nulls.append(row)
    else:
        column.data += data[start:end]
    column.offsets.append(len(column.data))


def _append_bytes(column: _Binary, row: int, value: bytes | None) -> None:
    if value is None:
        column.nulls.append(row)
    else:
        column.data += value
    column.offsets.append(len(column.data))


def explain(payload: Readable, count: int) -> NoReturn:
    """Raise the error of records/record.py for a payload that a builder refused."""
    records: Iterator[object] = decode_records(payload, count, 0, 0, None)
    for _ in records:
        pass
    raise ValueError("the records are malformed")
