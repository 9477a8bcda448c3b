"""JSON records <-> columns: types, what is not of its type, and texts that try to be more than one record."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest

from moldau.schemas.columns import Decoder, spark_types
from moldau.schemas.columns.json_decoder import JsonDecoder
from moldau.schemas.languages import parse
from moldau.schemas.schema import ParsedSchema, Reference, SchemaText, SchemaType


def schema(source: Any, **others: Any) -> ParsedSchema:
    references = tuple(Reference(name, name, 1) for name in others)
    texts = {name: json.dumps(each) for name, each in others.items()}
    return parse(SchemaText(SchemaType.JSON, json.dumps(source), references), texts)


def decode(reader: ParsedSchema, *payloads: bytes | None) -> tuple[list[Any], list[bool]]:
    values = [None if each is None else b"\0\0\0\0\1" + each for each in payloads]
    rows, bad = Decoder(reader, lambda schema_id: reader).decode(pa.array(values, pa.binary()))
    rows.validate(full=True)
    return rows.to_pylist(), bad.to_pylist()


ROW = schema(
    {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "x": {"type": ["null", "number"]},
            "s": {"oneOf": [{"type": "null"}, {"type": "string"}]},
            "day": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time"},
            "list": {"type": "array", "items": {"$ref": "#/definitions/Item"}},
        },
        "definitions": {"Item": {"type": "object", "properties": {"b": {"type": "boolean"}}}},
    }
)
EMPTY = {"n": None, "x": None, "s": None, "day": None, "at": None, "list": None}


@pytest.fixture(params=("at once", "one by one"))
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's parser, and record by record."""
    if request.param == "one by one":
        monkeypatch.setattr(JsonDecoder, "_at_once", lambda self, payloads: None)


@pytest.mark.usefixtures("either")
def test_every_type() -> None:
    full = (
        b'{"n": 5, "x": 1.5, "s": "gr\xc3\xb6\\u00dfe", "day": "2026-11-23", '
        b'"at": "2026-11-23T01:02:03.500000999+01:00", "list": [{"b": true}, {}, null], "more": {"n": 1}}'
    )
    rows, bad = decode(ROW, full, b"{}", None, b"null")
    assert bad == [False] * 4
    assert rows == [
        {
            "n": 5, "x": 1.5, "s": "größe", "day": datetime.date(2026, 11, 23),
            "at": datetime.datetime(2026, 11, 23, 0, 2, 3, 500_000, datetime.UTC),
            "list": [{"b": True}, {"b": None}, None],
        },
        EMPTY,
        None,
        None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"{", b"5", b"[]", b'{"n": "5"}', b'{"n": 1.5}', b'{"n": 9223372036854775808}', b'{"s": 5}',
        b'{"s": "\xff"}', b'{"s": "\\ud800"}', b'{"x": NaN}', b'{"x": Infinity}', b'{"x": 1e999}',
        b'{"day": "23.11.2026"}',
        b'{"at": "2026-11-23T01:02:03"}', b'{"list": {}}', b'{"list": [5]}', b"{}{}", b'{} {"n": 1}',
        b'{"n": 1},{"n": 2}',
        b'{"n": 1}}', b'{"n": 1}, "v": {}', b'{"n": 1}, "other": 2', b'null, "other": 2', b'{"s": "a\nb"}',
    ],
)  # fmt: skip
@pytest.mark.usefixtures("either")
def test_what_is_no_such_object_is_bad(payload: bytes) -> None:
    rows, bad = decode(ROW, b'{"n": 1}', payload, b'{"n": 3}')
    assert rows == [EMPTY | {"n": 1}, None, EMPTY | {"n": 3}]
    assert bad == [False, True, False]


@pytest.mark.usefixtures("either")
def test_records_that_are_halves_of_others_do_not_shift_rows() -> None:
    payloads = [b'{"n": 1', b', "n": 2}', b'{"n": 3}{"n": 4}', b'{"s": {"n": 5}', b'{"n": 6}}', b'{"n": 7}']
    rows, bad = decode(ROW, *payloads)
    assert bad == [True] * 5 + [False]
    assert rows[5] == EMPTY | {"n": 7}


@pytest.mark.usefixtures("either")
def test_many_lines_and_whole_numbers() -> None:
    rows, bad = decode(ROW, b'{\n  "n": 1.0,\r\n  "x": 2\n}', b'{"n": 1, "n": 2}')
    assert (rows, bad) == ([EMPTY | {"n": 1, "x": 2.0}, EMPTY | {"n": 2}], [False, False])


def test_what_has_no_type_is_json_text() -> None:
    reader = schema(
        {
            "type": "object",
            "properties": {
                "any": {},
                "choice": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "tree": {"$ref": "#"},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
        }
    )
    assert spark_types(reader).field("map").type == pa.map_(pa.string(), pa.int64())
    rows, bad = decode(reader, b'{"any": [1, {"a": null}], "choice": 5, "tree": {"any": 1}, "map": {"k": 1}}')
    assert not any(bad)
    assert rows == [{"any": '[1,{"a":null}]', "choice": "5", "tree": '{"any":1}', "map": [("k", 1)]}]


def test_other_documents_and_all_of() -> None:
    base = {"type": "object", "properties": {"id": {"type": "integer"}}}
    reader = schema(
        {"allOf": [{"$ref": "base.json"}, {"type": "object", "properties": {"s": {"enum": ["a", "b"]}}}]},
        **{"base.json": base},
    )
    assert spark_types(reader) == pa.schema([("id", pa.int64()), ("s", pa.string())])


def test_a_value_that_is_no_object() -> None:
    assert decode(schema({"type": "integer"}), b"5", b'"x"') == ([{"value": 5}, None], [False, True])


def test_depth_costs_no_stack() -> None:
    deep = b'{"s": ' + b"[" * 500_000 + b"]" * 500_000 + b"}"
    assert decode(ROW, deep, b'{"n": 1}')[1] == [True, False]
