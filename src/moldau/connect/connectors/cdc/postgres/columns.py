"""Columns of PostgreSQL's texts -> columns of records' values by Arrow's casts, where there is one that means
the same as the conversion of a single text (types.py)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.arrow_types import arrow_type
from moldau.connect.connectors.cdc.converting import CapturedColumn, Unreadable, converted_value
from moldau.connect.connectors.cdc.envelope import EnvelopeTable
from moldau.connect.connectors.cdc.postgres.types import (
    days,
    plain_decimal,
    time_ms,
    time_us,
    timestamp_ms,
    timestamp_us,
    zoned_text,
)
from moldau.connect.schema import Type

Cast = Callable[[pa.Array], pa.Array]
_ZONED = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00$"


def columns_of(table: EnvelopeTable, texts: pa.Table) -> tuple[list[pa.Array], dict[int, Unreadable]]:
    """Columns of values, and the rows in which a value has none (null there)."""
    bad: dict[int, Unreadable] = {}
    made = []
    for column, given in zip(table.columns, texts.columns, strict=True):
        array = given.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
        made.append(_column(column, array, bad))
    return made, bad


def _column(column: CapturedColumn, texts: pa.Array, bad: dict[int, Unreadable]) -> pa.Array:
    kind = arrow_type(column.schema)
    if column.convert is None:
        return texts
    cast = _cast_of(column, kind)
    if cast is not None:
        try:
            return cast(texts)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass  # a value that Arrow does not read
    values = []
    for row, text in enumerate(texts.to_pylist()):
        try:
            values.append(converted_value(column, text))
        except Unreadable as error:
            bad.setdefault(row, error)
            values.append(None)
    return _array(column, values, texts, kind, bad)


def _array(
    column: CapturedColumn,
    values: list[object],
    texts: pa.Array,
    kind: pa.DataType,
    bad: dict[int, Unreadable],
) -> pa.Array:
    errors = (pa.ArrowException, TypeError, ValueError, OverflowError)
    try:
        return pa.array(values, kind)
    except errors:
        pass
    for row, value in enumerate(values):
        try:
            pa.array([value], kind)
        except errors as error:
            bad.setdefault(row, Unreadable(column, texts[row].as_py(), str(error)))
            values[row] = None
    return pa.array(values, kind)


def _cast_of(column: CapturedColumn, kind: pa.DataType) -> Cast | None:
    convert, type_ = column.convert, column.schema.type
    if convert in (int, float, plain_decimal) and type_ is not Type.STRING:
        return lambda texts: pc.cast(texts, kind)
    if type_ is Type.BOOLEAN:
        return lambda texts: pc.equal(texts, "t")
    if convert is days:
        return lambda texts: _as(pc.cast(texts, pa.date32()), pa.int32(), kind)
    if convert in (timestamp_us, timestamp_ms):
        unit = "us" if convert is timestamp_us else "ms"
        return lambda texts: _as(_moment(texts, unit), pa.int64(), kind)
    if convert in (time_us, time_ms):
        return lambda texts: _clock(texts, "us" if convert is time_us else "ms", kind)
    return _zoned if convert is zoned_text else None


def _as(array: pa.Array, number: pa.DataType, kind: pa.DataType) -> pa.Array:
    return pc.cast(pc.cast(array, number), kind)


def _moment(texts: pa.Array, unit: str) -> pa.Array:
    made = pc.cast(texts, pa.timestamp("us"))
    if unit == "ms":
        made = pc.cast(pc.floor_temporal(made, unit="millisecond"), pa.timestamp("ms"))
    return made


def _clock(texts: pa.Array, unit: str, kind: pa.DataType) -> pa.Array:
    day = pc.binary_join_element_wise(pa.scalar("1970-01-01"), texts, " ")
    number = pc.cast(_moment(day, unit), pa.int64())
    return number if kind == pa.int64() else pc.cast(pc.cast(number, pa.int32()), kind)


def _zoned(texts: pa.Array) -> pa.Array:
    if not pc.all(pc.match_substring_regex(texts, _ZONED)).as_py() and texts.null_count < len(texts):
        raise pa.ArrowInvalid("infinity, or a time before Christ")
    return pc.replace_substring_regex(texts, r"^(\S+) (\S+)\+00$", r"\1T\2Z")
