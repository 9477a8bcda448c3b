"""A column -> JSON texts, for all rows at once: a text column a field, then joined.

    {"id":  | 1 2 3 | ,"name":  | "a" null "c" | }

Nulls are the word null within a value, and null rows of the column itself stay null.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.arrow_types import logical_name
from moldau.connect.converters.java_text import json_text, json_texts, number_texts
from moldau.connect.converters.json.values import decimal_bytes
from moldau.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from moldau.connect.structs import fields_of


def texts(schema: Schema, array: pa.Array, numeric: bool) -> pa.Array:
    """The JSON of each value; null where it is null. `numeric`: decimals as numbers."""
    name = logical_name(schema)
    if name == DECIMAL:
        return _decimals(schema, array, numeric)
    if name in (DATE, TIME):
        return pc.cast(array.view(pa.int32()), pa.string())
    if name == TIMESTAMP:
        return pc.cast(array.view(pa.int64()), pa.string())
    kind = schema.type
    if kind in (Type.FLOAT32, Type.FLOAT64):
        return number_texts(array)
    if kind is Type.STRING:
        return json_texts(array)
    if kind is Type.BYTES:
        return _quoted([None if each is None else base64.b64encode(each) for each in array.to_pylist()])
    if kind is Type.STRUCT:
        return _structs(schema, array, numeric)
    if kind in (Type.ARRAY, Type.MAP):
        return _lists(schema, array, numeric)
    return pc.cast(array, pa.string())


def _or_null(array: pa.Array) -> pa.Array:
    return pc.fill_null(array, "null") if array.null_count else array


def _quoted(values: list[Any]) -> pa.Array:
    inner = pa.array(values, pa.binary()).cast(pa.string())
    return pc.binary_join_element_wise('"', inner, '"', "")


def _decimals(schema: Schema, array: pa.Array, numeric: bool) -> pa.Array:
    if numeric:
        return pc.cast(array, pa.string())
    scale = schema.scale
    found = array.to_pylist()
    return _quoted([None if each is None else base64.b64encode(decimal_bytes(each, scale)) for each in found])


def _structs(schema: Schema, array: pa.Array, numeric: bool) -> pa.Array:
    if not schema.fields:
        return pc.if_else(array.is_valid(), "{}", pa.scalar(None, pa.string()))
    parts: list[Any] = []
    before = "{"
    for each, column in zip(schema.fields, fields_of(array), strict=True):
        parts += [before + json_text(each.name) + ":", _or_null(texts(each.schema, column, numeric))]
        before = ","
    made = pc.binary_join_element_wise(*parts, "}", "")
    return pc.if_else(array.is_valid(), made, pa.scalar(None, pa.string())) if array.null_count else made


def _lists(schema: Schema, array: pa.Array, numeric: bool) -> pa.Array:
    first, last = _bounds(array)
    begin, end = "[", "]"
    if schema.type is Type.ARRAY:
        items = _or_null(texts(schema.items, array.values.slice(first, last - first), numeric))
    else:
        keys = texts(schema.keys, array.keys.slice(first, last - first), numeric)
        values = _or_null(texts(schema.items, array.items.slice(first, last - first), numeric))
        if schema.keys.type is Type.STRING:
            begin, end = "{", "}"
            items = pc.binary_join_element_wise(keys, ":", values, "")
        else:
            items = pc.binary_join_element_wise("[", keys, ",", values, "]", "")
    offsets = np.asarray(array.offsets) - first
    made = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items), ",")
    made = pc.binary_join_element_wise(begin, made, end, "")
    return pc.if_else(array.is_valid(), made, pa.scalar(None, pa.string())) if array.null_count else made


def _bounds(array: pa.Array) -> tuple[int, int]:
    offsets = array.offsets
    return offsets[0].as_py(), offsets[len(offsets) - 1].as_py()
