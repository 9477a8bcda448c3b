"""Values without a schema -> JSON, as Kafka's converter writes them.

Most of what orjson writes are Jackson's bytes too; values with floats, nulls (which may be NaN there) or
control signs, and what orjson refuses, are written here.
"""

from __future__ import annotations

import base64
import datetime
import re
from decimal import Decimal
from typing import Any

import orjson

from moldau.connect.converters.java_text import double_text, json_text
from moldau.connect.converters.json.documents import NoJson
from moldau.connect.converters.json.values import Number

_MAYBE_OTHERWISE = re.compile(rb"[0-9][.e]|\\u00|null|[\xf0-\xf4]")
_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
DEPTH_MAX = 500


def _bytes_of(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"a value of the type {type(value).__name__} has no schema type in Kafka Connect")


def json_of(value: Any) -> bytes:
    """The JSON of a value. NoJson."""
    try:  # a subclass of str (Number) is refused by this option, and so written below
        made = orjson.dumps(value, _bytes_of, _OPTIONS)
        if _MAYBE_OTHERWISE.search(made) is None:
            return made
    except (TypeError, ValueError):
        pass
    parts: list[str] = []
    _write(value, parts, 0)
    try:
        return "".join(parts).encode()
    except UnicodeEncodeError:
        raise NoJson("a text has half a pair of surrogates") from None


def _write(value: Any, parts: list[str], depth: int) -> None:
    kind = type(value)
    if kind is str:
        parts.append(json_text(value))
    elif kind is Number:
        parts.append(value)
    elif value is None or kind is bool:
        parts.append("null" if value is None else "true" if value else "false")
    elif isinstance(value, int):
        parts.append(str(int(value)))
    elif isinstance(value, float):
        text = double_text(float(value))
        parts.append(text if text[-1] not in "Ny" else f'"{text}"')
    elif depth > DEPTH_MAX:
        raise NoJson(f"the value is nested deeper than {DEPTH_MAX}")
    elif isinstance(value, dict):
        _write_map(value, parts, depth)
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            parts.append("," if index else "[")
            _write(each, parts, depth + 1)
        parts.append("]" if value else "[]")
    elif isinstance(value, str):
        parts.append(json_text(value))
    elif isinstance(value, (bytes, bytearray)):
        parts.append(f'"{base64.b64encode(value).decode("ascii")}"')
    elif isinstance(value, (Decimal, datetime.date, datetime.time)):
        raise NoJson(f"a {kind.__name__} has no JSON without a schema: give the records a schema")
    else:
        raise NoJson(f"a value of the type {kind.__name__} has no schema type in Kafka Connect")


def _write_map(value: dict[Any, Any], parts: list[str], depth: int) -> None:
    """An object; a list of pairs where a key is no text, as Kafka has it."""
    texts = all(isinstance(key, str) for key in value)
    begin, end = "{}" if texts else "[]"
    for index, (key, each) in enumerate(value.items()):
        parts.append("," if index else begin)
        if texts:
            parts += [json_text(key), ":"]
            _write(each, parts, depth + 1)
        else:
            parts.append("[")
            _write(key, parts, depth + 1)
            parts.append(",")
            _write(each, parts, depth + 1)
            parts.append("]")
    parts.append(end if value else begin + end)
