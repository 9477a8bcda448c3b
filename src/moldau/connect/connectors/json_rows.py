"""Values as JSON documents, for sinks whose other side takes JSON.

Times are texts as in RFC 3339, decimals numbers where a double holds them and texts where it does not, bytes
base64; NaN and infinities are null, as JSON has none.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import orjson

from moldau.connect.batch import Column
from moldau.connect.errors import BadRecord

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


def row_values(column: Column) -> list[Any]:
    """The values as Python objects, a row a row."""
    if isinstance(column.values, list):
        return column.values
    values: list[Any] = column.values.to_pylist(maps_as_pydicts="lossy")
    return values


def as_json(value: Any) -> bytes:
    """One value as a document. BadRecord for what JSON cannot hold."""
    try:
        return bytes(orjson.dumps(value, _other, _OPTIONS))
    except (TypeError, ValueError) as problem:
        cause = problem.__cause__ or problem
        raise BadRecord(f"the value cannot be written as JSON: {cause}") from problem


def _other(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b64encode(value).decode()
    if isinstance(value, Decimal):
        number = float(value)
        return number if Decimal(str(number)) == value else str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int):
        return str(value)  # beyond 64 bits
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__}")


def utc(ms: int) -> datetime:
    """A record's timestamp."""
    return datetime.fromtimestamp(ms / 1000, UTC)
