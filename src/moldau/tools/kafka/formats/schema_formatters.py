"""Confluent's formatters and readers of the console tools: records by a schema registry, as lines of JSON.

    kafka-avro-console-consumer           io.confluent.kafka.formatter.AvroMessageFormatter
    kafka-json-schema-console-consumer    io.confluent.kafka.formatter.json.JsonSchemaMessageFormatter
    kafka-protobuf-console-consumer       io.confluent.kafka.formatter.protobuf.ProtobufMessageFormatter
    kafka-*-console-producer              ...MessageReader in place of Formatter

Their properties: schema.registry.url and the registry's other settings; print.timestamp, .partition, .offset,
.headers, .key, .schema.ids, and the separators; value.schema, value.schema.file, value.schema.id, value.refs
and the same for keys; key.serializer, key.deserializer for keys without a schema; auto.register.schemas,
normalize.schemas, value.subject.name.strategy.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from moldau.common.core.message_headers import message_headers
from moldau.tools.kafka.formats.line_reader import Line, LineReader
from moldau.tools.kafka.formats.message_formatters import deserializer
from moldau.tools.kafka.problems import ToolError
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.schema_coding import (
    SchemaChoice,
    encoder,
    json_bytes,
    open_registry,
    record_reader,
    record_writer,
    require_language,
    told_plainly,
)

_LANGUAGES = {"Avro": "avro", "JsonSchema": "json-schema", "Protobuf": "protobuf"}
DEFAULT_URL = "http://localhost:8081"
"""Where Confluent's scripts look for a registry."""

_TIMESTAMPS = {1: b"CreateTime:", 2: b"LogAppendTime:"}
_NUMBERS = {"Long": ">q", "Integer": ">i", "Short": ">h"}


def language_of(name: str, kind: str) -> str | None:
    """The language of Confluent's Formatter or Reader (`kind`) of a name; None for other names."""
    bare = name.rpartition(".")[2]
    if not name.startswith("io.confluent.") or not bare.endswith(f"Message{kind}"):
        return None
    return _LANGUAGES.get(bare.removesuffix(f"Message{kind}"))


def class_name(language: str, kind: str) -> str:
    """The name of Confluent's class, as their scripts pass it on."""
    word = next(word for word, each in _LANGUAGES.items() if each == language)
    package = {"avro": "", "json-schema": "json.", "protobuf": "protobuf."}[language]
    return f"io.confluent.kafka.formatter.{package}{word}Message{kind}"


def _registry_conf(properties: Mapping[str, str]) -> dict[str, str]:
    return {"schema.registry.url": DEFAULT_URL, **properties}


def _is_true(properties: Mapping[str, str], name: str, default: str = "false") -> bool:
    return properties.get(name, default).strip().lower() == "true"


class SchemaFormatter:
    """Prints [timestamp][partition][offset][headers][key] value, decoded."""

    def __init__(self, language: str, properties: Mapping[str, str]) -> None:
        """ToolError if the properties are wrong."""
        self._language = language
        self._shown = {
            name: _is_true(properties, f"print.{name}")
            for name in ("timestamp", "partition", "offset", "headers", "key", "schema.ids")
        }
        self._between, self._end, self._headers_between, self._id = (
            properties.get(name, default).encode()
            for name, default in (
                ("key.separator", "\t"),
                ("line.separator", "\n"),
                ("headers.separator", "\n"),
                ("schema.id.separator", "\t"),
            )
        )
        named = properties.get("key.deserializer", "")
        self._key = deserializer(named) if named else None
        self._header = deserializer(properties.get("headers.deserializer", ""))
        try:
            self._reader = record_reader(open_registry(_registry_conf(properties)))
        except CommandError as problem:
            raise ToolError(str(problem)) from None

    def __call__(self, message: Any) -> bytes:
        """Format one record. ToolError if it cannot be decoded."""
        columns: list[bytes] = []
        shown = self._shown
        if shown["timestamp"]:
            kind, when_ms = message.timestamp()
            columns.append(_TIMESTAMPS[kind] + b"%d" % when_ms if kind in _TIMESTAMPS else b"NO_TIMESTAMP")
        if shown["partition"]:
            columns.append(b"Partition:%d" % message.partition())
        if shown["offset"]:
            columns.append(b"Offset:%d" % message.offset())
        headers: Sequence[tuple[str, bytes | None]] = message_headers(message)
        if shown["headers"]:
            columns.append(
                self._headers_between.join(
                    name.encode() + b":" + (b"null" if value is None else self._header(value))
                    for name, value in headers
                )
                or b"NO_HEADERS"
            )
        if shown["key"]:
            key = message.key()
            if self._key is not None:
                columns.append(b"null" if key is None else self._key(key))
            else:
                columns.append(self._text(key, headers, is_key=True))
        columns.append(self._text(message.value(), headers, is_key=False))
        return self._between.join(columns) + self._end

    def _text(
        self, data: bytes | None, headers: Sequence[tuple[str, bytes | None]], *, is_key: bool
    ) -> bytes:
        if data is None:
            return b"null"
        what = f"Error deserializing the {'key' if is_key else 'value'}: "
        try:
            with told_plainly(what):
                found = self._reader.read(data, is_key, headers)
                require_language(found, self._language)
        except CommandError as problem:
            raise ToolError(str(problem)) from None
        text = json_bytes(found.value)
        return text + self._id + str(found.schema).encode() if self._shown["schema.ids"] else text


class SchemaLineReader:
    """Reads lines as kafka-console-producer does, and encodes their keys and values."""

    def __init__(self, language: str, topic: str, properties: Mapping[str, str]) -> None:
        """CommandError, ToolError if the properties are wrong or the registry refuses a schema."""
        self._lines = LineReader(properties)
        client = open_registry(_registry_conf(properties))
        choice = _choice(language, "value", properties)
        self._value = encoder(record_writer(client, topic, False, choice), "the value")
        self._key: Callable[[bytes], bytes] = lambda key: key
        named = properties.get("key.serializer", "")
        if named:
            self._key = _serializer(named)
        elif _is_true(properties, "parse.key"):
            choice = _choice(language, "key", properties)
            self._key = encoder(record_writer(client, topic, True, choice), "the key")

    def parse(self, line: bytes) -> Line:
        """Return a line's record. ToolError, CommandError."""
        read = self._lines.parse(line)
        key = None if read.key is None else self._key(read.key)
        return Line(key, None if read.value is None else self._value(read.value), read.headers)


def _choice(language: str, part: str, properties: Mapping[str, str]) -> SchemaChoice:
    number = properties.get(f"{part}.schema.id")
    text = properties.get(f"{part}.schema")
    path = properties.get(f"{part}.schema.file")
    if number is not None and not number.strip().isdigit():
        raise ToolError(f"Error parsing {part}.schema.id as int: {number}")
    if number is None and text is None and path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise ToolError(f"Error reading schema from {path}") from None
    if number is None and text is None and not _is_true(properties, "use.latest.version"):
        raise ToolError(
            f"Must provide the {part} schema in either {part}.schema, {part}.schema.id, or {part}.schema.file"
        )
    try:
        references = [
            (each["name"], each["subject"], int(each["version"]))
            for each in json.loads(properties.get(f"{part}.refs", "[]"))
        ]
    except (ValueError, KeyError, TypeError):
        raise ToolError(f'{part}.refs is not [{{"name": ..., "subject": ..., "version": ...}}]') from None
    return SchemaChoice(
        language,
        text if number is None else None,
        None if number is None else int(number),
        references,
        strategy=properties.get(f"{part}.subject.name.strategy", "topic"),
        register=_is_true(properties, "auto.register.schemas", "true"),
        normalize=_is_true(properties, "normalize.schemas"),
    )


def _serializer(name: str) -> Callable[[bytes], bytes]:
    bare = name.rpartition(".")[2].removesuffix("Serializer")
    if bare in ("String", "ByteArray", "Bytes"):
        return lambda text: text
    if bare not in _NUMBERS:
        raise ToolError(f"{name}\nJava classes cannot be loaded here: Kafka's own serializers are known")
    layout = struct.Struct(_NUMBERS[bare])

    def number(text: bytes) -> bytes:
        try:
            return layout.pack(int(text))
        except (ValueError, struct.error):
            raise ToolError(f'For input string: "{text.decode(errors="replace")}"') from None

    return number
