"""Connect's schemas as types of columns, and columns of records as what a database takes.

Beside Connect's four logical types Debezium's names are known (`io.debezium.time.…`, `…data.Json`,
`…data.Uuid`), so that captured changes become dates, times and JSON again. STRUCT and MAP, and ARRAY outside
of PostgreSQL, are JSON documents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.connectors.json_rows import as_json
from moldau.connect.schema import DATE, DECIMAL, PRECISION, TIME, TIMESTAMP, Schema, Type

_DEBEZIUM = "io.debezium.time."
_TIMES = {  # name: (unit of the number, what it becomes)
    _DEBEZIUM + "Date": ("d", "date"),
    _DEBEZIUM + "Time": ("ms", "time"),
    _DEBEZIUM + "MicroTime": ("us", "time"),
    _DEBEZIUM + "NanoTime": ("ns", "time"),
    _DEBEZIUM + "Timestamp": ("ms", "timestamp"),
    _DEBEZIUM + "MicroTimestamp": ("us", "timestamp"),
    _DEBEZIUM + "NanoTimestamp": ("ns", "timestamp"),
}
_NAMED = {
    DATE: "date",
    TIME: "time",
    TIMESTAMP: "timestamp",
    DECIMAL: "decimal",
    "io.debezium.data.Json": "json",
    "io.debezium.data.Uuid": "uuid",
    _DEBEZIUM + "ZonedTimestamp": "zoned",
    **{name: kind for name, (_, kind) in _TIMES.items()},
}
_PLAIN = {each: each.value for each in Type}


class Names(NamedTuple):
    """How a product calls its types. `key_text`, `key_bytes`: those of columns in a primary key."""

    types: Mapping[str, str]
    key_text: str
    key_bytes: str
    arrays: bool
    digits_max: int


_POSTGRESQL = {
    "int8": "SMALLINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE PRECISION",
    "boolean": "BOOLEAN",
    "string": "TEXT",
    "bytes": "BYTEA",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "zoned": "TIMESTAMPTZ",
    "json": "JSONB",
    "uuid": "UUID",
    "decimal": "DECIMAL",
}
_MYSQL = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "TINYINT",
    "string": "LONGTEXT",
    "bytes": "LONGBLOB",
    "date": "DATE",
    "time": "TIME(6)",
    "timestamp": "DATETIME(6)",
    "zoned": "DATETIME(6)",
    "json": "JSON",
    "uuid": "CHAR(36)",
    "decimal": "DECIMAL",
}
_SQLITE = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "boolean"), "INTEGER"),
    **dict.fromkeys(("float", "double"), "REAL"),
    **dict.fromkeys(("string", "date", "time", "timestamp", "zoned", "json", "uuid"), "TEXT"),
    "bytes": "BLOB",
    "decimal": "NUMERIC",
}
_OTHER = {
    **_POSTGRESQL,
    "string": "VARCHAR(4000)",
    "bytes": "BLOB",
    "json": "VARCHAR(4000)",
    "uuid": "CHAR(36)",
}
_NAMES = {
    "postgresql": Names(_POSTGRESQL, "TEXT", "BYTEA", True, 1000),
    "mysql": Names(_MYSQL, "VARCHAR(256)", "VARBINARY(255)", False, 65),
    "sqlite": Names(_SQLITE, "TEXT", "BLOB", False, 1000),
}
_OTHERS = Names(_OTHER, "VARCHAR(256)", "VARCHAR(256)", False, 38)


def sql_type(dialect: str, schema: Schema, in_key: bool) -> str:
    """The type of a new column."""
    names = _NAMES.get(dialect, _OTHERS)
    kind = _NAMED.get(schema.name or "", _PLAIN[schema.type])
    if kind == "decimal" and schema.type is not Type.BYTES:  # called so, and is none
        kind = _PLAIN[schema.type]
    if kind == "decimal":
        digits = int(schema.parameters.get(PRECISION, names.digits_max))
        if dialect == "postgresql" and PRECISION not in schema.parameters:
            return "DECIMAL"
        return (
            "NUMERIC" if dialect == "sqlite" else f"DECIMAL({min(digits, names.digits_max)},{schema.scale})"
        )
    if kind == "array" and names.arrays and schema.items.type not in (Type.STRUCT, Type.MAP, Type.ARRAY):
        return sql_type(dialect, schema.items, False) + "[]"
    if kind in ("struct", "map", "array"):
        kind = "json"
    if in_key and kind == "string":
        return names.key_text
    if in_key and kind == "bytes":
        return names.key_bytes
    return names.types[kind]


def literal(dialect: str, value: Any) -> str:
    """A default as it stands in a statement."""
    if isinstance(value, bool):
        return str(value).upper() if dialect == "postgresql" else str(int(value))
    if isinstance(value, (bytes, bytearray)):
        return f"'\\x{value.hex()}'" if dialect == "postgresql" else f"X'{value.hex()}'"
    if isinstance(value, (int, Decimal)) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    if isinstance(value, (dict, list)):
        value = as_json(value).decode()
    text = str(value).replace("'", "''")  # comes from a record, whatever its schema is called
    if "\\" in text and dialect in ("mysql", "postgresql"):
        text = text.replace("\\", "\\\\")
        return f" E'{text}'" if dialect == "postgresql" else f"'{text}'"
    return f"'{text}'"


def meant(schema: Schema | None, column: pa.Array) -> pa.Array:
    """Debezium's numbers as Arrow's dates and times; others as they are."""
    unit, kind = _TIMES.get((schema.name if schema else None) or "", ("", ""))
    if not kind or not pa.types.is_integer(column.type):
        return column
    if kind == "date":
        return column.cast(pa.int32()).cast(pa.date32())
    if kind == "timestamp":
        return column.cast(pa.int64()).cast(pa.timestamp(unit))  # a wall clock's: no zone
    return column.cast(pa.int32() if unit == "ms" else pa.int64()).cast(
        pa.time32(unit) if unit == "ms" else pa.time64(unit)
    )


def in_zone(column: pa.Array, zone: str) -> pa.Array:
    """Instants as what a clock shows in `db.timezone`; columns that are no instants as they are."""
    if not pa.types.is_timestamp(column.type) or column.type.tz is None:
        return column
    if zone != "UTC":
        column = column.cast(pa.timestamp(column.type.unit, zone))
        return pc.local_timestamp(column)
    return column.cast(pa.timestamp(column.type.unit))


def each_value(column: pa.Array, function: Callable[[Any], Any]) -> list[Any]:
    """A function of every value that is not null."""
    values = column.to_pylist(maps_as_pydicts="lossy")
    return [None if value is None else function(value) for value in values]


def json_text(value: Any) -> str:
    """A value as a JSON document."""
    return as_json(value).decode()
