"""Columns of a table as fields of records: which schema, and how a driver's value becomes one of it.

integers, floats, booleans, texts, bytes     as they are
NUMERIC                                      Decimal, or a number (`numeric.mapping`)
DATE, TIME, TIMESTAMP                        Connect's; a column without a zone shows `db.timezone`
arrays of PostgreSQL                         ARRAY
JSON, UUID, enumerations, addresses, others  STRING
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from moldau.connect.schema import (
    DATE,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    array_schema,
    decimal_schema,
    logical_schema,
)

DIGITS_MAX = 38
FREE_SCALE = 18
"""Of NUMERIC without a scale in PostgreSQL, which has any number of digits."""
_INTEGERS = {
    "TINYINT": Type.INT8,
    "SMALLINT": Type.INT16,
    "SMALLSERIAL": Type.INT16,
    "MEDIUMINT": Type.INT32,
    "INTEGER": Type.INT32,
    "INT": Type.INT32,
    "SERIAL": Type.INT32,
    "YEAR": Type.INT32,
    "OID": Type.INT64,
    "BIGINT": Type.INT64,
    "BIGSERIAL": Type.INT64,
}
_WIDER = {Type.INT8: Type.INT16, Type.INT16: Type.INT32, Type.INT32: Type.INT64, Type.INT64: Type.INT64}
_TEXTS = ("CHAR", "TEXT", "CLOB", "STRING", "ENUM", "SET", "JSON", "UUID")


class SourceColumn(NamedTuple):
    """A column: its field's schema, what its values are made of, and whether it shows an instant."""

    name: str
    schema: Schema
    convert: Callable[[Any], Any] | None
    zoned: bool = False


def column_of_type(
    name: str, kind: Any, nullable: bool, mapping: str, zone: ZoneInfo, dialect: str
) -> SourceColumn:
    """`kind`: SQLAlchemy's type."""
    schema, convert = _typed(kind, nullable, mapping, zone, dialect)
    zoned = bool(getattr(kind, "timezone", False)) or (dialect == "mysql" and _name(kind) == "TIMESTAMP")
    return SourceColumn(name, schema, convert, zoned)


def _name(kind: Any) -> str:
    return str(getattr(kind, "__visit_name__", type(kind).__name__)).upper()


def _typed(
    kind: Any, nullable: bool, mapping: str, zone: ZoneInfo, dialect: str
) -> tuple[Schema, Callable[[Any], Any] | None]:
    name = _name(kind)
    if name == "ARRAY":
        items, convert = _typed(kind.item_type, True, mapping, zone, dialect)
        each = (lambda values: [None if v is None else convert(v) for v in values]) if convert else None
        return array_schema(items, nullable), each
    if name in ("BOOLEAN", "BOOL"):
        return Schema(Type.BOOLEAN, nullable), bool
    if name in _INTEGERS or name == "BIG_INTEGER":
        type_ = _INTEGERS.get(name, Type.INT64)
        if dialect == "sqlite":
            type_ = Type.INT64  # whatever the declaration says
        return Schema(_WIDER[type_] if getattr(kind, "unsigned", False) else type_, nullable), int
    if name in ("NUMERIC", "DECIMAL"):
        return _numeric(kind, nullable, mapping)
    if name in ("REAL", "FLOAT", "DOUBLE", "DOUBLE_PRECISION"):
        single = name == "REAL" and dialect == "postgresql"
        return Schema(Type.FLOAT32 if single else Type.FLOAT64, nullable), float
    if name == "DATE":
        return logical_schema(DATE, nullable), _date
    if name == "TIME":
        return logical_schema(TIME, nullable), _time
    if name in ("TIMESTAMP", "DATETIME"):
        utc = dialect == "mysql" and name == "TIMESTAMP"  # the session's zone, which is UTC
        return logical_schema(TIMESTAMP, nullable), instant(ZoneInfo("UTC") if utc else zone)
    if name in (
        "BYTEA",
        "BLOB",
        "BINARY",
        "VARBINARY",
        "LONGBLOB",
        "MEDIUMBLOB",
        "TINYBLOB",
        "LARGE_BINARY",
    ) or (name == "BIT" and dialect == "mysql"):
        return Schema(Type.BYTES, nullable), bytes
    return Schema(Type.STRING, nullable), _text


def _numeric(kind: Any, nullable: bool, mapping: str) -> tuple[Schema, Callable[[Any], Any] | None]:
    digits, scale = kind.precision, kind.scale
    if digits is None and scale is None:  # any number of digits
        if mapping.startswith("best_fit"):
            return Schema(Type.FLOAT64, nullable), float
        return decimal_schema(FREE_SCALE, nullable), Decimal
    digits, scale = int(digits or DIGITS_MAX), int(scale or 0)
    if mapping != "none" and scale < 1 and digits < 19:
        fits = ((3, Type.INT8), (5, Type.INT16), (10, Type.INT32), (19, Type.INT64))
        return Schema(next(type_ for below, type_ in fits if digits < below), nullable), int
    doubles = mapping == "best_fit_eager_double" or (mapping == "best_fit" and digits < 19)
    if doubles and scale > 0:
        return Schema(Type.FLOAT64, nullable), float
    return decimal_schema(scale, nullable, min(digits, DIGITS_MAX)), _decimal


def _decimal(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(str(value))


def _date(value: Any) -> datetime.date:
    if isinstance(value, str):
        if value.endswith("BC"):
            raise ValueError("a date before Christ")
        return datetime.date.fromisoformat(value[:10])
    return value.date() if isinstance(value, datetime.datetime) else value


def _time(value: Any) -> datetime.time:
    if isinstance(value, str):
        return datetime.time.fromisoformat(value)
    if isinstance(value, datetime.timedelta):  # MySQL's, which may be longer than a day
        return (datetime.datetime.min + value % datetime.timedelta(days=1)).time()
    return value.replace(tzinfo=None)  # type: ignore[no-any-return]


def instant(zone: ZoneInfo) -> Callable[[Any], datetime.datetime]:
    """A driver's timestamp as an instant; one without a zone shows this zone's clock."""

    def made(value: Any) -> datetime.datetime:
        if isinstance(value, (int, float)):  # SQLite: what Java's driver stores
            return datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
        if isinstance(value, str):
            value = datetime.datetime.fromisoformat(value)
        if not isinstance(value, datetime.datetime):
            value = datetime.datetime.combine(value, datetime.time())
        aware: datetime.datetime = value if value.tzinfo is not None else value.replace(tzinfo=zone)
        return aware.astimezone(datetime.UTC)

    return made


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode(errors="replace")
    if isinstance(value, set):
        return ",".join(sorted(map(str, value)))
    return str(value)


def converted(columns: Sequence[SourceColumn], rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """A list a column."""
    made = []
    for column, values in zip(columns, zip(*rows, strict=True), strict=True):
        convert = column.convert
        made.append(list(values) if convert is None else [None if v is None else convert(v) for v in values])
    return made
