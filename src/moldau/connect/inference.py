"""The schema of Python values that have none: what a connector or a transform writes first.

    bool BOOLEAN   int INT64   float FLOAT64   str STRING   bytes BYTES   Decimal Decimal   date Date
    time Time   datetime Timestamp   list ARRAY   dict STRUCT of all fields that occur, in order of appearance

All is optional, because the next record may have null. int and float together are FLOAT64. What was always
null is STRING.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from moldau.connect.errors import ConnectError
from moldau.connect.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    array_schema,
    decimal_schema,
    logical_schema,
    struct_schema,
)

DEPTH_MAX = 100
_PLAIN: dict[type, Type] = {
    bool: Type.BOOLEAN,
    int: Type.INT64,
    float: Type.FLOAT64,
    str: Type.STRING,
    bytes: Type.BYTES,
    bytearray: Type.BYTES,
}
_LOGICAL: dict[type, str] = {datetime.date: DATE, datetime.time: TIME, datetime.datetime: TIMESTAMP}


def infer_schema(values: Iterable[Any], name: str | None = None) -> Schema:
    """The schema that all these values fit. ConnectError where two do not go together."""
    found: Schema | None = None
    for value in values:
        found = _merged(found, _of(value, "", 0), "")
    made = _settled(found)
    if name is not None and made.type is Type.STRUCT:
        return Schema(made.type, made.optional, name, fields=made.fields)
    return made


_Found = Any
"""None, a Schema, ("array", _Found) or ("struct", {name: _Found})."""


def _of(value: Any, path: str, depth: int) -> _Found:
    if value is None:
        return None
    if depth > DEPTH_MAX:
        raise ConnectError(f"a value is nested deeper than {DEPTH_MAX}")
    kind = type(value)
    if kind in _PLAIN:
        return Schema(_PLAIN[kind], True)
    if kind in _LOGICAL:
        return logical_schema(_LOGICAL[kind], True)
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        if not isinstance(exponent, int):
            raise ConnectError(f"{path or 'the value'} is {value}, which is no decimal of Kafka Connect")
        return decimal_schema(max(0, -exponent), True)
    if isinstance(value, (list, tuple)):
        items: _Found = None
        for each in value:
            items = _merged(items, _of(each, f"{path}[]", depth + 1), f"{path}[]")
        return ("array", items)
    if isinstance(value, dict):
        fields = {}
        for key, each in value.items():
            if not isinstance(key, str):
                raise ConnectError(f"{path or 'the value'} has the key {key!r}: names of fields are texts")
            fields[key] = _of(each, f"{path}.{key}" if path else key, depth + 1)
        return ("struct", fields)
    for parent, type_ in _PLAIN.items():
        if isinstance(value, parent):
            return Schema(type_, True)
    raise ConnectError(f"{path or 'the value'} is a {kind.__name__}, which Kafka Connect has no type for")


def _merged(one: _Found, other: _Found, path: str) -> _Found:
    if one is None or other is None or one == other:
        return other if one is None else one
    if isinstance(one, tuple) and isinstance(other, tuple) and one[0] == other[0]:
        if one[0] == "array":
            return ("array", _merged(one[1], other[1], f"{path}[]"))
        fields = dict(one[1])
        for name, each in other[1].items():
            fields[name] = _merged(fields.get(name), each, f"{path}.{name}" if path else name)
        return ("struct", fields)
    if isinstance(one, Schema) and isinstance(other, Schema):
        types = {one.type, other.type}
        if types == {Type.INT64, Type.FLOAT64} and one.name is None and other.name is None:
            return Schema(Type.FLOAT64, True)
        if one.name == other.name == DECIMAL:
            return one if one.scale >= other.scale else other
    raise ConnectError(
        f"{path or 'the value'} is {_name(one)} in one record and {_name(other)} in another: give a schema"
    )


def _name(found: _Found) -> str:
    if isinstance(found, tuple):
        return str(found[0])
    return str((found.name or "").rpartition(".")[2] or found.type.value)


def _settled(found: _Found) -> Schema:
    if found is None:
        return Schema(Type.STRING, True)
    if isinstance(found, Schema):
        return found
    if found[0] == "array":
        return array_schema(_settled(found[1]), True)
    return struct_schema({name: _settled(each) for name, each in found[1].items()}, optional=True)
