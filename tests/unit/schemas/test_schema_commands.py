"""Options of schemas of consume, produce and Confluent's console tools, without a broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_registry import FakeRegistry, guid_of

from moldau.schemas.wire import pack_guid
from moldau.tools.commands.records.decoding import decoding, require_form
from moldau.tools.commands.records.encoding import Said, encoders
from moldau.tools.commands.records.render import compile_renderer
from moldau.tools.kafka.formats.line_reader import Line
from moldau.tools.kafka.formats.schema_formatters import (
    SchemaFormatter,
    SchemaLineReader,
    class_name,
    language_of,
)
from moldau.tools.kafka.problems import ToolError
from moldau.tools.shared.errors import CommandError, UsageError

SCHEMA = '{"type":"record","name":"A","fields":[{"name":"n","type":"int"}]}'
FIVE = b"\0\0\0\0\1\x0a"
"""{"n": 5} with schema 1."""


class Record:
    """As confluent-kafka gives them."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: Any = None) -> None:
        self._fields = key, value, headers

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 7

    def leader_epoch(self) -> int:
        return 0

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def key(self) -> bytes | None:
        return self._fields[0]

    def value(self) -> bytes | None:
        return self._fields[1]

    def headers(self) -> Any:
        return self._fields[2]


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    made.add("orders-value", SCHEMA)
    yield made
    made.close()


def shown(
    registry: FakeRegistry, record: Record, key: str = "auto", value: str = "auto", **more: bool
) -> bytes:
    conf = {"schema.registry.url": registry.url}
    options = {"with_ids": False, "as_json": False, **more}
    return decoding(compile_renderer("%k|%v"), conf, key, value, **options)(record, 1)


def test_what_names_a_schema_is_decoded(registry: FakeRegistry) -> None:
    assert shown(registry, Record(b"k", FIVE)) == b'k|{"n":5}'
    assert shown(registry, Record(FIVE, None)) == b'{"n":5}|'
    assert shown(registry, Record(b"k", FIVE), value="raw") == b"k|" + FIVE
    assert shown(registry, Record(b"k", FIVE), with_ids=True) == b'k|{"n":5}\t1'
    by_guid = Record(None, FIVE[5:], [("__value_schema_id", pack_guid(guid_of(1)))])
    assert shown(registry, by_guid, with_ids=True) == b'|{"n":5}\t' + guid_of(1).encode()


def test_json_output_has_the_value_itself(registry: FakeRegistry) -> None:
    row = json.loads(shown(registry, Record(b"k", FIVE), as_json=True))
    assert (row["key"], row["value"], row["value_schema"]) == ("k", {"n": 5}, 1)
    assert "key_schema" not in row
    assert row["offset"] == 7


@pytest.mark.parametrize(
    ("record", "key", "value", "reason"),
    [
        (Record(None, b"plain"), "auto", "avro", "the value cannot be decoded: it begins with byte 112"),
        (Record(b"plain", None), "avro", "auto", "--key-format raw"),
        (Record(None, FIVE), "auto", "protobuf", "schema 1 is AVRO, not protobuf"),
        (Record(None, b"\0\0\0\0\x09\0"), "auto", "auto", "Schema not found"),
        (Record(None, FIVE + b"\0"), "auto", "auto", r"orders\[3\] at offset 7: .* left behind"),
    ],
)
def test_what_cannot_be_decoded_is_told(
    registry: FakeRegistry, record: Record, key: str, value: str, reason: str
) -> None:
    with pytest.raises(CommandError, match=reason):
        shown(registry, record, key, value)


def encode(registry: FakeRegistry, key: Said, value: Said, message: str = "") -> Any:
    conf = {"schema.registry.url": registry.url}
    return encoders(conf, "orders", key, value, None, message, "topic", True)


NOTHING = Said(None, None, None, None)


def test_the_schema_is_chosen_by_what_is_said(registry: FakeRegistry, tmp_path: Path) -> None:
    key, value = encode(registry, NOTHING, NOTHING)
    assert key is None
    assert value(b'{"n": 5}') == FIVE
    file = tmp_path / "a.avsc"
    file.write_text('"string"')
    key, value = encode(registry, Said(None, None, file, None), Said("avro", None, None, 1))
    assert key(b'"x"') == b"\0\0\0\0\2\2x"
    assert value(b'{"n": 5}') == FIVE
    assert registry.subjects["orders-key"] == [2]


def test_messages_of_a_file_are_chosen_by_name(registry: FakeRegistry) -> None:
    text = 'syntax = "proto3"; message A { message B { int32 n = 1; } } message C { int32 n = 1; }'
    for message, indexes in (("", b"\0"), ("A.B", b"\4\0\0"), ("C", b"\2\2")):
        _, value = encode(registry, NOTHING, Said("protobuf", text, None, None), message)
        assert value(b"{}") == b"\0\0\0\0\2" + indexes
    with pytest.raises(CommandError, match="no message D"):
        encode(registry, NOTHING, Said("protobuf", text, None, None), "D")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (Said("xml", None, None, None), "xml is not known"),
        (Said(None, "{}", None, None), "say the language"),
        (Said("avro", "{}", None, 1), "give one of"),
        (Said(None, None, Path("/no/such/file.avsc"), None), "cannot be read"),
    ],
)
def test_wrong_options_are_told(registry: FakeRegistry, value: Said, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        encode(registry, NOTHING, value)
    with pytest.raises(UsageError, match="is not known"):
        require_form("xml", "--key-format")


def test_a_schema_of_another_language_is_told(registry: FakeRegistry) -> None:
    with pytest.raises(CommandError, match="schema 1 is AVRO, not protobuf"):
        encode(registry, NOTHING, Said("protobuf", None, None, 1))


def test_values_that_are_no_json_are_told(registry: FakeRegistry) -> None:
    _, value = encode(registry, NOTHING, NOTHING)
    with pytest.raises(CommandError, match=r"the value '\{' is no JSON"):
        value(b"{")
    with pytest.raises(CommandError, match="cannot be written: n: an int is expected"):
        value(b'{"n": "x"}')


def test_names_of_confluents_classes() -> None:
    for kind in ("Formatter", "Reader"):
        for language in ("avro", "json-schema", "protobuf"):
            assert language_of(class_name(language, kind), kind) == language
    assert language_of("org.example.AvroMessageFormatter", "Formatter") is None
    assert language_of("io.confluent.kafka.formatter.AvroMessageReader", "Formatter") is None


def test_confluents_formatter_prints_its_columns(registry: FakeRegistry) -> None:
    everything = {
        "schema.registry.url": registry.url,
        "print.timestamp": "true",
        "print.partition": "true",
        "print.offset": "true",
        "print.headers": "true",
        "print.key": "true",
        "print.schema.ids": "true",
        "key.separator": "|",
        "schema.id.separator": "#",
    }
    form = SchemaFormatter("avro", everything)
    assert form(Record(FIVE, FIVE, [("a", b"b")])) == (
        b'CreateTime:1700000000000|Partition:3|Offset:7|a:b|{"n":5}#1|{"n":5}#1\n'
    )
    plain = {"schema.registry.url": registry.url}
    assert SchemaFormatter("avro", plain)(Record(None, None)) == b"null\n"
    for language, record in (("protobuf", Record(None, FIVE)), ("avro", Record(None, b"x"))):
        with pytest.raises(ToolError, match="Error deserializing the value"):
            SchemaFormatter(language, plain)(record)


def test_confluents_reader_takes_keys_with_and_without_a_schema(registry: FakeRegistry) -> None:
    base = {"schema.registry.url": registry.url, "value.schema": SCHEMA, "parse.key": "true"}
    plain = SchemaLineReader("avro", "orders", {**base, "key.serializer": "x.IntegerSerializer"})
    assert plain.parse(b'7\t{"n": 5}') == Line(b"\0\0\0\7", FIVE, [])
    with pytest.raises(ToolError, match="For input string"):
        plain.parse(b'x\t{"n": 5}')
    with pytest.raises(ToolError, match="Must provide the key schema"):
        SchemaLineReader("avro", "orders", base)
    coded = SchemaLineReader("avro", "orders", {**base, "key.schema": '"string"'})
    assert coded.parse(b'"k"\t{"n": 5}').key == b"\0\0\0\0\2\2k"
    with pytest.raises(ToolError, match="Java classes"):
        SchemaLineReader("avro", "orders", {**base, "key.serializer": "org.example.Mine"})
    with pytest.raises(ToolError, match="as int"):
        SchemaLineReader("avro", "orders", {**base, "value.schema.id": "x", "key.schema": '"string"'})
    by_id = SchemaLineReader("avro", "orders", {"schema.registry.url": registry.url, "value.schema.id": "1"})
    assert by_id.parse(b'{"n": 5}').value == FIVE
