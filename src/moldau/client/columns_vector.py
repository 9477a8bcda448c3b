"""Plain records to columns with numpy and Arrow: the fast path of the Python decoder.

Only one thing must go record by record: stepping from length to length. Then all records are parsed in step,
a field at a time, each varint byte by byte over the whole column:

    where they begin -> lengths -> time deltas -> offset deltas -> key lengths -> value lengths -> no headers

Copying keys and values out is Arrow's work. Seen as an array of binary over the payload itself, with four
slots a record, every second slot is a field, and `take` picks them:

    | ... key length | KEY | value length | VALUE | 0, next record's length and so on | KEY | ...
                     slot 0   slot 1        slot 2  slot 3

This is for records that are all wanted, fit, have no headers and no odd numbers. For any other, damaged ones
included, `add_plain` gives None with the columns untouched, and the plain loop in columns.py takes over.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers: TypeAlias = npt.NDArray[np.int64]

_TIME_MS_MAX = 2**52
_VARINT_BYTES_MAX = 5


class Plain(NamedTuple):
    """Parsed records: where their fields lie (a length of -1 is null)."""

    time_deltas_ms: Integers
    offset_deltas: Integers
    key_starts: Integers
    key_sizes: Integers
    value_starts: Integers
    value_sizes: Integers


class _NotPlain(Exception):
    """These records need the plain loop."""


def parse_plain(data: bytes, position: int, count: int) -> tuple[Plain, Integers, int] | None:
    """The next `count` records: their fields, their lengths, and the position behind them. None if they are
    not all plain.
    """
    walked = _walk(data, position, count)
    if walked is None:
        return None
    starts, ends = walked
    bytes_ = np.frombuffer(data, np.uint8)
    try:
        lengths, bodies = _varints(bytes_, starts, ends)
        _require(bool((bodies + lengths == ends).all()))
        time_deltas_ms, at = _varints(bytes_, bodies + 1, ends)
        offset_deltas, at = _varints(bytes_, at, ends)
        key_sizes, key_starts = _varints(bytes_, at, ends)
        _require(bool((key_sizes >= -1).all()))
        value_sizes, value_starts = _varints(bytes_, key_starts + np.maximum(key_sizes, 0), ends)
        _require(bool((value_sizes >= -1).all()))
        header_counts = value_starts + np.maximum(value_sizes, 0)
        _require(bool((header_counts + 1 == ends).all()) and not bytes_[header_counts].any())
    except _NotPlain:
        return None
    fields = Plain(time_deltas_ms, offset_deltas, key_starts, key_sizes, value_starts, value_sizes)
    return fields, lengths, int(ends[-1])


def _walk(data: bytes, position: int, count: int) -> tuple[Integers, Integers] | None:
    """The start and end of each record by its length field; lengths are only checked against the
    payload's end.
    """
    starts: list[int] = []
    append = starts.append
    try:
        for _ in range(count):
            append(position)
            byte = data[position]
            if byte < 0x80:
                position += 1 + (byte >> 1)
                continue
            second = data[position + 1]
            if second < 0x80:
                position += 2 + ((byte & 0x7F | second << 7) >> 1)
                continue
            third = data[position + 2]
            if third > 0x7F:
                return None
            position += 3 + ((byte & 0x7F | (second & 0x7F) << 7 | third << 14) >> 1)
    except IndexError:
        return None
    if position > len(data):
        return None
    array = np.array([*starts, position], np.int64)
    return array[:-1], array[1:]


def _require(condition: bool) -> None:
    if not condition:
        raise _NotPlain


def _varints(bytes_: npt.NDArray[np.uint8], at: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """The zigzag varint at each position, and the positions after them. At most five bytes each."""
    _require(bool((at < ends).all()))
    byte = bytes_[at]
    numbers = (byte & 0x7F).astype(np.int64)
    at = at + 1
    more = np.flatnonzero(byte > 0x7F)
    for shift in range(7, 7 * _VARINT_BYTES_MAX, 7):
        if not len(more):
            break
        _require(bool((at[more] < ends[more]).all()))
        byte = bytes_[at[more]]
        numbers[more] |= (byte & 0x7F).astype(np.int64) << shift
        at[more] += 1
        more = more[byte > 0x7F]
    _require(not len(more))
    return (numbers >> 1) ^ -(numbers & 1), at


def copy_fields(data: bytes, plain: Plain) -> tuple[tuple[Integers, Any], tuple[Integers, Any]]:
    """Keys and values, each as the ends of the rows within its bytes, and the bytes."""
    rows = len(plain.key_sizes)
    slots = np.empty(4 * rows + 1, np.int32)
    slots[0:-1:4] = plain.key_starts
    slots[1::4] = plain.key_starts + np.maximum(plain.key_sizes, 0)
    slots[2::4] = plain.value_starts
    slots[3::4] = value_ends = plain.value_starts + np.maximum(plain.value_sizes, 0)
    slots[-1] = value_ends[-1]
    buffers = [None, pa.py_buffer(slots), pa.py_buffer(data)]
    fields = pa.Array.from_buffers(pa.binary(), 4 * rows, buffers, 0)
    keys, values = (_picked(fields, first, rows) for first in (0, 2))
    return keys, values


def _picked(fields: pa.Array, first: int, rows: int) -> tuple[Integers, Any]:
    indices = np.arange(first, 4 * rows, 4, dtype=np.int64)
    indices_of_arrow = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(indices)], 0)
    taken = pc.take(fields, indices_of_arrow, boundscheck=False)
    _, offsets, content = taken.buffers()
    ends = np.frombuffer(offsets, np.int32, rows + 1)[1:].astype(np.int64)
    size = int(ends[-1])
    return ends, memoryview(content)[:size] if content is not None and size else b""


def times_are_plain(base_timestamp_ms: int, plain: Plain) -> bool:
    """Whether all timestamps fit 64 bits of microseconds."""
    return abs(base_timestamp_ms) < _TIME_MS_MAX and bool((abs(plain.time_deltas_ms) < _TIME_MS_MAX).all())
