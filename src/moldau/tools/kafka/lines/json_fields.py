"""The JSON files that tools read: fields must be of their type, as Kafka's tools demand.

`"replicas": "12"` is no list of brokers 1 and 2, and partition 1.9 is not partition 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def parse_json(text: str) -> Any:
    """Parse a document. ValueError if it is none."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("too many brackets within brackets") from None


def text_field(row: Any, name: str) -> str:
    """Return a field that is text. ValueError if it is something else, or missing."""
    value = _field(row, name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value


def whole_field(row: Any, name: str, bits: int = 32) -> int:
    """Return a field that is a whole number of so many bits. ValueError if it is something else."""
    return whole(_field(row, name), name, bits)


def whole(value: Any, name: str, bits: int = 32) -> int:
    """Return a whole number of so many bits. ValueError, with `name`, for anything else."""
    limit = 2 ** (bits - 1)
    if isinstance(value, bool) or not isinstance(value, int) or not -limit <= value < limit:
        raise ValueError(f"{name} is no whole number of {bits} bits")
    return value


def list_field(row: Any, name: str) -> list[Any]:
    """Return a field that is a list. ValueError if it is something else, or missing."""
    value = _field(row, name)
    if not isinstance(value, list):
        raise ValueError(f"{name} is no list")
    return value


def _field(row: Any, name: str) -> Any:
    if not isinstance(row, Mapping) or name not in row:
        raise ValueError(f"{name} is missing")
    return row[name]
