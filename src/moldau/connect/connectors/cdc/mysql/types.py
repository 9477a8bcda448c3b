"""Types of MySQL's columns as Debezium has them in records, and a driver's values as theirs.

tinyint smallint INT16   mediumint int INT32   bigint INT64   unsigned: the next wider one
decimal Decimal (more than 38 digits: VariableScaleDecimal)   float double
date io.debezium.time.Date   time MicroTime   year Year
datetime Timestamp (up to 3 digits), MicroTimestamp   timestamp ZonedTimestamp
bit(1) BOOLEAN   bit(n) Bits   enum Enum   set EnumSet   json Json   texts, bytes
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from moldau.connect.arrow_types import DIGITS_MAX
from moldau.connect.connectors.cdc.converting import CapturedColumn
from moldau.connect.connectors.cdc.postgres.types import variable_scale
from moldau.connect.schema import (
    DATE,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    decimal_schema,
    logical_schema,
    struct_schema,
)

_TIME = "io.debezium.time."
_DATA = "io.debezium.data."
_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_TIME = datetime.datetime(1970, 1, 1)
_US = datetime.timedelta(microseconds=1)
_INTEGERS = {
    "tinyint": (Type.INT16, Type.INT16),
    "smallint": (Type.INT16, Type.INT32),
    "mediumint": (Type.INT32, Type.INT32),
    "int": (Type.INT32, Type.INT64),
    "bigint": (Type.INT64, Type.INT64),
}
"""Signed, unsigned."""
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry")
Convert = Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class MysqlColumn:
    """A column, as information_schema or the log has it."""

    name: str
    data_type: str
    unsigned: bool = False
    digits: int = 10
    scale: int = 0
    fraction: int = 0
    """Digits of a second's fraction."""
    bits: int = 1
    optional: bool = True
    in_key: bool = False
    values: tuple[str, ...] = ()


class MysqlTypes:
    """Schemas and conversions under a connector's settings."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._decimals = settings["decimal.handling.mode"].lower()
        self._connect_times = settings["time.precision.mode"].lower() == "connect"
        self._binary = settings["binary.handling.mode"].lower()
        self._on_failure = settings["event.converting.failure.handling.mode"].lower()

    def column(self, name: str, column: MysqlColumn) -> CapturedColumn:
        """A column under its name in records."""
        schema, convert = self._of(column)
        return CapturedColumn(name, schema, convert, None, self._on_failure)

    def _of(self, column: MysqlColumn) -> tuple[Schema, Convert]:
        kind, optional = column.data_type, column.optional
        if kind in _INTEGERS:
            return Schema(_INTEGERS[kind][column.unsigned], optional), int
        if kind == "decimal":
            if self._decimals == "string":
                return Schema(Type.STRING, optional), str
            if self._decimals == "double":
                return Schema(Type.FLOAT64, optional), float
            if column.digits > DIGITS_MAX:
                fields = {"scale": Schema(Type.INT32), "value": Schema(Type.BYTES)}
                schema = struct_schema(fields, _DATA + "VariableScaleDecimal", optional, 1)
                return schema, lambda value: variable_scale(str(value))
            return decimal_schema(column.scale, optional, column.digits), Decimal
        if kind in ("float", "double"):
            return Schema(Type.FLOAT32 if kind == "float" else Type.FLOAT64, optional), float
        if kind in ("date", "time", "datetime", "timestamp", "year"):
            return self._when(column)
        if kind == "bit":
            if column.bits == 1:
                return Schema(Type.BOOLEAN, optional), lambda value: bit_number(value) != 0
            size = (column.bits + 7) // 8
            schema = Schema(Type.BYTES, optional, _DATA + "Bits", 1, parameters={"length": str(column.bits)})
            return schema, lambda value: bit_number(value).to_bytes(size, "little")
        if kind == "enum":
            allowed = {"allowed": ",".join(column.values)}
            return Schema(Type.STRING, optional, _DATA + "Enum", 1, parameters=allowed), _text
        if kind == "set":
            allowed = {"allowed": ",".join(column.values)}
            schema = Schema(Type.STRING, optional, _DATA + "EnumSet", 1, parameters=allowed)
            return schema, lambda value: set_text(value, column.values)
        if kind == "json":
            return Schema(Type.STRING, optional, _DATA + "Json", 1), _json
        if kind in _BYTES:
            return self._bytes(optional)
        return Schema(Type.STRING, optional), _text

    def _when(self, column: MysqlColumn) -> tuple[Schema, Convert]:
        kind, optional = column.data_type, column.optional
        if kind == "year":
            return Schema(Type.INT32, optional, _TIME + "Year", 1), int
        if kind == "timestamp":
            return Schema(Type.STRING, optional, _TIME + "ZonedTimestamp", 1), _zoned
        if self._connect_times:
            made = {"date": (DATE, None), "time": (TIME, _clock), "datetime": (TIMESTAMP, _utc)}[kind]
            return logical_schema(made[0], optional), made[1]
        if kind == "date":
            return Schema(Type.INT32, optional, _TIME + "Date", 1), lambda value: (value - _EPOCH).days
        if kind == "time":
            return Schema(Type.INT64, optional, _TIME + "MicroTime", 1), lambda value: value // _US
        if column.fraction <= 3:
            schema = Schema(Type.INT64, optional, _TIME + "Timestamp", 1)
            return schema, lambda value: (value - _EPOCH_TIME) // _US // 1000
        schema = Schema(Type.INT64, optional, _TIME + "MicroTimestamp", 1)
        return schema, lambda value: (value - _EPOCH_TIME) // _US

    def _bytes(self, optional: bool) -> tuple[Schema, Convert]:
        if self._binary == "bytes":
            return Schema(Type.BYTES, optional), _raw
        if self._binary == "hex":
            return Schema(Type.STRING, optional), lambda value: _raw(value).hex()
        encode = base64.urlsafe_b64encode if self._binary.endswith("url-safe") else base64.b64encode
        return Schema(Type.STRING, optional), lambda value: encode(_raw(value)).decode()


def bit_number(value: Any) -> int:
    """The log's text of bits, or the driver's bytes."""
    return int(value or "0", 2) if isinstance(value, str) else int.from_bytes(value, "big")


def set_text(value: Any, order: tuple[str, ...]) -> str:
    """A SET's members, in the column's order."""
    members = set(value.split(",")) if isinstance(value, str) else set(value)
    known = [each for each in order if each in members]
    return ",".join(known + sorted(members - set(known) - {""}))


def _raw(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _text(value: Any) -> str:
    return bytes(value).decode(errors="replace") if isinstance(value, (bytes, bytearray)) else str(value)


def _json(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode()
    return value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    """MySQL's own JSON has texts as bytes."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _zoned(value: datetime.datetime) -> str:
    text = value.replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


def _utc(value: datetime.datetime) -> datetime.datetime:
    return value.replace(tzinfo=datetime.UTC)


def _clock(value: datetime.timedelta) -> datetime.time:
    return (datetime.datetime.min + value % datetime.timedelta(days=1)).time()
