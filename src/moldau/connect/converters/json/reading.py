"""JSON values of one schema -> a column.

Arrow makes a column of each field's values at once. Where a value is not of its field's type, all of the run
are looked at by themselves (values.py), and the bad ones are named.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from moldau.connect.arrow_types import arrow_field, arrow_type, logical_name
from moldau.connect.converters.json.values import DAY_MS, NoValue, decimal_of, exact
from moldau.connect.schema import DECIMAL, TIME, Schema, Type, contains
from moldau.connect.values import arrow_values, completed

Bad = dict[int, str]


class _NotAtOnce(Exception):
    """The run has to be read value by value."""


def column_from_json(
    schema: Schema, values: list[Any], again: Callable[[int], Any], defaults: bool
) -> tuple[pa.Array, Bad]:
    """The column of these values, and reasons by row of those that do not fit (null there).

    `again(row)` reads a value once more, with decimals as written; needed only where the schema has one.
    """
    bad: Bad = {}
    try:
        array = _at_once(schema, values)
    except (_NotAtOnce, pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
        array = _one_by_one(schema, values, again, bad)
    array, missing = completed(schema, array, defaults)
    return array, {**missing, **bad}


def has_decimal(schema: Schema) -> bool:
    """Whether there is a Decimal in it."""
    return contains(schema, lambda each: logical_name(each) == DECIMAL)


def _one_by_one(schema: Schema, values: list[Any], again: Callable[[int], Any], bad: Bad) -> pa.Array:
    reread = has_decimal(schema)
    made: list[Any] = []
    for row, value in enumerate(values):
        try:
            made.append(exact(schema, again(row) if reread and value is not None else value))
        except (NoValue, RecursionError) as error:
            made.append(None)
            bad[row] = str(error)
    array, wrong = arrow_values(made, arrow_type(schema))
    for row, reason in wrong.items():
        bad.setdefault(row, reason)
    return array


def _at_once(schema: Schema, values: list[Any]) -> pa.Array:
    """The column; any of the errors above where a value is not as it should be."""
    if schema.type is Type.STRUCT:
        return _structs(schema, values)
    if schema.type is Type.ARRAY:
        items = [] if _lists(values) else list(chain.from_iterable(filter(None, values)))
        inner = _at_once(schema.items, items)
        return pa.ListArray.from_arrays(_offsets(values), inner, type=arrow_type(schema), mask=_mask(values))
    if schema.type is Type.MAP:
        return _maps(schema, values)
    name = logical_name(schema)
    wanted = arrow_type(schema)
    if name == DECIMAL:
        scale, decode = schema.scale, base64.b64decode
        return pa.array(
            [None if each is None else decimal_of(decode(each, validate=True), scale) for each in values],
            wanted,
        )
    if schema.type is Type.BYTES:
        decode = base64.b64decode
        return pa.array([None if each is None else decode(each, validate=True) for each in values], wanted)
    if schema.type in (Type.STRING, Type.BOOLEAN):
        return pa.array(values, wanted)
    made = pa.array(values)  # what Arrow finds: a float among whole numbers would be cut off, were it told
    kind = made.type
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise _NotAtOnce
        return pa.array(values, wanted)
    if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise _NotAtOnce
    if name is None:
        return made.cast(wanted)
    if name == TIME and not all(each is None or 0 <= each < DAY_MS for each in values):
        raise _NotAtOnce
    return made.cast(pa.int32() if schema.type is Type.INT32 else pa.int64()).view(wanted)


def _mask(values: list[Any]) -> pa.Array | None:
    return pa.array([each is None for each in values]) if None in values else None


def _structs(schema: Schema, values: list[Any]) -> pa.Array:
    mask = _mask(values)
    live = values if mask is None else [_EMPTY if each is None else each for each in values]
    columns = []
    for each in schema.fields:
        name = each.name
        columns.append(_at_once(each.schema, [value.get(name) for value in live]))
    if not columns:
        if not all(isinstance(each, dict) for each in live):
            raise _NotAtOnce
        mask = pa.array([each is None for each in values], pa.bool_())
    fields = [arrow_field(each.name, each.schema) for each in schema.fields]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


_EMPTY: dict[str, Any] = {}


def _lists(values: list[Any]) -> bool:
    """Whether there is no item; a value that is no list is an error."""
    for each in values:
        if each is not None and type(each) is not list:
            raise _NotAtOnce
    return not any(values)


def _offsets(values: list[Any]) -> pa.Array:
    lengths = [0 if each is None else len(each) for each in values]
    return pa.array(np.concatenate(([0], np.cumsum(lengths, dtype=np.int32))).astype(np.int32))


def _maps(schema: Schema, values: list[Any]) -> pa.Array:
    if schema.keys.type is not Type.STRING:
        raise _NotAtOnce
    keys: list[str] = []
    items: list[Any] = []
    for each in values:
        if each is not None:
            keys += each.keys()
            items += each.values()
    offsets = _offsets(values)
    wanted = arrow_type(schema)
    names, inner = pa.array(keys, pa.string()), _at_once(schema.items, items)
    mask = _mask(values)
    entries = pa.StructArray.from_arrays([names, inner], fields=[wanted.key_field, wanted.item_field])
    validity = None if mask is None else pa.array(np.invert(np.asarray(mask))).buffers()[1]
    buffers = [validity, offsets.buffers()[1]]
    return pa.Array.from_buffers(wanted, len(values), buffers, -1, 0, [entries])
