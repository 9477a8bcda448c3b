"""JSON as Kafka Connect's JsonConverter writes it without schemas: no blanks, members in order, Java's
numbers."""

from __future__ import annotations

import json
from typing import Any

from moldau.connect.converters.java_text import double_text, json_text

_DEPTH_MAX = 200


def encode(value: Any, depth: int = 0) -> bytes:
    """The text as UTF-8. ValueError: nested too deeply, or not JSON."""
    return _text(value, depth).encode("utf-8", "surrogatepass")


def _text(value: Any, depth: int) -> str:
    if depth > _DEPTH_MAX:
        raise ValueError("nested too deeply")
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json_text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = double_text(value)
        return text if text[-1].isdigit() else f'"{text}"'
    if isinstance(value, dict):
        members = (f"{json_text(str(name))}:{_text(each, depth + 1)}" for name, each in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_text(each, depth + 1) for each in value) + "]"
    raise ValueError(f"{type(value).__name__} is not JSON")


def decode(data: bytes) -> Any:
    """ValueError: no JSON."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def decode_object(data: bytes) -> dict[str, Any]:
    """ValueError: no JSON object. One with `schema` and `payload` alone (schemas.enable=true) is unpacked."""
    found = decode(data)
    if isinstance(found, dict) and set(found) == {"schema", "payload"}:
        found = found["payload"]
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found
