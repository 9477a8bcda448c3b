"""How keys and values of a table become bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Codec(NamedTuple):
    """Both directions; errors are ValueError or TypeError."""

    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _from_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no string")
    return value.encode()


def _from_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r} is not bytes")
    return value


def _from_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()


TEXT = Codec("text", _from_text, bytes.decode)
BYTES = Codec("bytes", _from_bytes, bytes)
JSON = Codec("JSON", _from_json, json.loads)
