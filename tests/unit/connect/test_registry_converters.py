"""Avro, JSON Schema and Protobuf by a registry: both ways, beside fastavro, and what goes wrong."""

from __future__ import annotations

import datetime
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from moldau.connect import ConnectError, Field, Retriable, Schema, Type, batch_of
from moldau.connect.batch import Column
from moldau.connect.converters.registry.avro_schema import AvroText, schema_of_avro
from moldau.connect.converters.registry.converters import (
    AvroConverter,
    JsonSchemaConverter,
    ProtobufConverter,
)
from moldau.connect.schema import (
    DATE,
    PRECISION,
    TIME,
    TIMESTAMP,
    array_schema,
    decimal_schema,
    logical_schema,
    map_schema,
    struct_schema,
)
from moldau.connect.values import column_of, python_values
from moldau.schemas.avro.parsed import AvroSchema
from moldau.schemas.languages import parse
from moldau.schemas.schema import SchemaText, SchemaType

sys.path.insert(0, str(Path(__file__).parents[1] / "schemas"))
from fake_registry import FakeRegistry

STRING = Schema(Type.STRING, True)
EVERYTHING = struct_schema(
    {
        "tiny": Schema(Type.INT8),
        "small": Schema(Type.INT16, True),
        "whole": Schema(Type.INT32, True, default=7),
        "long": Schema(Type.INT64, True),
        "single": Schema(Type.FLOAT32, True),
        "double": Schema(Type.FLOAT64, True),
        "flag": Schema(Type.BOOLEAN, True),
        "text": replace(STRING, doc="a text"),
        "bytes": Schema(Type.BYTES, True),
        "price": decimal_schema(2, True),
        "narrow": decimal_schema(2, True, 10),
        "day": logical_schema(DATE, True),
        "clock": logical_schema(TIME, True),
        "at": logical_schema(TIMESTAMP, True),
        "tags": array_schema(STRING, True),
        "counts": map_schema(Schema(Type.STRING), Schema(Type.INT64, True), True),
        "numbers": map_schema(Schema(Type.INT32), STRING, True),
        "inner": struct_schema({"x": logical_schema(DATE, True)}, optional=True),
        "other": struct_schema({"y": Schema(Type.INT8)}, "shop.Other", True),
    },
    "shop.Order",
    version=2,
)
FULL = {
    "tiny": -3, "small": 300, "whole": 70000, "long": 2**40, "single": 1.5, "double": 0.1, "flag": True,
    "text": "aé",
    "bytes": b"\x00\xff", "price": Decimal("-12345678901234567890.50"), "narrow": Decimal("1.25"),
    "day": datetime.date(2026, 1, 2), "clock": datetime.time(3, 4, 5, 6000),
    "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, datetime.UTC), "tags": ["a", None],
    "counts": {"k": 1, "n": None},
    "numbers": {1: "one", 2: None}, "inner": {"x": datetime.date(1969, 1, 1)}, "other": {"y": 1},
}  # fmt: skip
BARE = {**dict.fromkeys(FULL), "tiny": 1, "whole": 7}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


def converter(kind: Any, registry: FakeRegistry, is_key: bool = False, **settings: Any) -> Any:
    made = kind()
    named = {name.replace("_", "."): value for name, value in settings.items()}
    made.configure({"schema.registry.url": [registry.url], **named}, is_key)
    return made


def read_all(made: Any, payloads: pa.Array) -> list[Any]:
    runs, refused = made.to_columns("t", payloads)
    assert refused == []
    return [value for run in runs for value in python_values(run.column)]


def test_avro_both_ways(registry: FakeRegistry) -> None:
    made = converter(AvroConverter, registry)
    batch = batch_of("t", [FULL, None, BARE], EVERYTHING)
    payloads, refused = made.to_payloads("t", batch.value)
    assert refused == []
    assert payloads[1].as_py() is None
    runs, refused = made.to_columns("t", payloads)
    assert refused == []
    assert python_values(runs[0].column) == [FULL, None, BARE]
    assert runs[0].column.schema == EVERYTHING
    assert list(registry.subjects) == ["t-value"]
    assert [len(each.to_payloads("t", batch.value)[0]) for each in [made]] == [3]
    assert len(registry.schemas) == 1
    text = json.loads(registry.schemas[0]["schema"])
    assert (text["namespace"], text["name"], text["connect.version"]) == ("shop", "Order", 2)
    price = next(each["type"] for each in text["fields"] if each["name"] == "price")
    assert price == [
        "null",
        {
            "type": "bytes",
            "scale": 2,
            "precision": 64,
            "connect.version": 1,
            "connect.parameters": {"scale": "2"},
            "connect.name": "org.apache.kafka.connect.data.Decimal",
            "logicalType": "decimal",
        },
    ]


def test_avro_bytes_are_fastavros(registry: FakeRegistry) -> None:
    made = converter(AvroConverter, registry)
    payloads, _ = made.to_payloads("t", column_of(EVERYTHING, [FULL]))
    schema = fastavro.parse_schema(json.loads(registry.schemas[0]["schema"]))
    read: Any = fastavro.schemaless_reader(io.BytesIO(payloads[0].as_py()[5:]), schema, None)
    numbers = read.pop("numbers")
    assert {each["key"]: each["value"] for each in numbers} == FULL["numbers"]
    assert read == {name: value for name, value in FULL.items() if name != "numbers"}


INNER = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
COLOR = {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}
UNIONS = {
    "type": "record", "name": "U", "namespace": "n", "fields": [
        {"name": "u", "type": ["null", "string", {**INNER}]},
        {"name": "e", "type": {**COLOR}, "default": "RED"},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "micros", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "d", "type": "double", "default": 1.5, "doc": "what it is"},
    ],
}  # fmt: skip


def test_avro_unions_enums_and_fixed(registry: FakeRegistry) -> None:
    schema_id = registry.add("t-value", json.dumps(UNIONS))
    parsed = fastavro.parse_schema(UNIONS)
    rows = [
        {"u": "x", "e": "BLUE", "f": b"ab", "micros": 5, "d": 2.0},
        {"u": {"a": 1}, "e": "RED", "f": b"cd", "micros": 6, "d": 3.0},
        {"u": None, "e": "RED", "f": b"cd", "micros": 7, "d": 3.0},
    ]
    payloads = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        payloads.append(b"\0" + schema_id.to_bytes(4, "big") + out.getvalue())
    made = converter(AvroConverter, registry)
    (run,), refused = made.to_columns("t", pa.array(payloads))
    assert refused == []
    found = python_values(run.column)
    assert [each["u"] for each in found] == [
        {"string": "x", "R": None},
        {"string": None, "R": {"a": 1}},
        None,
    ]
    assert (found[0]["e"], found[0]["f"], found[0]["micros"]) == ("BLUE", b"ab", 5)
    schema = run.column.schema
    enum = schema.field_named("e").schema
    assert (enum.default, enum.parameters["io.confluent.connect.avro.Enum"]) == ("RED", "n.Color")
    assert schema.field_named("d").schema.doc == "what it is"
    enhanced = converter(AvroConverter, registry, enhanced_avro_schema_support=True)
    again, refused = enhanced.to_payloads("other", run.column)
    assert refused == []
    assert [each[5:] for each in again.to_pylist()] == [each[5:] for each in payloads]
    written = json.loads(registry.schemas[-1]["schema"])
    assert written["fields"][1]["type"]["symbols"] == ["RED", "BLUE"]


def test_runs_by_schema_and_refused_ones(registry: FakeRegistry) -> None:
    made = converter(AvroConverter, registry)
    one = made.to_payloads("t", column_of(struct_schema({"a": Schema(Type.INT32)}), [{"a": 1}]))[
        0
    ].to_pylist()
    two = made.to_payloads("u", column_of(struct_schema({"b": STRING}), [{"b": "x"}]))[0].to_pylist()
    unknown = b"\0\0\0\0\x63abc"
    given = pa.array([None, *one, None, *two, b"{}", unknown, one[0][:5], *one, b""], pa.binary())
    runs, refused = made.to_columns("t", given)
    assert [(run.first, python_values(run.column)) for run in runs] == [
        (0, [None, {"a": 1}, None]),
        (3, [{"b": "x"}]),
        (7, [{"a": 1}]),
    ]
    assert [each.row for each in refused] == [4, 5, 6, 8]
    assert refused[0].reason.startswith("Unknown magic byte!")
    assert "40403" in refused[1].reason or "not found" in refused[1].reason.lower()


def test_schemas_that_double_or_contain_themselves_are_refused(registry: FakeRegistry) -> None:
    inner: Any = "int"
    for level in range(40):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"R{level - 1}" if level else "int"}]
        inner = {"type": "record", "name": f"R{level}", "fields": fields}
    itself = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
    made = converter(AvroConverter, registry)
    given = [
        b"\0" + registry.add("s", json.dumps(each)).to_bytes(4, "big") + b"\0" for each in (inner, itself)
    ]
    runs, refused = made.to_columns("t", pa.array(given))
    assert runs == []
    assert ["columns" in refused[0].reason, "contains itself" in refused[1].reason] == [True, True]


def test_keys_that_are_texts_and_values_without_schema(registry: FakeRegistry) -> None:
    made = converter(AvroConverter, registry, is_key=True)
    payloads, refused = made.to_payloads("t", Column(None, ["a", None, {"x": 1}, "b"]))
    assert [each.row for each in refused] == [2]
    assert "has none: use JsonConverter" in refused[0].reason
    assert read_all(made, payloads) == ["a", None, None, "b"]
    assert list(registry.subjects) == ["t-key"]
    assert registry.schemas[0]["schema"] == '"string"'


def test_rows_that_do_not_fit_the_latest_version(registry: FakeRegistry) -> None:
    registry.add(
        "t-value", json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})
    )
    made = converter(AvroConverter, registry, auto_register_schemas=False, use_latest_version=True)
    column = column_of(
        struct_schema({"a": Schema(Type.INT32, True)}), [{"a": each} for each in (1, None, 3, None)]
    )
    payloads, refused = made.to_payloads("t", column)
    assert [each.row for each in refused] == [1, 3]
    assert [value and value["a"] for value in read_all(made, payloads)] == [1, None, 3, None]
    with pytest.raises(ConnectError, match="no field for the column b"):
        made.to_payloads("t", column_of(struct_schema({"b": STRING}), [{"b": "x"}]))
    strict = converter(AvroConverter, registry, auto_register_schemas=False)
    with pytest.raises(ConnectError) as caught:
        strict.to_payloads("t", column_of(struct_schema({"b": STRING}), [{"b": "x"}]))
    assert not isinstance(caught.value, Retriable)


def test_a_registry_that_is_away_is_retriable(registry: FakeRegistry) -> None:
    made = converter(AvroConverter, registry, max_retries=0)
    registry.refusal = (503, {"error_code": 50301, "message": "later"})
    with pytest.raises(Retriable):
        made.to_payloads("t", column_of(STRING, ["a"]))
    with pytest.raises(Retriable):
        made.to_columns("t", pa.array([b"\0\0\0\0\1a"]))
    registry.refusal = (401, {"error_code": 401, "message": "no"})
    with pytest.raises(ConnectError, match="login") as caught:
        made.to_columns("t", pa.array([b"\0\0\0\0\2a"]))
    assert not isinstance(caught.value, Retriable)
    registry.refusal = None
    assert read_all(made, made.to_payloads("t", column_of(STRING, ["a"]))[0]) == ["a"]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (struct_schema({"a b": STRING}), "Illegal character in: a b"),
        (
            struct_schema({"x": struct_schema({"a": STRING}, "N"), "y": struct_schema({"b": STRING}, "N")}),
            "redefine",
        ),
    ],
)
def test_what_avro_cannot_express(registry: FakeRegistry, schema: Schema, reason: str) -> None:
    with pytest.raises(ConnectError, match=reason):
        converter(AvroConverter, registry).to_payloads(
            "t", column_of(schema, [{"a b": "x", "x": {}, "y": {}}])
        )
    scrubbing = converter(AvroConverter, registry, scrub_invalid_names=True)
    if reason.startswith("Illegal"):
        payloads, _ = scrubbing.to_payloads("t", column_of(schema, [{"a b": "x"}]))
        assert read_all(scrubbing, payloads) == [{"a_b": "x"}]


def test_schemas_of_avro_and_back() -> None:
    text = json.dumps(AvroText().of(EVERYTHING))
    parsed = parse(SchemaText(SchemaType.AVRO, text))
    assert isinstance(parsed, AvroSchema)
    assert schema_of_avro(parsed.root) == EVERYTHING
    bare = parse(SchemaText(SchemaType.AVRO, json.dumps(AvroText(meta_data=False).of(EVERYTHING))))
    assert isinstance(bare, AvroSchema)
    assert schema_of_avro(bare.root).version is None
    narrow = schema_of_avro(parsed.root).field_named("narrow")
    assert narrow is not None
    assert narrow.schema.parameters[PRECISION] == "10"


RECORD = struct_schema(
    {
        "id": Schema(Type.INT64),
        "name": STRING,
        "at": logical_schema(TIMESTAMP, True),
        "clock": logical_schema(TIME, True),
        "tags": array_schema(STRING, True),
        "inner": struct_schema({"x": Schema(Type.FLOAT64, True)}, optional=True),
    },
    "shop.Order",
)
ROWS = [
    {"id": 1, "name": "a", "at": FULL["at"], "clock": FULL["clock"], "tags": ["x"], "inner": {"x": 1.5}},
    {"id": 2, "name": None, "at": None, "clock": None, "tags": [], "inner": None},
]


@pytest.mark.parametrize("kind", [JsonSchemaConverter, ProtobufConverter])
def test_json_schema_and_protobuf_both_ways(registry: FakeRegistry, kind: Any) -> None:
    made = converter(kind, registry)
    payloads, refused = made.to_payloads("t", column_of(RECORD, [ROWS[0], None, ROWS[1]]))
    assert refused == []
    (run,), refused = made.to_columns("t", payloads)
    assert refused == []
    milliseconds = (3 * 3600 + 4 * 60 + 5) * 1000 + 6
    expected = [ROWS[0] | {"clock": milliseconds}, None, ROWS[1]]
    found = python_values(run.column)
    if kind is JsonSchemaConverter:
        assert found == expected
    else:  # proto3 has no null list
        assert found == [expected[0], None, {**ROWS[1], "tags": []}]
    assert run.column.schema is not None
    assert run.column.schema.name == "shop.Order"
    wider = struct_schema({each.name: each.schema for each in RECORD.fields} | {"more": STRING}, "shop.Order")
    again, refused = made.to_payloads("t", column_of(wider, [{**ROWS[0], "more": "y"}]))
    assert refused == []
    assert read_all(made, again)[0]["more"] == "y"


def test_json_schema_of_single_values_and_required(registry: FakeRegistry) -> None:
    made = converter(JsonSchemaConverter, registry, is_key=True)
    payloads, refused = made.to_payloads("t", column_of(Schema(Type.STRING), ["a", None]))
    assert refused == []
    assert read_all(made, payloads) == ["a", None]
    text = json.dumps(
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "title": "T"}
    )
    head = b"\0" + registry.add("u-value", text, "JSON").to_bytes(4, "big")
    values = converter(JsonSchemaConverter, registry)
    runs, refused = values.to_columns(
        "u", pa.array([head + b'{"a":1}', head + b"{}", head + b'{"a":"x"}', head + b"[", b"{}"])
    )
    assert [each.row for each in refused] == [1, 2, 3, 4]
    assert "Invalid null value for required INT64 field a" in refused[0].reason
    assert python_values(runs[0].column) == [{"a": 1}]
    assert runs[0].column.schema == Schema(Type.STRUCT, name="T", fields=(Field("a", Schema(Type.INT64)),))


def test_protobuf_reads_other_messages_of_a_file(registry: FakeRegistry) -> None:
    text = (
        'syntax = "proto3"; message A { int32 a = 1; } message B { string b = 1; message C { bool c = 1; } }'
    )
    head = b"\0" + registry.add("t-value", text, "PROTOBUF").to_bytes(4, "big")
    made = converter(ProtobufConverter, registry)
    given = [head + b"\0\x08\x05", head + b"\x02\x02\x0a\x01x", head + b"\x04\x02\0\x08\1"]
    runs, refused = made.to_columns("t", pa.array(given))
    assert refused == []
    assert [python_values(run.column)[0] for run in runs] == [{"a": 5}, {"b": "x"}, {"c": True}]
    with pytest.raises(ConnectError, match="records with fields"):
        made.to_payloads("t", column_of(STRING, ["x"]))


def test_wrong_settings() -> None:
    with pytest.raises(ConnectError, match=r"schema\.registry\.url"):
        AvroConverter().configure({}, False)
    with pytest.raises(ConnectError, match="no subject name strategy"):
        AvroConverter().configure(
            {"schema.registry.url": ["http://x"], "value.subject.name.strategy": "nope"}, False
        )
