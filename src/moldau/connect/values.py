"""Python values <-> columns with a schema.

    STRUCT dict   ARRAY list   MAP dict (a list of pairs where keys cannot be hashed)   BYTES bytes
    Decimal decimal.Decimal   Date date   Time time   Timestamp datetime (without a zone: UTC)

Values are checked all at once by Arrow; only where that fails, rows are tried alone, so that a bad one is
found and named.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.arrow_types import arrow_type, logical_name
from moldau.connect.batch import Column
from moldau.connect.errors import BadRecords
from moldau.connect.schema import DATE, TIME, TIMESTAMP, Schema, Type, contains
from moldau.connect.structs import fields_of, struct_of, true_rows

Bad = dict[int, str]
"""Reasons by row."""
_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def column_of(schema: Schema, values: Sequence[Any]) -> Column:
    """A column of Python values; missing fields and nulls are given their defaults. BadRecords."""
    array, bad = array_of(schema, values)
    found = dict(bad)
    array, missing = completed(schema, array)
    for row, reason in missing.items():
        found.setdefault(row, reason)
    if found:
        raise BadRecords(sorted(found.items()))
    return Column(schema, array)


def array_of(schema: Schema, values: Sequence[Any]) -> tuple[pa.Array, Bad]:
    """An Arrow array of Python values, and which rows do not fit the schema (null there). Nulls are not
    looked at (`completed`)."""
    if not contains(schema, lambda each: each.type is Type.MAP):
        return arrow_values(values, arrow_type(schema))
    made: list[Any] = []
    bad: Bad = {}
    for row, value in enumerate(values):
        try:
            made.append(pairs(schema, value))
        except (TypeError, ValueError) as error:
            made.append(None)
            bad[row] = f"a value of a map is none: {error}"
    array, unfit = arrow_values(made, arrow_type(schema))
    return array, {**unfit, **bad}


def arrow_values(values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, Bad]:
    """The same of values that are as Arrow takes them."""
    try:
        return pa.array(values, kind), {}
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    kept: list[Any] = []
    bad: Bad = {}
    step = 64
    for first in range(0, len(values), step):
        part = values[first : first + step]
        try:
            pa.array(part, kind)
            kept += part
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            _one_by_one(part, kind, first, kept, bad)
    return pa.array(kept, kind), bad


def _one_by_one(values: Sequence[Any], kind: pa.DataType, first: int, kept: list[Any], bad: Bad) -> None:
    for index, value in enumerate(values):
        try:
            pa.array([value], kind)
            kept.append(value)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            kept.append(None)
            bad[first + index] = str(error)


def pairs(schema: Schema, value: Any) -> Any:
    """The value with every MAP in it as a list of pairs, as Arrow takes it."""
    if value is None:
        return None
    if schema.type is Type.STRUCT and isinstance(value, dict):
        return {each.name: pairs(each.schema, value.get(each.name)) for each in schema.fields}
    if schema.type is Type.ARRAY and isinstance(value, (list, tuple)):
        return [pairs(schema.items, each) for each in value]
    if schema.type is Type.MAP:
        items = value.items() if isinstance(value, dict) else value
        return [(pairs(schema.keys, key), pairs(schema.items, each)) for key, each in items]
    return value


def python_values(column: Column) -> list[Any]:
    """What a column has, as Python values."""
    if isinstance(column.values, list):
        return column.values
    schema = column.schema
    found: list[Any] = column.values.to_pylist()
    if schema is None or not contains(schema, lambda each: each.type is Type.MAP):
        return found
    return [_with_dicts(schema, value) for value in found]


def _with_dicts(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if schema.type is Type.STRUCT:
        return {each.name: _with_dicts(each.schema, value[each.name]) for each in schema.fields}
    if schema.type is Type.ARRAY:
        return [_with_dicts(schema.items, each) for each in value]
    if schema.type is Type.MAP:
        made = [(_with_dicts(schema.keys, k), _with_dicts(schema.items, v)) for k, v in value]
        return dict(made) if schema.keys.type not in (Type.STRUCT, Type.ARRAY, Type.MAP) else made
    return value


@lru_cache(maxsize=4096)
def _needs_completing(schema: Schema) -> bool:
    return contains(schema, lambda each: not each.optional or each.default is not None)


def completed(schema: Schema, array: pa.Array, defaults: bool = True) -> tuple[pa.Array, Bad]:
    """Defaults in the place of nulls (if `defaults`), and the rows that have null where the schema wants a
    value. A null row of the column itself stays: it is a tombstone."""
    bad: Bad = {}
    if schema.type is Type.STRUCT:
        below = any(_needs_completing(each.schema) for each in schema.fields)
    else:
        below = any(each and _needs_completing(each) for each in (schema.key_schema, schema.value_schema))
    return (_below(schema, array, defaults, bad, lambda row: row) if below else array), bad


def _complete(
    schema: Schema, array: pa.Array, path: str, defaults: bool, bad: Bad, row_of: Callable[[int], int]
) -> pa.Array:
    """Of a column that is not a record's own; nulls in it are values, `row_of` says of which row."""
    if array.null_count and schema.default is not None and defaults:
        default = pairs(schema, schema.default)
        filling = pa.array([default], arrow_type(schema))
        array = _filled(array, filling)
    if array.null_count and not schema.optional:
        for index in true_rows(array.is_null()):
            bad.setdefault(
                row_of(index), f"Invalid null value for required {schema.type.name} field{path and ' '}{path}"
            )
    if not _needs_completing(schema) or schema.type not in (Type.STRUCT, Type.ARRAY, Type.MAP):
        return array
    return _below(schema, array, defaults, bad, row_of, path)


def _filled(array: pa.Array, filling: pa.Array) -> pa.Array:
    if pa.types.is_nested(array.type):
        both = pa.concat_arrays([array, filling])
        index = np.arange(len(array))
        index[np.asarray(array.is_null())] = len(array)
        return both.take(pa.array(index))
    return pc.fill_null(array, filling[0])


def _below(
    schema: Schema,
    array: pa.Array,
    defaults: bool,
    bad: Bad,
    row_of: Callable[[int], int],
    path: str = "",
) -> pa.Array:
    if schema.type is Type.STRUCT:
        return _struct_below(schema, array, defaults, bad, row_of, path)
    parents = pc.list_parent_indices(_as_list(array))
    inner = pc.list_flatten(_as_list(array)) if len(array) else array
    offsets = np.concatenate(
        ([0], np.cumsum(np.asarray(pc.fill_null(pc.list_value_length(_as_list(array)), 0))))
    )

    def row_of_item(index: int) -> int:
        return row_of(parents[index].as_py())

    if not len(array):
        return array
    validity = _mask(array)
    places = pa.array(offsets.astype(np.int32))
    if schema.type is Type.ARRAY:
        items = _complete(schema.items, inner, f"{path}[]", defaults, bad, row_of_item)
        return pa.ListArray.from_arrays(places, items, type=array.type, mask=validity)
    keys, items = fields_of(inner)
    items = _complete(schema.items, items, f"{path}{{}}", defaults, bad, row_of_item)
    made = pa.MapArray.from_arrays(places, keys, items, type=array.type)
    if validity is None:
        return made
    index = np.arange(len(array)).astype(object)
    index[np.asarray(validity)] = None
    return made.take(pa.array(index.tolist(), pa.int64()))


def _as_list(array: pa.Array) -> pa.Array:
    if not pa.types.is_map(array.type):
        return array
    kind = pa.list_(pa.struct([array.type.key_field, array.type.item_field]))
    return array.cast(kind)


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _struct_below(
    schema: Schema, array: pa.Array, defaults: bool, bad: Bad, row_of: Callable[[int], int], path: str
) -> pa.Array:
    columns = fields_of(array)
    live = array.is_valid() if array.null_count else None
    changed = False
    for index, each in enumerate(schema.fields):
        if not _needs_completing(each.schema):
            continue
        column = columns[index]
        if live is not None:  # what is null because the struct is null is nobody's fault
            kept = pa.array(true_rows(live), pa.int64())
            rows = kept.to_pylist()
            made = _complete(
                each.schema,
                column.take(kept),
                f"{path}.{each.name}" if path else each.name,
                defaults,
                bad,
                lambda at, rows=rows: row_of(rows[at]),  # type: ignore[misc]
            )
            column = _spread(made, kept, len(array))
        else:
            name = f"{path}.{each.name}" if path else each.name
            column = _complete(each.schema, column, name, defaults, bad, row_of)
        changed = changed or column is not columns[index]
        columns[index] = column
    return struct_of(schema, columns, array, len(array)) if changed else array


def _spread(values: pa.Array, rows: pa.Array, count: int) -> pa.Array:
    """The values at these rows of a column, null elsewhere."""
    index = np.full(count, len(values), np.int64)
    index[np.asarray(rows)] = np.arange(len(values))
    return pa.concat_arrays([values, pa.nulls(1, values.type)]).take(pa.array(index))


def physical(schema: Schema, value: Any) -> Any:
    """A value of a Date, Time or Timestamp as the number that Kafka has for it; others as they are."""
    name = logical_name(schema)
    if value is None or name is None:
        return value
    if name == DATE:
        return (value - _EPOCH).days
    if name == TIME:
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    if name == TIMESTAMP:
        return timestamp_ms(value)
    return value


def timestamp_ms(value: datetime.datetime) -> int:
    """Milliseconds since 1970; a datetime without a zone is UTC."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    return (aware - _EPOCH_UTC) // datetime.timedelta(milliseconds=1)


def logical(schema: Schema, value: Any) -> Any:
    """The number of a Date, Time or Timestamp as Python's value; OverflowError outside of Python's years."""
    name = logical_name(schema)
    if value is None or name is None:
        return value
    if name == DATE:
        return _EPOCH + datetime.timedelta(days=value)
    if name == TIME:
        return (_EPOCH_UTC + datetime.timedelta(milliseconds=value)).time()
    if name == TIMESTAMP:
        return _EPOCH_UTC + datetime.timedelta(milliseconds=value)
    return value
