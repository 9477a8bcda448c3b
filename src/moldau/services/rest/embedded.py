"""Keys and values inside the JSON of requests and responses: the embedded formats.

    binary       base64 text
    json         any JSON value; the record holds its text
    string       text; the record holds UTF-8 (v3)
    avro, jsonschema, protobuf    a JSON value by a schema of the registry, whose id begins the record

null is a record without key, or without value (a tombstone), in every format. Coding by a schema is work for
a thread; binary, json and string are quick. Which schema is meant: schema_choice.py.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

import orjson

from moldau.common.core.compact_json import compact_json
from moldau.schemas.schema import JsonValue, SchemaType

if TYPE_CHECKING:
    from moldau.schemas.serde.records import Headers, RecordReader

SHOWN_CHARACTERS_MAX = 80


class BadData(ValueError):
    """A key or value is not of its format; the message is a sentence."""


class Format(StrEnum):
    """The embedded formats, as v2 spells them; v3 writes them in capitals."""

    BINARY = "binary"
    JSON = "json"
    STRING = "string"
    AVRO = "avro"
    JSONSCHEMA = "jsonschema"
    PROTOBUF = "protobuf"

    @property
    def schema_type(self) -> SchemaType | None:
        """The language of its schemas; None for a format without."""
        return _SCHEMA_TYPES.get(self)


_SCHEMA_TYPES = {
    Format.AVRO: SchemaType.AVRO,
    Format.JSONSCHEMA: SchemaType.JSON,
    Format.PROTOBUF: SchemaType.PROTOBUF,
}


def format_of(schema_type: SchemaType) -> Format:
    """The format of values that are coded by a schema of this language."""
    return next(each for each, language in _SCHEMA_TYPES.items() if language is schema_type)


def to_bytes(wanted: Format, data: JsonValue) -> bytes | None:
    """The bytes of a key or value in a format without a schema. BadData."""
    if data is None:
        return None
    if wanted is Format.BINARY:
        return _from_base64(data)
    if wanted is Format.JSON:
        try:
            return compact_json(data)
        except TypeError:  # an integer beyond 64 bits, a lone surrogate
            return json.dumps(data, ensure_ascii=True, separators=(",", ":")).encode()
    if wanted is Format.STRING:
        if not isinstance(data, str):
            raise BadData(f"data={shown(data)} is not a string.")
        return data.encode("utf-8", "surrogatepass")
    raise ValueError(wanted)


def _from_base64(data: JsonValue) -> bytes:
    if not isinstance(data, str):
        raise BadData(f"data={shown(data)} is not a base64 string.")
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except (ValueError, UnicodeEncodeError):
        pass
    try:  # Java's decoder also takes text whose padding was left out.
        return binascii.a2b_base64(data + "=" * (-len(data) % 4), strict_mode=True)
    except (ValueError, UnicodeEncodeError):
        raise BadData(f"data={shown(data)} is not a valid base64 string.") from None


def to_json_text(wanted: Format, data: bytes | None) -> bytes:
    """A key or value in a format without a schema, as JSON text that can stand in a response. BadData."""
    if data is None:
        return b"null"
    if wanted is Format.BINARY:
        return b'"' + binascii.b2a_base64(data, newline=False) + b'"'
    if wanted is Format.JSON:
        try:
            orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise BadData(f"it is not JSON: {error}") from None
        return data
    if wanted is Format.STRING:
        return compact_json(data.decode("utf-8", "replace"))
    raise ValueError(wanted)


def schema_json_text(
    wanted: Format, reader: RecordReader, data: bytes | None, is_key: bool, headers: Headers | None
) -> bytes:
    """A key or value in a format with schemas, as JSON text. BadData, RegistryError. For a thread."""
    from moldau.schemas.serde import SerdeError

    if data is None:
        return b"null"
    try:
        decoded = reader.read(data, is_key, headers)
    except SerdeError as problem:
        raise BadData(str(problem)) from None
    written_with = decoded.parsed.schema_type
    if written_with is not wanted.schema_type:
        raise BadData(f"it was written with a schema of type {written_with}, and not {wanted.schema_type}")
    return json_text(decoded.value)


def json_text(value: JsonValue) -> bytes:
    """JSON text of a value."""
    try:
        return compact_json(value)
    except TypeError:  # an integer beyond 64 bits, a lone surrogate
        return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def shown(data: JsonValue) -> str:
    """A value of a request as a message names it."""
    text = ""
    for piece in _texts_of(data):
        text += piece
        if len(text) > SHOWN_CHARACTERS_MAX:
            break
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[: SHOWN_CHARACTERS_MAX - 3] + "..."


def _texts_of(data: JsonValue) -> Iterator[str]:
    """JSON text of a value, from its beginning: of a large one nobody wants the rest."""
    if isinstance(data, str):
        yield json.dumps(data[: SHOWN_CHARACTERS_MAX + 1], ensure_ascii=False)
    elif isinstance(data, list):
        for index, each in enumerate(data):
            yield ", " if index else "["
            yield from _texts_of(each)
        yield "]" if data else "[]"
    elif isinstance(data, dict):
        for index, (name, each) in enumerate(data.items()):
            yield ", " if index else "{"
            yield from _texts_of(name)
            yield ": "
            yield from _texts_of(each)
        yield "}" if data else "{}"
    else:
        yield json.dumps(data)
