"""A message: what a client may write in a line, and its bytes in the spool.

A line is one of

    TOPIC VALUE
    TOPIC:KEY VALUE
    {"topic": "t", "value": "v", "key": "k", "headers": {"h": "x"}, "timestamp_ms": 1,
     "source": "s", "sequence": 7}        (on one line)

In JSON `value` may be a string, null (a tombstone) or any other JSON, which is sent as JSON; `value_base64`
and `key_base64` carry bytes. `source` and `sequence` let a client repeat a message whose answer it has not
seen: in each topic, a source's message whose sequence is not above its last one is a duplicate.

In the spool, big-endian:

    | flags 1 | timestamp_ms 8 | sequence 8 | source length 1 | key length 4 | headers length 4 |
    | source | key | headers (JSON) | value |
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from typing import Any, NamedTuple

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_FIXED = struct.Struct(">BqqBII")
_NO_VALUE, _HAS_KEY = 1, 2
_KNOWN = {
    "topic",
    "value",
    "value_base64",
    "key",
    "key_base64",
    "headers",
    "timestamp_ms",
    "source",
    "sequence",
}


class BadMessage(Exception):
    """What a client sent is no message; the text says what to send."""


class Message(NamedTuple):
    """A message as it was submitted. `source` "": not numbered by its client."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: bytes = b""  # JSON of [[name, value], ...]
    timestamp_ms: int = 0
    source: str = ""
    sequence: int = 0

    def encode(self) -> bytes:
        """The bytes for the spool of its topic."""
        source = self.source.encode()
        flags = (_NO_VALUE if self.value is None else 0) | (_HAS_KEY if self.key is not None else 0)
        key = self.key or b""
        fixed = _FIXED.pack(flags, self.timestamp_ms, self.sequence, len(source), len(key), len(self.headers))
        return b"".join((fixed, source, key, self.headers, self.value or b""))


def decode(topic: str, data: bytes) -> Message:
    """The message that `encode` made these bytes of."""
    flags, timestamp_ms, sequence, source_bytes, key_bytes, headers_bytes = _FIXED.unpack_from(data)
    key_start = _FIXED.size + source_bytes
    headers_start = key_start + key_bytes
    value_start = headers_start + headers_bytes
    return Message(
        topic,
        None if flags & _NO_VALUE else data[value_start:],
        data[key_start:headers_start] if flags & _HAS_KEY else None,
        data[headers_start:value_start],
        timestamp_ms,
        data[_FIXED.size : key_start].decode(),
        sequence,
    )


def source_of(data: bytes) -> tuple[str, int]:
    """Only the source and its sequence of a message in the spool."""
    _, _, sequence, source_bytes, _, _ = _FIXED.unpack_from(data)
    return data[_FIXED.size : _FIXED.size + source_bytes].decode(), sequence


def check_topic(topic: str) -> str:
    """Return the topic's name. Raises BadMessage unless Kafka allows it."""
    if not TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise BadMessage("the topic's name must be letters, digits, . _ -, at most 249 of them")
    return topic


def parse(line: bytes, now_ms: int) -> Message:
    """The message in a line (without its newline). Raises BadMessage."""
    if line[:1] == b"{":
        return _from_json(line, now_ms)
    address, space, value = line.partition(b" ")
    if not space:
        raise BadMessage("write TOPIC VALUE, TOPIC:KEY VALUE or a JSON object")
    topic, colon, key = address.partition(b":")
    return Message(check_topic(topic.decode("latin-1")), value, key if colon else None, timestamp_ms=now_ms)


def _from_json(line: bytes, now_ms: int) -> Message:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise BadMessage("the line begins with { but is no JSON object") from None
    if not isinstance(said, dict):
        raise BadMessage("the line is no JSON object")
    if unknown := sorted(set(said) - _KNOWN):
        raise BadMessage(f"unknown field {unknown[0][:50]!r}: the fields are {', '.join(sorted(_KNOWN))}")
    if not isinstance(said.get("topic"), str):
        raise BadMessage('the field "topic" is missing')
    if "value" not in said and "value_base64" not in said:
        raise BadMessage('the field "value" is missing (null deletes the key in a compacted topic)')
    source, sequence = said.get("source", ""), said.get("sequence", 0)
    if not isinstance(source, str) or len(_utf8(source, "source")) > 255:
        raise BadMessage('"source" must be a string of at most 255 bytes')
    if not _is_int64(sequence) or (bool(source) != ("sequence" in said)):
        raise BadMessage('"source" and "sequence" (an integer) go together')
    timestamp_ms = said.get("timestamp_ms", now_ms)
    if not _is_int64(timestamp_ms) or timestamp_ms < 0:
        raise BadMessage('"timestamp_ms" must be milliseconds since 1970')
    return Message(
        check_topic(said["topic"]),
        _bytes_of(said, "value"),
        _bytes_of(said, "key"),
        _headers(said.get("headers")),
        timestamp_ms,
        source,
        sequence,
    )


def _is_int64(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def _bytes_of(said: dict[str, Any], name: str) -> bytes | None:
    coded = said.get(f"{name}_base64")
    if coded is not None:
        try:
            return base64.b64decode(coded, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise BadMessage(f'"{name}_base64" is no base64') from None
    value = said.get(name)
    if value is None:
        return None
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise BadMessage(f'"{name}" is nested too deeply') from None
    return _utf8(text, name)


def _utf8(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadMessage(f'"{name}" holds half a surrogate pair') from None


def _headers(said: object) -> bytes:
    if said is None:
        return b""
    if not isinstance(said, dict) or not all(isinstance(value, str) for value in said.values()):
        raise BadMessage('"headers" must be an object of strings')
    text = json.dumps(list(said.items()))
    _utf8("".join([*said, *said.values()]), "headers")
    return text.encode()


def headers_of(message: Message) -> list[tuple[str, bytes]]:
    """The headers for a producer."""
    if not message.headers:
        return []
    return [(name, value.encode()) for name, value in json.loads(message.headers)]
