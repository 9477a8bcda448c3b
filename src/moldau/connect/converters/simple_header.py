"""SimpleHeaderConverter, Kafka's default: headers as text, from which the type is guessed.

    1                       INT8 (the smallest that holds it)         [1,2] {"a":1}      ARRAY, MAP
    1.5                     FLOAT32 (FLOAT64, Decimal)                2026-01-02         Date
    true                    BOOLEAN                                   03:04:05.678Z      Time
    anything else           STRING                                    2026-01-02T03:04:05.678Z  Timestamp

Bytes that are no text are BYTES. Unlike Kafka's, `1,000` is a text (there: 1).
"""

from __future__ import annotations

import base64
import datetime
import re
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np

from moldau.connect.arrow_types import DIGITS_MAX
from moldau.connect.batch import Header
from moldau.connect.converter import HeaderConverter
from moldau.connect.converters.java_text import double_text, float_text
from moldau.connect.errors import BadRecord
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
)

DEPTH_MAX = 50
TEXT_MAX = 10_000
"""Longer texts are texts."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_END = re.compile(r'[,\]}"\[{:]')
_WHOLE = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)
_RANK = (*_WHOLE, Type.FLOAT32, Type.FLOAT64)


class Parsed(NamedTuple):
    """A value and its schema; None where it has none (a null, a list of mixed types)."""

    value: Any
    schema: Schema | None


class _NoValue(ValueError):
    """The text is only a text."""


class SimpleHeaderConverter(HeaderConverter):
    """Kafka's org.apache.kafka.connect.storage.SimpleHeaderConverter."""

    def to_header(self, topic: str, name: str, payload: bytes | None) -> Header:
        """See HeaderConverter."""
        if payload is None:
            return Header(name, None)
        try:
            return Header(name, *parsed_text(payload.decode()))
        except UnicodeDecodeError:
            return Header(name, payload, Schema(Type.BYTES))

    def to_payload(self, topic: str, header: Header) -> bytes | None:
        """See HeaderConverter."""
        return None if header.value is None else text_of(header.schema, header.value, 0).encode()


def parsed_text(text: str) -> Parsed:
    """The value that a text stands for; itself if it is nothing else."""
    bare = text.strip()
    if bare and len(bare) <= TEXT_MAX:
        try:
            if bare[0] in "[{":
                found, end = _Parser(bare).element(0, 0)
                if end == len(bare):
                    return found
            else:
                return _literal(bare)
        except _NoValue:
            pass
    return Parsed(text, Schema(Type.STRING))


def _literal(text: str) -> Parsed:
    if text in ("true", "false"):
        return Parsed(text == "true", Schema(Type.BOOLEAN))
    if text == "null":
        return Parsed(None, None)
    if _NUMBER.fullmatch(text):
        return _number(text)
    try:
        if _DATE.fullmatch(text):
            return Parsed(datetime.date.fromisoformat(text), logical_schema(DATE))
        if _TIME.fullmatch(text):
            return Parsed(datetime.time.fromisoformat(text[:-1]), logical_schema(TIME))
        if _TIMESTAMP.fullmatch(text):
            return Parsed(datetime.datetime.fromisoformat(text), logical_schema(TIMESTAMP))
    except ValueError:
        raise _NoValue from None
    raise _NoValue


def _number(text: str) -> Parsed:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise _NoValue from None
    digits, exponent = len(number.as_tuple().digits), number.adjusted()
    if exponent < DIGITS_MAX and number == number.to_integral_value():
        whole = int(number)
        for kind, bits in zip(_WHOLE, (8, 16, 32, 64), strict=True):
            if -(1 << (bits - 1)) <= whole < 1 << (bits - 1):
                return Parsed(whole, Schema(kind))
    elif number != number.to_integral_value():
        with np.errstate(over="ignore", under="ignore"):
            single = float(np.float32(number))
        if np.isfinite(single):
            return Parsed(single, Schema(Type.FLOAT32))
    if digits > DIGITS_MAX or exponent > DIGITS_MAX:
        raise _NoValue
    scale = -int(number.as_tuple().exponent)
    return Parsed(number, decimal_schema(max(scale, 0)))


class _Parser:
    """Lists and maps, as JSON has them, whose keys may be numbers."""

    def __init__(self, text: str) -> None:
        self._text = text

    def element(self, at: int, depth: int) -> tuple[Parsed, int]:
        """The value that begins here, and where it ends."""
        at = self._blanks(at)
        if depth > DEPTH_MAX or at >= len(self._text):
            raise _NoValue
        sign = self._text[at]
        if sign == "[":
            return self._list(at + 1, depth)
        if sign == "{":
            return self._map(at + 1, depth)
        if sign == '"':
            return self._quoted(at + 1)
        end = _END.search(self._text, at)
        stop = end.start() if end else len(self._text)
        return _literal(self._text[at:stop].strip()), stop

    def _blanks(self, at: int) -> int:
        while at < len(self._text) and self._text[at].isspace():
            at += 1
        return at

    def _sign(self, at: int, signs: str) -> tuple[str, int]:
        at = self._blanks(at)
        if at >= len(self._text) or self._text[at] not in signs:
            raise _NoValue
        return self._text[at], at + 1

    def _quoted(self, at: int) -> tuple[Parsed, int]:
        made: list[str] = []
        while at < len(self._text):
            sign = self._text[at]
            if sign == '"':
                return Parsed("".join(made), Schema(Type.STRING)), at + 1
            if sign == "\\" and self._text[at + 1 : at + 2] in ('"', "\\"):
                at += 1
                sign = self._text[at]
            made.append(sign)
            at += 1
        raise _NoValue

    def _list(self, at: int, depth: int) -> tuple[Parsed, int]:
        items: list[Parsed] = []
        if self._text[self._blanks(at) : self._blanks(at) + 1] == "]":
            return Parsed([], None), self._blanks(at) + 1
        while True:
            found, at = self.element(at, depth + 1)
            items.append(found)
            sign, at = self._sign(at, ",]")
            if sign == "]":
                break
        common = _common(items)
        values = [_in(common, each.value) for each in items]
        return Parsed(values, None if common is None else array_schema(common)), at

    def _map(self, at: int, depth: int) -> tuple[Parsed, int]:
        keys: list[Parsed] = []
        items: list[Parsed] = []
        if self._text[self._blanks(at) : self._blanks(at) + 1] == "}":
            return Parsed({}, None), self._blanks(at) + 1
        while True:
            key, at = self.element(at, depth + 1)
            if isinstance(key.value, (list, dict)):
                raise _NoValue
            _, at = self._sign(at, ":")
            item, at = self.element(at, depth + 1)
            keys.append(key)
            items.append(item)
            sign, at = self._sign(at, ",}")
            if sign == "}":
                break
        kinds, common = _common(keys), _common(items)
        schema = None if kinds is None or common is None else map_schema(kinds, common)
        pairs = zip(keys, items, strict=True)
        return Parsed({_in(kinds, k.value): _in(common, v.value) for k, v in pairs}, schema), at


def _common(found: list[Parsed]) -> Schema | None:
    schemas = [each.schema for each in found]
    first = schemas[0]
    if any(each is None for each in schemas):
        return None
    if all(each == first for each in schemas):
        return first
    kinds = [each.type for each in schemas if each is not None and each.name is None]
    if len(kinds) == len(schemas) and all(each in _RANK for each in kinds):
        return Schema(max(kinds, key=_RANK.index))
    return None


def _in(schema: Schema | None, value: Any) -> Any:
    if schema is not None and schema.type in (Type.FLOAT32, Type.FLOAT64):
        return float(value)
    return value


def text_of(schema: Schema | None, value: Any, depth: int) -> str:
    """The text of a value; texts within lists and maps are in quotes. BadRecord."""
    if isinstance(value, str):
        return value if not depth else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, float):
        return float_text(value) if schema is not None and schema.type is Type.FLOAT32 else double_text(value)
    if isinstance(value, (bytes, bytearray)):
        made = base64.b64encode(value).decode("ascii")
        return made if not depth else f'"{made}"'
    if isinstance(value, datetime.datetime):
        utc = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
        return f"{utc.isoformat(timespec='milliseconds')}Z"
    if isinstance(value, datetime.time):
        return f"{value.isoformat(timespec='milliseconds')}Z"
    if isinstance(value, (int, Decimal, datetime.date)):
        return str(value)
    if depth <= DEPTH_MAX and isinstance(value, (list, tuple)):
        items = None if schema is None else schema.value_schema
        return f"[{','.join(text_of(items, each, depth + 1) for each in value)}]"
    if depth <= DEPTH_MAX and isinstance(value, dict) and (schema is None or schema.type is Type.MAP):
        keys, items = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
        inner = (
            f"{text_of(keys, key, depth + 1)}:{text_of(items, each, depth + 1)}"
            for key, each in value.items()
        )
        return f"{{{','.join(inner)}}}"
    raise BadRecord(f"a header of the type {type(value).__name__} has no text: use another header.converter")
