"""What a tap says (Singer specification): one JSON object a line.

{"type":"SCHEMA","stream":"users","schema":{…},"key_properties":["id"]}
{"type":"RECORD","stream":"users","record":{"id":1}}
{"type":"STATE","value":{"bookmarks":{"users":17}}}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson


class NotSinger(ValueError):
    """A line that no tap should write."""


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """A stream's, before its first record."""

    stream: str
    key_properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """One record."""

    stream: str
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class State:
    """Everything before it may be forgotten once it is kept."""

    value: Any


def message_of(line: bytes) -> StreamSchema | StreamRecord | State | None:
    """What a line says; None: nothing that counts here (ACTIVATE_VERSION, BATCH's kin, blank lines).
    NotSinger."""
    if not line.strip():
        return None
    try:
        message = orjson.loads(line)
        kind = message["type"]
        if kind == "RECORD":
            record = message["record"]
            if not isinstance(record, dict):
                raise TypeError("record")
            return StreamRecord(str(message["stream"]), record)
        if kind == "STATE":
            return State(message["value"])
        if kind == "SCHEMA":
            return StreamSchema(str(message["stream"]), tuple(message.get("key_properties") or ()))
    except (ValueError, KeyError, TypeError) as problem:
        shown = line[:200].decode("utf-8", "replace").strip()
        raise NotSinger(f"a line that is no message of Singer ({problem!r}): {shown}") from None
    if kind == "BATCH":
        raise NotSinger("the tap writes files of records (BATCH), which is not read here: switch that off")
    return None
