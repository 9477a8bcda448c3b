"""Types of PostgreSQL's columns as Debezium has them in records, and texts of the log as their values.

smallint integer bigint oid, real double, boolean, bytea, texts    plain
numeric(p,s)     Decimal; numeric, and more than 38 digits: VariableScaleDecimal {scale, value}
                                                                             decimal.handling.mode
date             io.debezium.time.Date; time: MicroTime; timetz: ZonedTime   time.precision.mode
timestamp        io.debezium.time.Timestamp (up to 3 digits), MicroTimestamp; timestamptz: ZonedTimestamp
interval         io.debezium.time.MicroDuration                              interval.handling.mode
uuid json jsonb xml enum hstore bit    io.debezium.data.Uuid Json Json Xml Enum Json Bits
arrays           ARRAY of one dimension; Json                                moldau.array.handling.mode
all others       STRING, PostgreSQL's own text

What has no value of its column's type (NaN in a Decimal, an array of arrays) is a ConnectError that says
which setting has one.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from moldau.connect.arrow_types import DIGITS_MAX
from moldau.connect.connectors.cdc.converting import CapturedColumn
from moldau.connect.errors import ConnectError
from moldau.connect.schema import (
    DATE,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    array_schema,
    decimal_schema,
    logical_schema,
    map_schema,
    struct_schema,
)

_TIME = "io.debezium.time."
_DATA = "io.debezium.data."
_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_TIME = datetime.datetime(1970, 1, 1)
_US = datetime.timedelta(microseconds=1)
_PLAIN: dict[str, tuple[Type, Callable[[str], Any] | None]] = {
    "int2": (Type.INT16, int),
    "int4": (Type.INT32, int),
    "int8": (Type.INT64, int),
    "oid": (Type.INT64, int),
    "float4": (Type.FLOAT32, float),
    "float8": (Type.FLOAT64, float),
    "bool": (Type.BOOLEAN, lambda text: text == "t"),
}
_INFINITE_US = {"infinity": (1 << 63) - 1, "-infinity": -(1 << 63)}
_INFINITE_MS = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
"""As PostgreSQL's own driver for Java, and so Debezium, has them."""
Convert = Callable[[str], Any] | None


@dataclass(frozen=True, slots=True)
class ColumnType:
    """What the catalog says of a column's type."""

    name: str
    """PostgreSQL's inner one, e.g. int4."""
    modifier: int = -1
    kind: str = "b"
    """typtype: b base, e enumeration, d domain (given as its base), ..."""
    labels: tuple[str, ...] = ()
    element: ColumnType | None = None
    """Of an array."""


class Types:
    """Schemas and conversions under a connector's settings."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._decimals = settings["decimal.handling.mode"].lower()
        self._times = settings["time.precision.mode"].lower()
        self._binary = settings["binary.handling.mode"].lower()
        self._hstore = settings["hstore.handling.mode"].lower()
        self._intervals = settings["interval.handling.mode"].lower()
        self._arrays = settings["moldau.array.handling.mode"].lower()
        self._placeholder = settings["unavailable.value.placeholder"]
        self._on_failure = settings["event.converting.failure.handling.mode"].lower()

    def column(self, name: str, kind: ColumnType, optional: bool) -> CapturedColumn:
        """A column."""
        schema, convert = self._of(kind, optional)
        return CapturedColumn(name, schema, convert, self._missing(schema), self._on_failure)

    def _missing(self, schema: Schema) -> Any:
        if schema.type is Type.STRING:
            return self._placeholder
        if schema.type is Type.BYTES and schema.name is None:
            return self._placeholder.encode()
        if schema.type is Type.ARRAY:
            return self._missing_array(schema.items)
        if schema.type is Type.MAP:
            return {self._placeholder: self._placeholder}
        return None

    def _missing_array(self, items: Schema) -> Any:
        """As in Debezium: of texts the placeholder, of numbers one for each of its bytes."""
        given = self._placeholder.encode()
        if items.name == _DATA + "Uuid":
            digest = hashlib.md5(given, usedforsecurity=False).digest()
            return [str(uuid.UUID(bytes=digest, version=3))]
        if items.type in (Type.STRING, Type.BYTES):
            found = self._missing(items)
            return None if found is None else [found]
        if items.type in (Type.FLOAT32, Type.FLOAT64):
            return [float(each) for each in given]
        if items.type is Type.BOOLEAN:
            return [each % 2 == 1 for each in given]
        return list(given) if items.type in (Type.INT16, Type.INT32, Type.INT64) else None

    def _of(self, kind: ColumnType, optional: bool) -> tuple[Schema, Convert]:
        name = kind.name
        if kind.element is not None:
            items, convert = self._of(kind.element, True)
            if self._arrays == "json":
                schema = Schema(Type.STRING, optional, _DATA + "Json", 1)
                return schema, lambda text: array_json(text, convert)
            return array_schema(items, optional), lambda text: array_values(text, convert)
        if kind.kind == "e":
            allowed = {"allowed": ",".join(kind.labels)}
            return Schema(Type.STRING, optional, _DATA + "Enum", 1, parameters=allowed), None
        if name in _PLAIN:
            type_, plain = _PLAIN[name]
            return Schema(type_, optional), plain
        if name in ("numeric", "money"):
            return self._number(kind, optional)
        if name in ("date", "time", "timetz", "timestamp", "timestamptz", "interval"):
            return self._when(kind, optional)
        if name == "bytea":
            return self._bytes(optional)
        if name in ("bit", "varbit"):
            return _bits(kind, optional)
        if name == "hstore":
            if self._hstore == "map":
                texts = Schema(Type.STRING, True)
                return map_schema(Schema(Type.STRING), texts, optional), hstore_values
            return Schema(Type.STRING, optional, _DATA + "Json", 1), lambda text: json.dumps(
                hstore_values(text)
            )
        named = {"uuid": "Uuid", "json": "Json", "jsonb": "Json", "xml": "Xml"}.get(name)
        return Schema(Type.STRING, optional, _DATA + named if named else None, 1 if named else None), None

    def _number(self, kind: ColumnType, optional: bool) -> tuple[Schema, Convert]:
        if self._decimals == "string":
            return Schema(Type.STRING, optional), None
        if self._decimals == "double":
            return Schema(Type.FLOAT64, optional), float if kind.name == "numeric" else lambda text: float(
                money_text(text)
            )
        if kind.name == "money":
            return decimal_schema(2, optional), lambda text: Decimal(money_text(text))
        digits, scale = ((kind.modifier - 4) >> 16) & 0xFFFF, (kind.modifier - 4) & 0x7FF
        if scale & 0x400:  # below zero: hundreds, say; since PostgreSQL 15
            digits, scale = digits + 0x800 - scale, 0
        digits = max(digits, scale)
        if kind.modifier < 4 or digits > DIGITS_MAX:  # any number of digits
            fields = {"scale": Schema(Type.INT32), "value": Schema(Type.BYTES)}
            schema = struct_schema(fields, _DATA + "VariableScaleDecimal", optional, 1)
            return schema, variable_scale
        return decimal_schema(scale, optional, digits), plain_decimal

    def _when(self, kind: ColumnType, optional: bool) -> tuple[Schema, Convert]:
        name = kind.name
        if name == "timestamptz":
            return Schema(Type.STRING, optional, _TIME + "ZonedTimestamp", 1), zoned_text
        if name == "timetz":
            return Schema(Type.STRING, optional, _TIME + "ZonedTime", 1), zoned_time_text
        if name == "interval":
            if self._intervals == "string":
                return Schema(Type.STRING, optional, _TIME + "Interval", 1), None
            return Schema(Type.INT64, optional, _TIME + "MicroDuration", 1), interval_us
        if self._times == "connect":
            logical, convert = _CONNECT[name]
            return logical_schema(logical, optional), convert
        if name == "date":
            return Schema(Type.INT32, optional, _TIME + "Date", 1), days
        short = self._times == "adaptive" and 0 <= kind.modifier <= 3
        if name == "time":
            if short:
                return Schema(Type.INT32, optional, _TIME + "Time", 1), time_ms
            return Schema(Type.INT64, optional, _TIME + "MicroTime", 1), time_us
        short = 0 <= kind.modifier <= 3  # so in adaptive_time_microseconds, too
        if short:
            return Schema(Type.INT64, optional, _TIME + "Timestamp", 1), timestamp_ms
        return Schema(Type.INT64, optional, _TIME + "MicroTimestamp", 1), timestamp_us

    def _bytes(self, optional: bool) -> tuple[Schema, Convert]:
        if self._binary == "hex":
            return Schema(Type.STRING, optional), lambda text: text[2:]
        if self._binary.startswith("base64"):
            encode = base64.urlsafe_b64encode if self._binary.endswith("url-safe") else base64.b64encode
            return Schema(Type.STRING, optional), lambda text: encode(bytes.fromhex(text[2:])).decode()
        return Schema(Type.BYTES, optional), lambda text: bytes.fromhex(text[2:])


def _bits(kind: ColumnType, optional: bool) -> tuple[Schema, Convert]:
    if kind.name == "bit" and kind.modifier in (1, -1):
        return Schema(Type.BOOLEAN, optional), lambda text: text == "1"
    length = {"length": str(kind.modifier if kind.modifier > 0 else (1 << 31) - 1)}
    schema = Schema(Type.BYTES, optional, _DATA + "Bits", 1, parameters=length)
    return schema, lambda text: int(text or "0", 2).to_bytes((len(text) + 7) // 8, "little")


def money_text(text: str) -> str:
    """The number of money's text in whatever lc_monetary the server has: -$1,234.50  1.234,50 EUR  (1.50)"""
    sign = "-" if "-" in text or text.startswith("(") else ""
    whole, _, fraction = re.sub("[^0-9.,]", "", text).strip(".,").replace(",", ".").rpartition(".")
    if len(fraction) != 2 or not whole:  # no decimals: 1,234 yen
        whole, fraction = whole + fraction, "0"
    return f"{sign}{whole.replace('.', '')}.{fraction}"


def plain_decimal(text: str) -> Decimal:
    """Of any number but NaN and those that are infinite. ConnectError."""
    made = Decimal(text)
    if not made.is_finite():
        raise ConnectError(f"{text} is no Decimal: decimal.handling.mode=double or string has it as it is")
    return made


def variable_scale(text: str) -> dict[str, Any]:
    """A number of any digits as {scale, unscaled big-endian value}."""
    made = plain_decimal(text)
    _, digits, exponent = made.as_tuple()
    assert isinstance(exponent, int)
    # Not by a text, of which Python reads 4,300 digits: numeric has up to 147,455.
    unscaled = int(Decimal((made.is_signed(), digits, 0))) * (10 ** max(exponent, 0))
    size = (unscaled.bit_length() + 8) // 8
    return {"scale": max(-exponent, 0), "value": unscaled.to_bytes(size, "big", signed=True)}


def _date_of(text: str) -> tuple[int, int, int]:
    before = text.endswith(" BC")
    year, month, day = text.removesuffix(" BC").split("-")
    return (1 - int(year) if before else int(year)), int(month), int(day)


def days(text: str) -> int:
    """Of a date since 1970, also outside of Python's years."""
    if text in _INFINITE_US:
        return (1 << 31) - 1 if text == "infinity" else -(1 << 31)
    year, month, day = _date_of(text)
    if 1 <= year <= 9999:
        return (datetime.date(year, month, day) - _EPOCH).days
    # By cycles of 400 years, which have 146,097 days each.
    cycles, rest = divmod(year - 2000, 400)
    return (datetime.date(2000 + rest, month, day) - _EPOCH).days + cycles * 146_097


def time_us(text: str) -> int:
    """Microseconds since midnight."""
    clock, _, fraction = text.partition(".")
    hours, minutes, seconds = clock.split(":")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + int(
        fraction.ljust(6, "0") or 0
    )


def time_ms(text: str) -> int:
    """Milliseconds since midnight. ConnectError: 24:00:00, which no clock of Connect's has."""
    made = time_us(text) // 1000
    if made >= 86_400_000:
        raise ConnectError(f"{text} is no time of day: time.precision.mode=adaptive_time_microseconds has it")
    return made


def timestamp_ms(text: str) -> int:
    """Milliseconds since 1970."""
    infinite = _INFINITE_MS.get(text)
    return timestamp_us(text) // 1000 if infinite is None else infinite


def timestamp_us(text: str) -> int:
    """Microseconds since 1970, of a clock without a zone taken as UTC."""
    if text[4:5] == "-" and not text.endswith("C"):  # the years that Python has, by its own parser
        return (datetime.datetime.fromisoformat(text) - _EPOCH_TIME) // _US
    if text in _INFINITE_US:
        return _INFINITE_US[text]
    era = " BC" if text.endswith(" BC") else ""
    date, clock = text.removesuffix(" BC").split(" ")
    # The last years that PostgreSQL has are not in 64 bits since 1970.
    return min(days(date + era) * 86_400_000_000 + time_us(clock), _INFINITE_US["infinity"])


def zoned_text(text: str) -> str:
    """A timestamptz (in a session in UTC) as ISO 8601."""
    if text in _INFINITE_US:
        return text
    made = text.removesuffix(" BC")
    if text.endswith(" BC"):
        made = "-" + made
    return made.replace(" ", "T").removesuffix("+00") + "Z"


def zoned_time_text(text: str) -> str:
    """A timetz in UTC."""
    clock, sign, zone = re.fullmatch(r"([0-9:.]+)([+-])([0-9:]+)", text).groups()  # type: ignore[union-attr]
    parts = [int(each) for each in zone.split(":")]
    shift = sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False)) * 1_000_000
    us = (time_us(clock) - (shift if sign == "+" else -shift)) % 86_400_000_000
    seconds, fraction = divmod(us, 1_000_000)
    made = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{made}.{fraction:06}".rstrip("0").rstrip(".") + "Z" if fraction else made + "Z"


_PERIOD = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d+)?)S)?)?"
)


def interval_us(text: str) -> int:
    """An interval in ISO 8601; a month is 30.4375 days, a year 365.25, as in Debezium."""
    found = _PERIOD.fullmatch(text)
    if found is None:
        raise ConnectError(f"interval {text} is not as expected: intervalstyle is to be iso_8601")
    years, months, days_, hours, minutes = (int(each or 0) for each in found.groups()[:5])
    seconds = Decimal(found.group(6) or 0)
    whole_days = Decimal(years * 12 + months) * Decimal("30.4375") + days_
    return int(((whole_days * 24 + hours) * 60 + minutes) * 60_000_000 + seconds * 1_000_000)


_CONNECT: dict[str, tuple[str, Callable[[str], Any]]] = {
    "date": (DATE, days),
    "time": (TIME, time_ms),
    "timestamp": (TIMESTAMP, timestamp_ms),
}
"""As numbers, which Arrow takes: Python's dates end at the years 1 and 9999."""


def array_values(text: str, convert: Convert) -> list[Any]:
    """PostgreSQL's text of an array: {a,"b\\"c",NULL}. ConnectError: it has more than one dimension."""
    values = _array_of(text, convert)
    if any(isinstance(each, list) for each in values):
        raise ConnectError(
            "it has more than one dimension, which its column does not say: moldau.array.handling.mode=json "
            "has such arrays as JSON"
        )
    return values


def array_json(text: str, convert: Convert) -> str:
    """The same of any dimensions, as JSON."""
    return json.dumps(_array_of(text, convert), ensure_ascii=False, default=_json_value)


def _json_value(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _array_of(text: str, convert: Convert) -> list[Any]:
    values, at = _array(text, text.index("{"), convert)
    if at != len(text):
        raise ConnectError(f"an array's text has more behind its end: {text[:100]}")
    return values


def _array(text: str, at: int, convert: Convert, depth: int = 1) -> tuple[list[Any], int]:
    made: list[Any] = []
    at += 1
    while text[at] != "}":
        if text[at] == ",":
            at += 1
        elif text[at] == "{":
            if depth >= 6:  # PostgreSQL's limit
                raise ConnectError("an array of more than six dimensions")
            inner, at = _array(text, at, convert, depth + 1)
            made.append(inner)
        elif text[at] == '"':
            value, at = _quoted(text, at)
            made.append(convert(value) if convert else value)
        else:
            end = at
            while text[end] not in ",}":
                end += 1
            value, at = text[at:end], end
            made.append(None if value == "NULL" else convert(value) if convert else value)
    return made, at + 1


def _quoted(text: str, at: int) -> tuple[str, int]:
    made, at = [], at + 1
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
        made.append(text[at])
        at += 1
    return "".join(made), at + 1


def hstore_values(text: str) -> dict[str, str | None]:
    """PostgreSQL's text of an hstore: "a"=>"b", "c"=>NULL."""
    made: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        key, at = _quoted(text, at)
        at += 2
        if text[at] == '"':
            made[key], at = _quoted(text, at)
        else:
            made[key], at = None, at + 4
        at += 2
    return made
