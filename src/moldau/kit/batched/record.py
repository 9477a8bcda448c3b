"""What a function may return, as a record; and a record's bytes in a spool.

bytes and str are values; a `Record` has a key and headers, too; None is nothing to send; a list has any of
these, one record each; everything else is sent as JSON.

In the spool: | flags 1 | key length 4 | headers length 4 | key | headers (JSON) | value |
"""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

from moldau.kit.sending import Outgoing

_FIXED = struct.Struct(">BII")
_NO_VALUE, _HAS_KEY = 1, 2


class Record(NamedTuple):
    """A record to send. `value` None deletes the key in a compacted topic."""

    value: Any
    key: bytes | str | None = None
    headers: tuple[tuple[str, str], ...] = ()


def records_of(topic: str, returned: object) -> list[Outgoing]:
    """The records of what a function returned. Raises TypeError, ValueError for what is none."""
    if returned is None:
        return []
    if isinstance(returned, list):
        return [record for each in returned for record in records_of(topic, each)]
    if isinstance(returned, Record):
        key = returned.key.encode() if isinstance(returned.key, str) else returned.key
        if key is not None and not isinstance(key, bytes):
            raise TypeError(f"the key {key!r} is neither bytes nor a string")
        headers = tuple(_header(*header) for header in returned.headers)
        value = None if returned.value is None else _bytes_of(returned.value)
        return [Outgoing(topic, value, key, headers)]
    return [Outgoing(topic, _bytes_of(returned))]


def _header(name: object, value: object) -> tuple[str, bytes]:
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"the header {name!r}: {value!r} is no pair of strings")
    name.encode()  # half a surrogate pair raises here, not later in the sender
    return name, value.encode()


def _bytes_of(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, ensure_ascii=False).encode()


def encode(record: Outgoing) -> bytes:
    """A record's bytes in the spool; its topic is the spool's."""
    flags = (_NO_VALUE if record.value is None else 0) | (_HAS_KEY if record.key is not None else 0)
    key = record.key or b""
    headers = b""
    if record.headers:
        headers = json.dumps([(name, (value or b"").decode()) for name, value in record.headers]).encode()
    return b"".join((_FIXED.pack(flags, len(key), len(headers)), key, headers, record.value or b""))


def decode(topic: str, data: bytes, identity: str) -> Outgoing:
    """The record that `encode` made these bytes of; `identity` goes into the header `moldau-id`."""
    flags, key_bytes, headers_bytes = _FIXED.unpack_from(data)
    headers_start = _FIXED.size + key_bytes
    value_start = headers_start + headers_bytes
    headers = json.loads(data[headers_start:value_start]) if headers_bytes else []
    return Outgoing(
        topic,
        None if flags & _NO_VALUE else data[value_start:],
        data[_FIXED.size : headers_start] if flags & _HAS_KEY else None,
        (*((name, value.encode()) for name, value in headers), ("moldau-id", identity.encode())),
    )
