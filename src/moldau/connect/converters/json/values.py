"""One JSON value of one schema, the exact way: where a run cannot be taken at once, and for defaults.

    exact(schema, JSON value)   -> what Arrow takes for a column of that schema; NoValue says why not
    plain(schema, Python value) -> a JSON value

Dates and times are numbers on both sides (days, milliseconds). NaN and the infinities are texts in JSON, as
Kafka writes them.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from decimal import Decimal
from typing import Any

from moldau.connect.arrow_types import logical_name
from moldau.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from moldau.connect.values import physical

DAY_MS = 86_400_000
DECIMAL_BYTES_MAX = 17
"""What 38 digits take, and a byte more."""
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_NO_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_NODE = {
    dict: "OBJECT",
    list: "ARRAY",
    str: "STRING",
    bool: "BOOLEAN",
    int: "NUMBER",
    float: "NUMBER",
    Decimal: "NUMBER",
    type(None): "NULL",
}


class NoValue(ValueError):
    """A JSON value does not fit its schema; the message says where and why."""


class Number(str):
    """A number that is written as these digits."""

    __slots__ = ()


def node_type(value: Any) -> str:
    """Jackson's name of a JSON value's type."""
    return _NODE.get(type(value), type(value).__name__)


def _wrong(schema: Schema, value: Any, path: str) -> NoValue:
    return NoValue(
        f"Invalid value for {schema.type.name} field{path and ' '}{path}: found {node_type(value)}"
    )


def exact(schema: Schema, value: Any, path: str = "") -> Any:
    """A JSON value (orjson's, or json's with Decimal) as Arrow takes it. NoValue. Null is not looked at."""
    if value is None:
        return None
    name = logical_name(schema)
    if name is not None:
        return _exact_logical(schema, name, value, path)
    kind = schema.type
    if kind in _BITS:
        return _whole(schema, value, path)
    if kind in (Type.FLOAT32, Type.FLOAT64):
        return _floating(schema, value, path)
    if kind is Type.BYTES:
        return _decoded(value, path)
    if kind is Type.STRUCT:
        if not isinstance(value, dict):
            raise NoValue(f"Structs should be encoded as JSON objects, but found {node_type(value)}")
        return {
            each.name: exact(each.schema, value.get(each.name), f"{path}.{each.name}" if path else each.name)
            for each in schema.fields
        }
    if kind is Type.ARRAY:
        if not isinstance(value, list):
            raise NoValue(f"Arrays should be encoded as JSON arrays, but found {node_type(value)}")
        return [exact(schema.items, each, f"{path}[]") for each in value]
    if kind is Type.MAP:
        return _exact_map(schema, value, path)
    if isinstance(value, bool if kind is Type.BOOLEAN else str):
        return value
    raise _wrong(schema, value, path)


def _exact_map(schema: Schema, value: Any, path: str) -> Any:
    inner = f"{path}{{}}"
    if schema.keys.type is Type.STRING:
        if not isinstance(value, dict):
            raise NoValue(
                "Maps with string fields should be encoded as JSON objects, but found " + node_type(value)
            )
        return [(key, exact(schema.items, each, inner)) for key, each in value.items()]
    if not isinstance(value, list):
        raise NoValue(
            "Maps with non-string fields should be encoded as JSON array of tuples, but found "
            + node_type(value)
        )
    made = []
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            raise NoValue("Found invalid map entry instead of array tuple of length 2")
        key = exact(schema.keys, pair[0], inner)
        if key is None:
            raise NoValue(f"a key of the map {path} is null")
        made.append((key, exact(schema.items, pair[1], inner)))
    return made


def _whole(schema: Schema, value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise _wrong(schema, value, path)
    try:
        number = int(value)
    except (OverflowError, ValueError):
        raise _wrong(schema, value, path) from None
    half = 1 << (_BITS[schema.type] - 1)
    if number != value or not -half <= number < half:
        raise NoValue(f"Invalid value for {schema.type.name} field{path and ' '}{path}: {value}")
    return number


def _floating(schema: Schema, value: Any, path: str) -> float:
    if isinstance(value, str) and value in _NO_NUMBERS:
        return _NO_NUMBERS[value]
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise _wrong(schema, value, path)
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _decoded(value: Any, path: str) -> bytes:
    if not isinstance(value, str):
        raise NoValue(f"Invalid bytes field{path and ' '}{path}: found {node_type(value)}")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NoValue(f"Invalid bytes field{path and ' '}{path}: {error}") from None


def _exact_logical(schema: Schema, name: str, value: Any, path: str) -> Any:
    if name == DECIMAL:
        return _exact_decimal(schema, value, path)
    short = name.rpartition(".")[2]
    if isinstance(value, bool) or not isinstance(value, int):
        raise NoValue(
            f"Invalid type for {short}, underlying representation should be integer but was "
            + node_type(value)
        )
    number = _whole(schema, value, path)
    if name == TIME and not 0 <= number < DAY_MS:
        raise NoValue(f"Invalid value for Time field{path and ' '}{path}: {number} ms are not within a day")
    return number


def _exact_decimal(schema: Schema, value: Any, path: str) -> Decimal:
    if isinstance(value, str):
        return decimal_of(_decoded(value, path), schema.scale)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise NoValue(
            "Invalid type for Decimal, underlying representation should be numeric or bytes but was "
            + node_type(value)
        )
    return Decimal(value) if not isinstance(value, float) else Decimal(repr(value))


def decimal_of(unscaled: bytes, scale: int) -> Decimal:
    """The decimal of Java's bytes (two's complement, big endian). NoValue: a column has no room for it."""
    if len(unscaled) > DECIMAL_BYTES_MAX:
        raise NoValue(f"a decimal of {len(unscaled)} bytes has more than 38 digits")
    number = int.from_bytes(unscaled, "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, -scale))


def decimal_bytes(value: Decimal, scale: int) -> bytes:
    """Java's bytes of a decimal: as few as its unscaled value takes."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise NoValue(f"{value} is no decimal")
    number = int("".join(map(str, digits)) or "0")
    shift = exponent + scale
    number = number * 10**shift if shift >= 0 else number // 10**-shift
    return whole_bytes(-number if sign else number)


def whole_bytes(number: int) -> bytes:
    """BigInteger.toByteArray."""
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def plain(schema: Schema, value: Any, numeric: bool = False) -> Any:
    """A Python value (or one that `exact` gave) as JSON has it."""
    if value is None:
        return None
    name = logical_name(schema)
    if name == DECIMAL:
        return Number(value) if numeric else _encoded(decimal_bytes(value, schema.scale))
    if name in (DATE, TIME, TIMESTAMP):
        is_moment = isinstance(value, (datetime.date, datetime.time))
        return physical(schema, value) if is_moment else value
    if schema.type is Type.BYTES:
        return _encoded(bytes(value))
    if schema.type is Type.STRUCT:
        return {each.name: plain(each.schema, value.get(each.name), numeric) for each in schema.fields}
    if schema.type is Type.ARRAY:
        return [plain(schema.items, each, numeric) for each in value]
    if schema.type is Type.MAP:
        items = value.items() if isinstance(value, dict) else value
        if schema.keys.type is Type.STRING:
            return {key: plain(schema.items, each, numeric) for key, each in items}
        return [[plain(schema.keys, key, numeric), plain(schema.items, each, numeric)] for key, each in items]
    return value


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
