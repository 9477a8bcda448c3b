"""JSON values checked against their schema when written; nothing is fetched, nothing hangs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moldau.schemas.languages import parse
from moldau.schemas.schema import Reference, SchemaText, SchemaType
from moldau.schemas.serde import Serde, SerdeError, serde_for


def json_schema(schema: Any, references: dict[str, Any] | None = None) -> Serde:
    used = references or {}
    source = SchemaText(SchemaType.JSON, json.dumps(schema), tuple(Reference(name, name, 1) for name in used))
    return serde_for(parse(source, {name: json.dumps(text) for name, text in used.items()}))


ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"id": {"type": "string", "pattern": "^(a+)+$"}, "items": {"type": "array"}},
    "patternProperties": {"^(x+)+y$": {"type": "integer"}},
    "additionalProperties": False,
}


def test_values_are_written_as_json() -> None:
    serde = json_schema(ORDER)
    assert serde.from_json({"id": "aé".replace("é", "a"), "xxy": 1}) == b'{"id":"aa","xxy":1}'
    assert serde.to_json(b'{"id": 5, "any": [1]}') == {"id": 5, "any": [1]}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"id": 5}, "id: 5 is not of type 'string'"),
        ({"id": "a" * 40 + "!"}, "does not match"),
        ({"x" * 40 + "z": 1}, "no property 'xxx"),
        ({"xy": "1"}, "xy: '1' is not of type"),
        ([], "is not of type 'object'"),
    ],
)
def test_values_that_do_not_fit_are_refused(value: Any, reason: str) -> None:
    with pytest.raises(SerdeError, match=reason):
        json_schema(ORDER).from_json(value)


def test_registered_references_are_found_and_others_never_fetched() -> None:
    schema = {"type": "object", "properties": {"at": {"$ref": "place.json"}}}
    serde = json_schema(schema, {"place.json": {"type": "integer"}})
    assert serde.from_json({"at": 1}) == b'{"at":1}'
    with pytest.raises(SerdeError, match="at: 'x' is not of type"):
        serde.from_json({"at": "x"})


def test_the_drafts_own_schemas_are_known() -> None:
    serde = json_schema(
        {"type": "object", "properties": {"s": {"$ref": "http://json-schema.org/draft-07/schema#"}}}
    )
    assert serde.from_json({"s": {"type": "object"}})
    with pytest.raises(SerdeError, match=r"is not (valid|of type)"):
        serde.from_json({"s": {"type": 5}})


def test_items_are_unique_by_value() -> None:
    serde = json_schema({"type": "array", "uniqueItems": True})
    assert serde.from_json([1, True, "1", [1], {"a": 1}, 0, False])
    for twice in ([1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], [[1], [1]]):
        with pytest.raises(SerdeError, match="twice"):
            serde.from_json(twice)


def test_unevaluated_properties_run_no_pattern_of_pythons() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "patternProperties": {"^(x+)+y$": {"type": "integer"}},
        "allOf": [{"properties": {"a": True}}],
        "unevaluatedProperties": False,
    }
    serde = json_schema(schema)
    assert serde.from_json({"xxy": 1, "a": 2})
    with pytest.raises(SerdeError, match="x"):
        serde.from_json({"x" * 40 + "z": 1})


def test_a_pattern_that_cannot_be_checked_says_so() -> None:
    serde = json_schema({"type": "string", "pattern": "^(?=a)b$"})
    with pytest.raises(SerdeError, match="RE2 does not have"):
        serde.from_json("b")


def test_depth_and_circles_end() -> None:
    circle = json_schema({"allOf": [{"$ref": "#"}]})
    with pytest.raises(SerdeError, match="nested too deeply, or the schema refers to itself"):
        circle.from_json(1)
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(SerdeError):
        json_schema({"type": "array", "items": {"$ref": "#"}}).from_json(nested)
    with pytest.raises(SerdeError, match="no JSON"):
        circle.to_json(b"[" * 100_000)
    with pytest.raises(SerdeError, match="no JSON"):
        circle.to_json(b"NaN")
    with pytest.raises(SerdeError, match="no JSON"):
        json_schema({}).from_json(float("nan"))
