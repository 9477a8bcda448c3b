"""Prints consumed records by a `-f` template, or as one JSON object a line.

A template is compiled once to a list of functions from a record to bytes: one call a field and record. Values
stay bytes: `%v` writes exactly what was produced.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from moldau.common.core.message_headers import message_headers
from moldau.tools.commands.records.number_formats import NUMBER_FORMS, render_number
from moldau.tools.commands.records.template import Field, Part, bracketed, parse_template
from moldau.tools.shared.errors import UsageError


class ConsumedRecord(Protocol):
    """The part of confluent-kafka's Message that is printed."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def key(self) -> Any: ...
    def value(self) -> Any: ...
    def headers(self) -> Any: ...
    def timestamp(self) -> tuple[int, int]: ...
    def leader_epoch(self) -> int | None: ...


Renderer = Callable[[ConsumedRecord, int], bytes]
"""Formats a record; the second argument counts the records, from 1."""


def compile_renderer(template: str) -> Renderer:
    """Compile a template. Raises UsageError."""
    pieces = [_piece(part) for part in parse_template(template)]

    def render(record: ConsumedRecord, count: int) -> bytes:
        return b"".join([piece(record, count) for piece in pieces])

    return render


def _piece(part: Part) -> Renderer:
    if isinstance(part, bytes):
        return lambda record, count: part
    letter, modifier = part.letter, part.modifier
    if letter in _TEXTS:
        text_of, convert = _TEXTS[letter], text_converter(modifier)
        return lambda record, count: convert(text_of(record))
    if letter == "h":
        return _headers(part)
    if letter == "d" and (written := _timestamp(modifier)) is not None:
        return written
    if letter == "a":
        attribute, _, modifier = modifier.partition(";")
        if attribute != "timestamp-type":
            raise UsageError(
                f"%a{{{attribute}}} cannot be printed: the client library tells only %a{{timestamp-type}}; "
                "see the batches themselves with `moldau dump-log`"
            )
    if modifier not in (*NUMBER_FORMS, ""):
        raise UsageError(f"%{letter}{{{modifier}}} is not known: a number takes {', '.join(NUMBER_FORMS)}")
    number_of = _NUMBERS[letter]
    return lambda record, count: render_number(number_of(record, count), modifier)


_TEXTS: dict[str, Callable[[ConsumedRecord], bytes]] = {
    "t": lambda record: (record.topic() or "").encode(),
    "k": lambda record: record.key() or b"",
    "v": lambda record: record.value() or b"",
}

_NUMBERS: dict[str, Callable[[ConsumedRecord, int], int]] = {
    "T": lambda record, count: len((record.topic() or "").encode()),
    "K": lambda record, count: len(record.key() or b""),
    "V": lambda record, count: len(record.value() or b""),
    "H": lambda record, count: len(message_headers(record)),
    "p": lambda record, count: record.partition() or 0,
    "o": lambda record, count: record.offset() or 0,
    "e": lambda record, count: -1 if (epoch := record.leader_epoch()) is None else epoch,
    "d": lambda record, count: record.timestamp()[1],
    "i": lambda record, count: count,
    # librdkafka counts the types from 1 (0: no timestamp); the batch has them from 0.
    "a": lambda record, count: record.timestamp()[0] - 1,
}


def text_converter(modifier: str) -> Callable[[bytes], bytes]:
    """Return the function of %v{modifier}, which converts bytes for printing."""
    if not modifier:
        return lambda data: data
    simple: dict[str, Callable[[bytes], bytes]] = {
        "hex": lambda data: data.hex().encode(),
        "base64": base64.b64encode,
        "base64raw": lambda data: base64.b64encode(data).rstrip(b"="),
        "json": _compact_json,
        "quote": lambda data: json.dumps(data.decode("utf-8", "replace")).encode(),
    }
    if modifier in simple:
        return simple[modifier]
    codes = bracketed(modifier, "unpack")
    if codes is not None:
        return lambda data: unpack_text(codes, data)
    raise UsageError(f"{{{modifier}}} is not known: text takes {', '.join(simple)} or unpack[...]")


def _compact_json(data: bytes) -> bytes:
    """Write JSON on one line; leave what is not JSON unchanged."""
    try:
        return json.dumps(json.loads(data), separators=(",", ":"), ensure_ascii=False).encode()
    except ValueError:
        return data


def unpack_text(codes: str, data: bytes) -> bytes:
    """Show binary data by format letters.

    < > byte order, b B h H i I q Q numbers, c or . a byte, s the rest, $ the end.
    """
    order, position, shown = ">", 0, []
    for code in codes:
        if code in "<>":
            order = code
        elif code == "x":
            shown.append(b" ")
        elif code == "s":
            shown.append(data[position:])
            position = len(data)
        elif code == "$":
            if position < len(data):
                shown.append(b" (%d bytes left)" % (len(data) - position))
        elif code in "c.":
            shown.append(data[position : position + 1])
            position += 1
        elif code in "bBhHiIqQ":
            size = struct.calcsize(order + code)
            if position + size > len(data):
                return b"".join(shown) + b" (%d bytes short)" % (position + size - len(data))
            shown.append(b"%d" % struct.unpack_from(order + code, data, position)[0])
            position += size
        else:
            raise UsageError(f"unpack[{codes}] has {code!r}: known are < > x b B h H i I q Q c . s $")
    return b"".join(shown)


def _timestamp(modifier: str) -> Renderer | None:
    if modifier.startswith("go["):
        raise UsageError("%d{go[...]} is not known here: use %d{strftime[%F %T]} or %d{iso}")
    pattern = "%Y-%m-%dT%H:%M:%S.%fZ" if modifier == "iso" else bracketed(modifier, "strftime")
    if pattern is None:
        return None
    return lambda record, count: as_datetime(record.timestamp()[1]).strftime(pattern).encode()


def as_datetime(timestamp_ms: int) -> datetime:
    """Return a timestamp in UTC; 1970-01-01 for a missing one."""
    return datetime.fromtimestamp(max(timestamp_ms, 0) / 1000, UTC)


def _headers(part: Field) -> Renderer:
    pieces = [_header_piece(inner) for inner in part.header]

    def render(record: ConsumedRecord, count: int) -> bytes:
        return b"".join(
            piece(name, value or b"") for name, value in message_headers(record) for piece in pieces
        )

    return render


def _header_piece(part: Part) -> Callable[[str, bytes], bytes]:
    if isinstance(part, bytes):
        return lambda name, value: part
    if part.letter in "kv":
        convert = text_converter(part.modifier)
        return (
            (lambda name, value: convert(name.encode()))
            if part.letter == "k"
            else lambda name, value: convert(value)
        )
    form = part.modifier
    if form not in (*NUMBER_FORMS, ""):
        raise UsageError(f"%{part.letter}{{{form}}} is not known: a number takes {', '.join(NUMBER_FORMS)}")
    if part.letter == "K":
        return lambda name, value: render_number(len(name.encode()), form)
    return lambda name, value: render_number(len(value), form)


def render_json(record: ConsumedRecord, count: int) -> bytes:
    """Return a record as one line of JSON; bytes that are not UTF-8 become {"base64": "..."}."""
    return json.dumps(json_fields(record), ensure_ascii=False).encode() + b"\n"


def json_fields(record: ConsumedRecord) -> dict[str, Any]:
    """Return what --json prints of a record."""
    kind, timestamp_ms = record.timestamp()
    headers: Sequence[tuple[str, bytes | None]] = message_headers(record)
    return {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": timestamp_ms,
        "timestamp_type": {1: "create", 2: "append"}.get(kind, "none"),
        "leader_epoch": record.leader_epoch(),
        "key": _json_text(record.key()),
        "value": _json_text(record.value()),
        "headers": [{"key": name, "value": _json_text(value)} for name, value in headers],
    }


def _json_text(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
