"""Values in Avro's JSON encoding as bytes and back; the bytes are those of fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.schemas.languages import parse
from moldau.schemas.schema import Reference, SchemaText, SchemaType
from moldau.schemas.serde import Serde, SerdeError, serde_for
from moldau.schemas.serde.avro_primitives import EMPTY_ITEMS_MAX


def avro(schema: Any, references: dict[str, Any] | None = None) -> Serde:
    used = references or {}
    source = SchemaText(SchemaType.AVRO, json.dumps(schema), tuple(Reference(name, name, 1) for name in used))
    return serde_for(parse(source, {name: json.dumps(text) for name, text in used.items()}))


NESTED = {
    "type": "record",
    "name": "Node",
    "namespace": "tree",
    "fields": [
        {"name": "value", "type": ["null", "int", "string"]},
        {"name": "next", "type": ["null", "Node"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["LEAF", "INNER"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}, "default": "\u0000\u00ff"},
        {"name": "marks", "type": {"type": "map", "values": "tree.Kind"}, "default": {}},
        {"name": "sizes", "type": {"type": "array", "items": "double"}, "default": [1]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 4},
            "default": "\u0001",
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 5},
    ],
}


def test_all_kinds_of_values_come_back() -> None:
    serde = avro(NESTED)
    leaf = {
        "value": {"string": "é\U0001f600"},
        "next": None,
        "kind": "LEAF",
        "hash": "ab",
        "marks": {"x": "INNER"},
        "sizes": [1.5, "NaN", "Infinity", "-Infinity"],
        "price": "\u00ff",
        "at": -1,
    }
    value = {**leaf, "value": {"int": -7}, "next": {"tree.Node": leaf}}
    assert serde.to_json(serde.from_json(value)) == value


def test_missing_fields_take_their_defaults() -> None:
    serde = avro(NESTED)
    assert serde.to_json(serde.from_json({"value": None, "kind": "INNER"})) == {
        "value": None,
        "next": None,
        "kind": "INNER",
        "hash": "\u0000\u00ff",
        "marks": {},
        "sizes": [1.0],
        "price": "\u0001",
        "at": 5,
    }


def test_types_of_references_are_known() -> None:
    name = {"type": "record", "name": "Name", "namespace": "a", "fields": [{"name": "n", "type": "string"}]}
    person = {"type": "record", "name": "P", "namespace": "b", "fields": [{"name": "of", "type": "a.Name"}]}
    serde = avro(person, {"a.Name": name})
    assert serde.to_json(serde.from_json({"of": {"n": "x"}})) == {"of": {"n": "x"}}


@pytest.mark.parametrize("schema", ["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
def test_a_schema_may_be_a_primitive_type(schema: str) -> None:
    value = {"null": None, "boolean": True, "bytes": "\u00e9", "string": "é"}.get(schema, 3)
    assert avro(schema).to_json(avro(schema).from_json(value)) == value


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"value": "x"}, r'value: a union is written as null, \{"int": ...\}'),
        ({"value": {"long": 1}}, "value: the union has no branch 'long'"),
        ({"value": {"int": 2**31}}, "value: .* too large for an int"),
        ({"value": {"int": True}}, "an int is expected, not true"),
        ({"kind": "ROOT"}, "kind: one of LEAF, INNER is expected"),
        ({"hash": "abc"}, "hash: text of 2 characters"),
        ({"marks": ["x"]}, "marks: an object is expected, not an array"),
        ({"sizes": [1, "x"]}, r"sizes\[1\]: a double is expected"),
        ({"price": "\u0100"}, "price: text of characters up to"),
        ({"colour": 1}, "no field 'colour'"),
        ({"next": {"tree.Node": {"value": None}}}, "next: field 'kind' is missing"),
        ({"next": {"Node": {}}}, "no branch 'Node'"),
    ],
)
def test_a_value_that_does_not_fit_is_named(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(SerdeError, match=reason):
        avro(NESTED).from_json({"value": None, "kind": "LEAF", **change})


def test_floats_are_printed_short() -> None:
    serde = avro("float")
    assert json.dumps(serde.to_json(serde.from_json(1.1))) == "1.1"
    for value in (3.4028234663852886e38, 1e-45, 16777216.0, -0.1):
        assert serde.from_json(serde.to_json(serde.from_json(value))) == serde.from_json(value)
    with pytest.raises(SerdeError, match="too large for a float"):
        serde.from_json(1e39)


def test_hostile_bytes_end_as_errors() -> None:
    chain = avro({"type": "record", "name": "C", "fields": [{"name": "n", "type": ["null", "C"]}]})
    with pytest.raises(SerdeError, match="nested too deeply"):
        chain.to_json(b"\x02" * 1_000_000)
    nested: Any = {"n": None}
    for _ in range(5_000):
        nested = {"n": {"C": nested}}
    with pytest.raises(SerdeError, match="nested too deeply"):
        chain.from_json(nested)
    nulls = avro({"type": "array", "items": "null"})
    with pytest.raises(SerdeError, match=f"over {EMPTY_ITEMS_MAX}"):
        nulls.to_json(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\0")
    with pytest.raises(SerdeError, match="are announced"):
        avro("bytes").to_json(b"\xfe\xff\xff\xff\x0f")
    with pytest.raises(SerdeError, match="over 64 bits"):
        avro("long").to_json(b"\xff" * 11)
    with pytest.raises(SerdeError, match="left behind"):
        avro("int").to_json(b"\x02\x02")


names = st.sampled_from(["a", "b", "c", "d"])


def schemas(depth: int = 3) -> st.SearchStrategy[Any]:
    simple = st.sampled_from(["boolean", "int", "long", "double", "string", "bytes"])
    if not depth:
        return simple
    inner = schemas(depth - 1)
    return st.one_of(
        simple,
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "map", "values": values}, inner),
        st.builds(lambda each: ["null", each], inner),
    )


def value_for(schema: Any) -> st.SearchStrategy[tuple[Any, Any]]:
    """The JSON form of a value, and what fastavro takes."""
    if schema == "bytes":
        return st.binary(max_size=5).map(lambda data: (data.decode("latin-1"), data))
    if isinstance(schema, list):
        tag = schema[1] if isinstance(schema[1], str) else schema[1]["type"]
        return st.none().map(lambda _: (None, None)) | value_for(schema[1]).map(
            lambda pair: ({tag: pair[0]}, pair[1])
        )
    if isinstance(schema, dict) and schema["type"] == "array":
        return st.lists(value_for(schema["items"]), max_size=3).map(
            lambda pairs: ([each[0] for each in pairs], [each[1] for each in pairs])
        )
    if isinstance(schema, dict):
        return st.dictionaries(names, value_for(schema["values"]), max_size=3).map(
            lambda pairs: (
                {name: each[0] for name, each in pairs.items()},
                {name: each[1] for name, each in pairs.items()},
            )
        )
    plain: dict[str, st.SearchStrategy[Any]] = {
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "double": st.floats(allow_nan=False, allow_infinity=False),
        "string": st.text(max_size=5),
    }
    return plain[schema].map(lambda value: (value, value))


def no_union_in_union(schema: Any) -> bool:
    if isinstance(schema, list):
        return not isinstance(schema[1], list) and no_union_in_union(schema[1])
    if isinstance(schema, dict):
        return no_union_in_union(schema.get("items", schema.get("values")))
    return True


@given(schemas().filter(no_union_in_union).flatmap(lambda each: st.tuples(st.just(each), value_for(each))))
def test_the_bytes_are_those_of_fastavro(case: tuple[Any, tuple[Any, Any]]) -> None:
    schema, (shown, plain) = case
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), plain)
    serde = avro(schema)
    assert serde.from_json(shown) == written.getvalue()
    assert serde.to_json(written.getvalue()) == shown


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = avro(NESTED).to_json(data)
    except SerdeError:
        return
    assert avro(NESTED).to_json(avro(NESTED).from_json(value)) == value
