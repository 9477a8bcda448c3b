"""Connect's schemas <-> Arrow's types.

    INT8 INT16 INT32 INT64         int8 int16 int32 int64
    FLOAT32 FLOAT64 BOOLEAN        float double bool
    STRING BYTES                   string binary
    Decimal                        decimal128(precision, scale); 38 digits where the schema names no precision
    Date                           date32
    Time                           time32[ms]
    Timestamp                      timestamp[ms, UTC]
    STRUCT ARRAY MAP               struct list map

Of other types that Arrow has: large_string, string_view, dictionaries of strings are STRING, unsigned
integers the next wider signed one, dates and timestamps of other units the logical type. `suited` casts a
column to the type of its schema. Names, documentation and defaults are not in Arrow's types: a column carries
its schema.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.errors import ConnectError
from moldau.connect.schema import (
    DATE,
    DECIMAL,
    PRECISION,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    Type,
    decimal_schema,
    logical_schema,
)

DIGITS_MAX = 38
"""Of a decimal128."""
_PLAIN = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}
_LOGICAL = {DATE: pa.date32(), TIME: pa.time32("ms"), TIMESTAMP: pa.timestamp("ms", "UTC")}
_LOGICAL_BASE = {DATE: Type.INT32, TIME: Type.INT32, TIMESTAMP: Type.INT64, DECIMAL: Type.BYTES}
_T = pa.types
_KINDS = (
    (_T.is_boolean, Type.BOOLEAN),
    (_T.is_int8, Type.INT8),
    (lambda kind: _T.is_int16(kind) or _T.is_uint8(kind), Type.INT16),
    (lambda kind: _T.is_int32(kind) or _T.is_uint16(kind), Type.INT32),
    (_T.is_integer, Type.INT64),
    (lambda kind: _T.is_float32(kind) or _T.is_float16(kind), Type.FLOAT32),
    (_T.is_floating, Type.FLOAT64),
    (lambda kind: _T.is_string(kind) or _T.is_large_string(kind) or _T.is_string_view(kind), Type.STRING),
    (
        lambda kind: (
            _T.is_binary(kind)
            or _T.is_large_binary(kind)
            or _T.is_fixed_size_binary(kind)
            or _T.is_binary_view(kind)
        ),
        Type.BYTES,
    ),
    (_T.is_null, Type.STRING),
)


def logical_name(schema: Schema) -> str | None:
    """The name, if it is that of one of the four logical types and the type is its own."""
    name = schema.name
    return name if name is not None and _LOGICAL_BASE.get(name) is schema.type else None


@lru_cache(maxsize=4096)
def arrow_type(schema: Schema) -> pa.DataType:
    """The type of a column with this schema."""
    name = logical_name(schema)
    if name == DECIMAL:
        return decimal_type(schema)
    if name is not None:
        return _LOGICAL[name]
    if schema.type is Type.STRUCT:
        return pa.struct([arrow_field(each.name, each.schema) for each in schema.fields])
    if schema.type is Type.ARRAY:
        return pa.list_(arrow_field("element", schema.items))
    if schema.type is Type.MAP:
        return pa.map_(arrow_type(schema.keys), arrow_field("value", schema.items))
    return _PLAIN[schema.type]


def decimal_type(schema: Schema) -> pa.DataType:
    """The type of a Decimal."""
    try:
        digits = min(int(schema.parameters.get(PRECISION, DIGITS_MAX)), DIGITS_MAX)
        if abs(schema.scale) > DIGITS_MAX:  # Arrow makes such columns, and cannot read them
            raise ValueError(f"a scale beyond {DIGITS_MAX}")
        return pa.decimal128(digits, schema.scale)
    except ValueError as error:
        raise ConnectError(
            f"the decimal with the parameters {dict(schema.parameters)} cannot be a column: {error}"
        ) from None


def arrow_field(name: str, schema: Schema) -> pa.Field:
    """The column of a field."""
    return pa.field(name, arrow_type(schema), schema.optional)


def schema_of_field(field: pa.Field) -> Schema:
    """The schema of a column: optional where it may be null."""
    return schema_of(field.type, field.nullable)


def schema_of(kind: pa.DataType, optional: bool = True) -> Schema:
    """The schema of a type. ConnectError if Connect has none for it."""
    if _T.is_dictionary(kind):
        return schema_of(kind.value_type, optional)
    if _T.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        made = tuple(Field(each.name, schema_of_field(each)) for each in fields)
        return Schema(Type.STRUCT, optional, fields=made)
    if _T.is_map(kind):
        keys, items = schema_of(kind.key_type, False), schema_of_field(kind.item_field)
        return Schema(Type.MAP, optional, key_schema=keys, value_schema=items)
    if _T.is_list(kind) or _T.is_large_list(kind) or _T.is_fixed_size_list(kind) or _T.is_list_view(kind):
        return Schema(Type.ARRAY, optional, value_schema=schema_of_field(kind.value_field))
    if _T.is_decimal(kind):
        if kind.precision > DIGITS_MAX:
            raise ConnectError(f"a column of type {kind} has more than {DIGITS_MAX} digits: cast it first")
        return decimal_schema(kind.scale, optional, None if kind.precision == DIGITS_MAX else kind.precision)
    for found, name in ((_T.is_date, DATE), (_T.is_time, TIME), (_T.is_timestamp, TIMESTAMP)):
        if found(kind):
            return logical_schema(name, optional)
    for found, type_ in _KINDS:
        if found(kind):
            return Schema(type_, optional)
    raise ConnectError(f"a column of type {kind} has no schema in Kafka Connect: cast it first")


def suited(array: Any, schema: Schema) -> pa.Array:
    """The array (or chunked array) in the type of its schema. ConnectError if a value does not fit."""
    wanted = arrow_type(schema)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # so it is with some versions, and where it has no chunk
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if array.type == wanted:
        return array
    if _T.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        safe = not _T.is_timestamp(array.type)  # their unit may be finer
        return pc.cast(array, wanted, safe=safe)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ConnectError(f"a column of type {array.type} cannot be one of type {wanted}: {error}") from None
