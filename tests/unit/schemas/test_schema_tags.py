"""Tags of records and fields, added to a schema's text and taken away, in the three languages."""

import json
from typing import Any

import pytest

from moldau.schemas.languages import parse
from moldau.schemas.schema import InvalidSchema, SchemaText, SchemaType
from moldau.schemas.tags import TagChange, with_tags

AVRO = json.dumps(
    {
        "type": "record", "name": "Order", "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "lines", "type": {"type": "array", "items": {
                "type": "record", "name": "Line", "fields": [{"name": "item", "type": "string"}]}}},
            {"name": "buyer", "type": ["null", {
                "type": "record", "name": "Buyer", "namespace": "people",
                "fields": [{"name": "mail", "type": "string", "aliases": ["email"]}]}]},
            {"name": "next", "type": ["null", "Order"]},
        ],
    }
)  # fmt: skip
JSON = json.dumps(
    {
        "type": "object",
        "properties": {
            "id": {"type": "number", "maximum": 1.50},
            "a.b": {"type": "string"},
            "lines": {"type": "array", "items": {
                "type": "object", "properties": {"item": {"type": "string"}}}},
            "note": {"type": ["null", "object"], "properties": {"text": {"type": "string"}}},
            "either": {"oneOf": [{"type": "object"}, {"type": "null"}]},
        },
        "definitions": {"Buyer": {"type": "object", "properties": {"mail": {"type": "string"}}}},
    }
)  # fmt: skip
PROTO = """syntax = "proto3";
package shop;

message Order {
  int64 id = 1 [deprecated = true, (confluent.field_meta).doc = "d", (confluent.field_meta).tags = "OLD"];
  oneof way { string post = 2; string mail = 3; }
  message Line { string item = 1; }
}
"""


def changed(language: SchemaType, text: str, *changes: TagChange) -> str:
    canonical = parse(SchemaText(language, text)).canonical
    found = with_tags(language, canonical, changes)
    again = parse(SchemaText(language, found)).canonical
    removed = [each._replace(added=(), removed=each.added) for each in changes]
    if all(each.added and not each.removed for each in changes) and "OLD" not in text:
        # What was added is taken away again.
        assert parse(SchemaText(language, with_tags(language, again, removed))).canonical == canonical
    return again


@pytest.mark.parametrize(
    ("path", "is_field", "where"),
    [
        ("shop.Order", False, []),
        (".shop.Order", False, []),
        ("Order", False, []),
        ("Order.id", True, ["fields", 0]),
        ("shop.Line", False, ["fields", 1, "type", "items"]),
        ("shop.Line.item", True, ["fields", 1, "type", "items", "fields", 0]),
        ("people.Buyer.mail", True, ["fields", 2, "type", 1, "fields", 0]),
    ],
)
def test_avro(path: str, is_field: bool, where: list[Any]) -> None:
    found = changed(SchemaType.AVRO, AVRO, TagChange(path, is_field, ("PII", "B", "PII")))
    node = json.loads(found)
    for step in where:
        node = node[step]
    assert node["confluent:tags"] == ["PII", "B"]
    assert found.count("confluent:tags") == 1


@pytest.mark.parametrize(
    ("path", "is_field", "where"),
    [
        ("object", False, []),
        ("object.id", True, ["properties", "id"]),
        ("object.a.b", True, ["properties", "a.b"]),
        ("object.lines.array.object", False, ["properties", "lines", "items"]),
        ("object.lines.array.object.item", True, ["properties", "lines", "items", "properties", "item"]),
        ("object.definitions.Buyer.object.mail", True, ["definitions", "Buyer", "properties", "mail"]),
        ("object.note.anyof.0.object.text", True, ["properties", "note", "properties", "text"]),
    ],
)
def test_json(path: str, is_field: bool, where: list[Any]) -> None:
    found = changed(SchemaType.JSON, JSON, TagChange(path, is_field, ("PII",)))
    node = json.loads(found)
    for step in where:
        node = node[step]
    assert node["confluent:tags"] == ["PII"]
    assert found.count("confluent:tags") == 1


def test_avro_names_and_properties_that_look_like_types() -> None:
    text = json.dumps(
        {
            "type": "record", "name": "R",
            "fields": [
                {"name": "a", "type": {"type": "record", "name": "record", "fields": []}},
                {"name": "b", "type": "record", "items": {"type": "record"}},
                {"name": "c", "type": {"type": "int", "values": {"type": "record"}}},
            ],
        }
    )  # fmt: skip
    found = changed(SchemaType.AVRO, text, TagChange("R.b", True, ("PII",)))
    assert json.loads(found)["fields"][1]["confluent:tags"] == ["PII"]


def test_protobuf() -> None:
    found = changed(
        SchemaType.PROTOBUF,
        PROTO,
        TagChange("Order.id", True, ("NEW",), ("OLD",)),
        TagChange("Order", False, ("PII", "B")),
        TagChange("Order.post", True, ("PII",)),
        TagChange("Order.way.mail", True, ("PII",)),
        TagChange("Order.Line.item", True, ("PII",)),
    )
    assert found.count('tags: [\n      "PII"\n    ]') + found.count('tags: [\n        "PII"\n      ]') == 3
    assert "  option (confluent.message_meta) = {\n    tags: [" in found
    assert "deprecated = true" in found
    assert 'doc: "d"' in found
    assert '"OLD"' not in found
    without = changed(SchemaType.PROTOBUF, found, TagChange("Order", False, (), ("PII", "B", "unknown")))
    assert "message_meta" not in without


@pytest.mark.parametrize(
    ("language", "text", "path", "is_field"),
    [
        (SchemaType.AVRO, AVRO, "does.not.exist", True),
        (SchemaType.AVRO, AVRO, "shop.Buyer", False),
        (SchemaType.AVRO, AVRO, "Order.nothing", True),
        (SchemaType.AVRO, AVRO, "id", True),
        (SchemaType.AVRO, '"string"', "string", False),
        (SchemaType.JSON, JSON, "object.nothing", True),
        (SchemaType.JSON, JSON, "object", True),
        (SchemaType.JSON, JSON, "object.either.oneof.0.object", False),
        (SchemaType.JSON, JSON, "nothing", False),
        (SchemaType.JSON, "true", "object", False),
        (SchemaType.PROTOBUF, PROTO, "Order.nothing", True),
        (SchemaType.PROTOBUF, PROTO, "shop.Order.id", True),
        (SchemaType.PROTOBUF, PROTO, "Order.way.id", True),
        (SchemaType.PROTOBUF, PROTO, "id", True),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(
    language: SchemaType, text: str, path: str, is_field: bool
) -> None:
    with pytest.raises(InvalidSchema, match=r"No matching|not understood"):
        changed(language, text, TagChange(path, is_field, ("PII",)))
