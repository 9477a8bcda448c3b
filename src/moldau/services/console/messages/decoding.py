"""Bytes as people read them: by a chosen format, or guessed.

    auto     a schema's (if a registry is told and the bytes name one), JSON, text, else hexadecimal
    json string hex base64 int long float double schema     as chosen; what does not fit is guessed, with why

The value is what a filter sees (JSON's own values), the text what is shown. Text that is not printable is not
text: control characters but tab and line ends mean hexadecimal.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

FORMATS = ("auto", "json", "string", "hex", "base64", "int", "long", "float", "double", "schema")
_NUMBERS = {"int": ">i", "long": ">q", "float": ">f", "double": ">d"}
_HEX_BYTES_PER_LINE = 16
_GUESSED_BYTES_MAX = 2 * 1024 * 1024
DEPTH_MAX = 100
"""JSON that is nested deeper is text: printers, masks and comparisons go down by recursion, and lines of it
would be mostly indentation."""

Headers = Sequence[tuple[str, bytes | None]]
BySchema = Callable[[bytes, bool, Headers], "tuple[Any, str] | None"]
"""Decodes by the schema that the bytes name: the value and the schema's name; None: they name none."""


class Shown(NamedTuple):
    """A key or value: how it was understood, its value for filters, its text; `note`: why not as chosen."""

    format: str
    value: Any
    text: str
    note: str = ""
    schema: str = ""


NOTHING = Shown("null", None, "")


def shown(
    data: bytes | None, chosen: str, *, is_key: bool, headers: Headers = (), by_schema: BySchema | None = None
) -> Shown:
    """The bytes in the chosen format."""
    if data is None:
        return NOTHING
    if chosen == "auto":
        return _guessed(data, is_key, headers, by_schema)
    try:
        found = _as(data, chosen, is_key, headers, by_schema)
    except (ValueError, struct.error, RecursionError) as problem:
        why = f"it is not {chosen}: {problem}" if chosen != "schema" else str(problem)
        return _guessed(data, is_key, headers, None)._replace(note=why[:300])
    return found


def _guessed(data: bytes, is_key: bool, headers: Headers, by_schema: BySchema | None) -> Shown:
    note = ""
    if by_schema is not None:
        try:
            found = by_schema(data, is_key, headers)
            if found is not None:
                return _of_schema(*found)
        except (ValueError, RecursionError) as problem:
            note = str(problem)[:300]
    if data[:1] in (b"{", b"[", b'"') and len(data) <= _GUESSED_BYTES_MAX:
        try:
            return _json(data)._replace(note=note)
        except ValueError:
            pass
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _hex(data)._replace(note=note)
    if all(sign.isprintable() or sign in "\t\n\r" for sign in text):
        return Shown("string", text, text, note)
    return _hex(data)._replace(note=note)


def _as(data: bytes, chosen: str, is_key: bool, headers: Headers, by_schema: BySchema | None) -> Shown:
    if chosen == "json":
        return _json(data)
    if chosen == "string":
        text = data.decode("utf-8", "replace")
        return Shown("string", text, text)
    if chosen == "hex":
        return _hex(data)
    if chosen == "base64":
        text = base64.b64encode(data).decode()
        return Shown("base64", text, text)
    if chosen in _NUMBERS:
        (number,) = struct.unpack(_NUMBERS[chosen], data)
        return Shown(chosen, number, str(number))
    if chosen == "schema":
        if by_schema is None:
            raise ValueError("no schema registry is set (--schema-registry)")
        found = by_schema(data, is_key, headers)
        if found is None:
            raise ValueError("it names no schema")
        return _of_schema(*found)
    raise ValueError(f"{chosen} is not known")


def _of_schema(value: Any, schema: str) -> Shown:
    _check_depth(value)
    return Shown("schema", value, json_text(value), schema=schema)


def _json(data: bytes) -> Shown:
    value = orjson.loads(data)
    if data.count(b"[") + data.count(b"{") > DEPTH_MAX:
        _check_depth(value)
    return Shown("json", value, data.decode())


def _check_depth(value: Any) -> None:
    """ValueError: it is nested too deeply."""
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [each for each in level if isinstance(each, dict | list | tuple)]
        if not level:
            return
        level = [child for each in level for child in (each.values() if isinstance(each, dict) else each)]
    raise ValueError(f"it is nested deeper than {DEPTH_MAX} levels")


def json_text(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _hex(data: bytes) -> Shown:
    return Shown("hex", data.hex(), data.hex(" "))


def hex_dump(data: bytes, bytes_max: int = 16 * 1024) -> str:
    """Lines of offset, bytes and what of them is text."""
    lines = []
    for start in range(0, min(len(data), bytes_max), _HEX_BYTES_PER_LINE):
        part = data[start : start + _HEX_BYTES_PER_LINE]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{3 * _HEX_BYTES_PER_LINE - 1}}  {text}")
    if len(data) > bytes_max:
        lines.append(f"… {len(data) - bytes_max:,} more bytes")
    return "\n".join(lines)


def pretty(value: Any) -> str:
    """JSON on many lines."""
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except TypeError:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
