"""Values of one type as values of another, by Java's rules.

whole number -> narrower one   its lower bits (300 as INT8 is 44)
float -> whole number          cut off, and the nearest there is; NaN is 0
number -> boolean              its whole part is not 0
text -> number                 the text must be one; else the value is bad
text -> boolean                "true" in any case
Date, Time, Timestamp          as their number; as a text in ISO 8601
"""

from __future__ import annotations

import base64
import datetime
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.arrow_types import arrow_type, logical_name
from moldau.connect.batch import Column
from moldau.connect.converters.java_text import double_text, float_text, java_texts
from moldau.connect.errors import BadRecords
from moldau.connect.schema import DECIMAL, Schema, Type
from moldau.connect.transforms.base import RowError, java_class
from moldau.connect.values import physical, python_values

BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
FLOATS = (Type.FLOAT32, Type.FLOAT64)
TARGETS = (*BITS, *FLOATS, Type.BOOLEAN, Type.STRING)
SOURCES = (*TARGETS, Type.BYTES)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_FLOATING = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_LOGICAL_OF = {
    datetime.date: Schema(Type.INT32, name="org.apache.kafka.connect.data.Date"),
    datetime.time: Schema(Type.INT32, name="org.apache.kafka.connect.data.Time"),
    datetime.datetime: Schema(Type.INT64, name="org.apache.kafka.connect.data.Timestamp"),
}


def cast_value(value: Any, target: Type, source: Schema | None = None) -> Any:
    """One value. RowError."""
    if value is None:
        return None
    if type(value) is int and target in BITS:
        half = 1 << (BITS[target] - 1)
        return value if -half <= value < half else _wrapped(value, BITS[target])
    if target is Type.STRING:
        return _text(value, source)
    if type(value) in _LOGICAL_OF:
        value = physical(_LOGICAL_OF[type(value)], value)
    if isinstance(value, str):
        return _from_text(value, target)
    if not isinstance(value, (bool, int, float, Decimal)):
        kind = java_class(value)
        raise RowError(f"Unexpected type in Cast transformation: class {kind}")
    if target is Type.BOOLEAN:
        return value if isinstance(value, bool) else _whole(value, 64) != 0
    if target in FLOATS:
        return _float(float(value), target)
    number = _whole(value, 64 if target is Type.INT64 else 32)
    return _wrapped(number, BITS[target])


def _whole(value: bool | int | float | Decimal, bits: int) -> int:
    """Java's longValue or intValue."""
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        half = 1 << (bits - 1)
        return (
            int(max(-half, min(half - 1, math.trunc(value))))
            if math.isfinite(value)
            else (half - 1 if value > 0 else -half)
        )
    return int(value)


def _wrapped(number: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def _float(value: float, target: Type) -> float:
    if target is Type.FLOAT64:
        return value
    with np.errstate(over="ignore"):
        return float(str(np.float32(value)))  # of the digits that a float shows: 1.7, not 1.7000000476837158


def _from_text(text: str, target: Type) -> Any:
    if target is Type.BOOLEAN:
        return text.lower() == "true"
    try:
        if target in FLOATS:
            bare = text.strip(" \t\r\n\f\v")
            if _FLOATING.fullmatch(bare) is None:
                raise ValueError
            return _float(float(bare.rstrip("fFdD") if bare[-1] in "fFdD" else bare), target)
        if _WHOLE.fullmatch(text) is None or len(text) > 100:
            raise ValueError
        number, half = int(text), 1 << (BITS[target] - 1)
        if not -half <= number < half:
            raise ValueError
        return number
    except ValueError:
        raise RowError(f"Value ({text}) was out of range for requested data type") from None


def _text(value: Any, source: Schema | None) -> str:
    if type(value) is int or type(value) is str:
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        single = source is not None and source.type is Type.FLOAT32
        return float_text(value) if single else double_text(value)
    if isinstance(value, datetime.datetime):
        utc = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
        return f"{utc.isoformat(timespec='milliseconds')}Z"
    if isinstance(value, datetime.time):
        return f"{value.isoformat(timespec='milliseconds')}Z"
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    return str(value)


def cast_array(schema: Schema, target: Type, array: pa.Array) -> pa.Array:
    """A column; nulls stay. BadRecords."""
    wanted = arrow_type(Schema(target))
    name = logical_name(schema)
    source = schema.type
    if name is None and target is not Type.STRING:
        if source in BITS and target in BITS:
            return pc.cast(array, wanted, safe=False)
        if (source in BITS or source in FLOATS) and target in FLOATS:
            return pc.cast(array, wanted, safe=False)
        if source in FLOATS and target in BITS:
            return _cut_off(array, target, wanted)
        if source is Type.BOOLEAN:
            return array if target is Type.BOOLEAN else pc.cast(pc.cast(array, pa.int8()), wanted)
        if source in BITS and target is Type.BOOLEAN:
            return pc.not_equal(array, 0)
    elif name is None and source is not Type.BYTES:
        return java_texts(Column(schema, array))
    elif name not in (None, DECIMAL) and target in BITS:
        return pc.cast(array.view(pa.int64() if source is Type.INT64 else pa.int32()), wanted, safe=False)
    return _one_by_one(array, schema, wanted, lambda value: cast_value(value, target, schema))


def _cut_off(array: pa.Array, target: Type, wanted: pa.DataType) -> pa.Array:
    bits = 64 if target is Type.INT64 else 32
    values = np.nan_to_num(np.asarray(pc.fill_null(array, 0.0)).astype(np.float64), nan=0.0)
    half = 2.0 ** (bits - 1)
    below, above = values < -half, values >= half
    whole = np.where(below | above, 0, values).astype(np.int64)
    whole = np.where(above, (1 << (bits - 1)) - 1, np.where(below, -(1 << (bits - 1)), whole))
    made = pc.cast(pa.array(whole), wanted, safe=False)
    return pc.if_else(array.is_valid(), made, pa.scalar(None, wanted)) if array.null_count else made


def _one_by_one(
    array: pa.Array, schema: Schema, wanted: pa.DataType, change: Callable[[Any], Any]
) -> pa.Array:
    made, bad = [], []
    for row, value in enumerate(python_values(Column(schema, array))):
        try:
            made.append(change(value))
        except RowError as error:
            bad.append((row, str(error)))
    if bad:
        raise BadRecords(bad)
    return pa.array(made, wanted)
