"""Every kind of difference between two JSON Schemas: where it is told, and whether it keeps readers out.

A row is: the earlier schema, the later one, and the changes from the first to the second and back. The kinds'
verdicts are in `kinds.py`; a test below says them once more, by the words in their names.
"""

import json
from typing import Any, NamedTuple

import pytest

from moldau.schemas.compatibility import Level, Policy, check
from moldau.schemas.json_schema.kinds import COMPATIBLE, INCOMPATIBLE, LENIENT
from moldau.schemas.json_schema.parsed import JsonSchema
from moldau.schemas.schema import SchemaText, SchemaType

_S, _N, _I, _B, _0 = ({"type": each} for each in ("string", "number", "integer", "boolean", "null"))
_MODERN = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
_DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}


class Row(NamedTuple):
    old: Any
    new: Any
    forth: list[str]
    back: list[str]


def _open(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _closed(**properties: Any) -> dict[str, Any]:
    return {**_open(**properties), "additionalProperties": False}


def _rest(rest: Any, **properties: Any) -> dict[str, Any]:
    return {**_open(**properties), "additionalProperties": rest}


def _items(*items: Any, rest: Any = True) -> dict[str, Any]:
    return {"type": "array", "items": list(items), "additionalItems": rest}


def _limit(type_: str, keyword: str, name: str, modern: bool = False) -> list[Row]:
    """Rows of a limit that is added, removed, raised and lowered."""
    base = {"type": type_, **(_MODERN if modern else {})}
    place = f"#/{keyword}"
    return [
        Row(base, {**base, keyword: 3}, [f"{name}_ADDED {place}"], [f"{name}_REMOVED {place}"]),
        Row(
            {**base, keyword: 3},
            {**base, keyword: 5},
            [f"{name}_INCREASED {place}"],
            [f"{name}_DECREASED {place}"],
        ),
    ]


def _covered(what: str, kind: str, place: str) -> str:
    return f"{what}_{kind}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL {place}"


ANNOTATIONS = [
    Row({"$id": "a"}, {"$id": "b"}, ["ID_CHANGED #/"], ["ID_CHANGED #/"]),
    Row({"title": "a"}, {"title": "b"}, ["TITLE_CHANGED #/"], ["TITLE_CHANGED #/"]),
    Row({"description": "a"}, {}, ["DESCRIPTION_CHANGED #/"], ["DESCRIPTION_CHANGED #/"]),
    Row(_S, {**_S, "default": "x"}, ["DEFAULT_CHANGED #/"], ["DEFAULT_CHANGED #/"]),
    Row({"default": None}, {}, ["DEFAULT_CHANGED #/"], ["DEFAULT_CHANGED #/"]),
    Row({"default": 1}, {"default": 1.0}, [], []),
    Row({"default": 1}, {"default": True}, ["DEFAULT_CHANGED #/"], ["DEFAULT_CHANGED #/"]),
    Row({"examples": [1], "format": "date"}, {"$comment": "x"}, [], []),
]
TYPES = [
    Row(_S, _N, ["TYPE_CHANGED #/"], ["TYPE_CHANGED #/"]),
    Row(_I, _N, ["TYPE_EXTENDED #/"], ["TYPE_NARROWED #/"]),
    Row(_S, {}, [], ["TYPE_CHANGED #/"]),
    Row(_S, True, [], ["TYPE_CHANGED #/"]),
    Row(False, _S, [], ["TYPE_CHANGED #/"]),
    Row(False, True, [], ["TYPE_CHANGED #/"]),
    Row(_B, _B, [], []),
    Row(
        {**_S, "connect.type": "bytes"},
        {**_N, "connect.type": "bytes"},
        [],
        [],
    ),
    Row({**_S, "connect.type": "bytes"}, _N, ["TYPE_CHANGED #/"], ["TYPE_CHANGED #/"]),
    Row(_open(), {"properties": {}}, [], []),  # "type" beside what only objects have is not looked at
]
LIMITS = [
    *_limit("string", "maxLength", "MAX_LENGTH"),
    *_limit("string", "minLength", "MIN_LENGTH"),
    *_limit("number", "maximum", "MAXIMUM"),
    *_limit("number", "minimum", "MINIMUM"),
    *_limit("number", "exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
    *_limit("number", "exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
    *_limit("object", "maxProperties", "MAX_PROPERTIES"),
    *_limit("object", "minProperties", "MIN_PROPERTIES"),
    *_limit("array", "maxItems", "MAX_ITEMS"),
    *_limit("array", "minItems", "MIN_ITEMS"),
    *_limit("array", "maxContains", "MAX_CONTAINS", modern=True),
    *_limit("array", "minContains", "MIN_CONTAINS", modern=True),
    Row({**_N, "maximum": 1}, {**_N, "maximum": 1.0}, [], []),
    Row({**_N, "maximum": 0.1}, {**_N, "maximum": 1e-1}, [], []),
    Row(
        {**_DRAFT_4, **_N, "maximum": 3},
        {**_DRAFT_4, **_N, "maximum": 3, "exclusiveMaximum": True},
        ["EXCLUSIVE_MAXIMUM_ADDED #/exclusiveMaximum"],
        ["EXCLUSIVE_MAXIMUM_REMOVED #/exclusiveMaximum"],
    ),
    Row({**_S, "pattern": "a"}, _S, ["PATTERN_REMOVED #/pattern"], ["PATTERN_ADDED #/pattern"]),
    Row(
        {**_S, "pattern": "a"},
        {**_S, "pattern": "b"},
        ["PATTERN_CHANGED #/pattern"],
        ["PATTERN_CHANGED #/pattern"],
    ),
    Row(
        _N, {**_N, "multipleOf": 2}, ["MULTIPLE_OF_ADDED #/multipleOf"], ["MULTIPLE_OF_REMOVED #/multipleOf"]
    ),
    Row(
        {**_N, "multipleOf": 2},
        {**_N, "multipleOf": 4},
        ["MULTIPLE_OF_EXPANDED #/multipleOf"],
        ["MULTIPLE_OF_REDUCED #/multipleOf"],
    ),
    Row(
        {**_N, "multipleOf": 0.1},
        {**_N, "multipleOf": 0.3},
        ["MULTIPLE_OF_EXPANDED #/multipleOf"],
        ["MULTIPLE_OF_REDUCED #/multipleOf"],
    ),
    Row(
        {**_N, "multipleOf": 2},
        {**_N, "multipleOf": 3},
        ["MULTIPLE_OF_CHANGED #/multipleOf"],
        ["MULTIPLE_OF_CHANGED #/multipleOf"],
    ),
    Row(
        {"type": "array", "uniqueItems": True},
        {"type": "array"},
        ["UNIQUE_ITEMS_REMOVED #/uniqueItems"],
        ["UNIQUE_ITEMS_ADDED #/uniqueItems"],
    ),
]
VALUES = [
    Row({"enum": [1]}, {"enum": [1, 2]}, ["ENUM_ARRAY_EXTENDED #/enum"], ["ENUM_ARRAY_NARROWED #/enum"]),
    Row({"enum": [1]}, {"enum": ["1"]}, ["ENUM_ARRAY_CHANGED #/enum"], ["ENUM_ARRAY_CHANGED #/enum"]),
    Row({"enum": [1, {"a": [2], "b": 3}]}, {"enum": [{"b": 3, "a": [2.0]}, 1.0]}, [], []),
    Row({"enum": [True]}, {"enum": [1]}, ["ENUM_ARRAY_CHANGED #/enum"], ["ENUM_ARRAY_CHANGED #/enum"]),
    Row({"const": 1}, {"const": 1.0}, [], []),
    Row({"const": 1}, {"const": 2}, ["ENUM_ARRAY_CHANGED #/const"], ["ENUM_ARRAY_CHANGED #/const"]),
    Row({"const": 1}, {"enum": [1]}, ["TYPE_CHANGED #/"], ["TYPE_CHANGED #/"]),
    Row({"not": _N}, {"not": _I}, ["NOT_TYPE_NARROWED #/not"], ["NOT_TYPE_EXTENDED #/not"]),
]
PROPERTIES = [
    Row(
        {**_open(a=_S), "required": ["a"]},
        _open(a=_S),
        ["REQUIRED_ATTRIBUTE_REMOVED #/required/a"],
        ["REQUIRED_ATTRIBUTE_ADDED #/required/a"],
    ),
    Row(
        {**_open(a={**_S, "default": "x"}), "required": ["a"]},
        _open(a={**_S, "default": "x"}),
        ["REQUIRED_ATTRIBUTE_REMOVED #/required/a"],
        ["REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED #/required/a"],
    ),
    Row(
        _open(),
        _open(a=_S),
        ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"],
        ["PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    Row(
        _open(),
        {**_open(a=_S), "required": ["a"]},
        ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"],
        ["PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    Row(
        _open(),
        {**_open(a={**_S, "default": ""}), "required": ["a"]},
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"],
        ["PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    Row(
        _open(),
        _open(a={}),
        ["PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"],
        ["PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    Row(
        _closed(),
        _closed(a=_S),
        ["OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
        ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"],
    ),
    Row(
        _closed(),
        {**_closed(a=_S), "required": ["a"]},
        ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
        ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"],
    ),
    Row(
        _closed(),
        {**_closed(a={**_S, "default": ""}), "required": ["a"]},
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
        ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"],
    ),
    Row(
        _closed(),
        _closed(a=False),
        ["OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
        ["PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"],
    ),
    Row(
        _rest(_S),
        _rest(_S, a=_S),
        [
            _covered("PROPERTY_ADDED", "IS", "#/properties/a"),
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a",
        ],
        [_covered("PROPERTY_REMOVED", "IS", "#/properties/a")],
    ),
    Row(
        _rest(_S),
        _rest(_S, a=_N),
        [
            "TYPE_CHANGED #/properties/a",
            _covered("PROPERTY_ADDED", "NOT", "#/properties/a"),
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a",
        ],
        ["TYPE_CHANGED #/properties/a", _covered("PROPERTY_REMOVED", "NOT", "#/properties/a")],
    ),
    Row(
        {**_closed(), "patternProperties": {"^n_": _N}},
        {**_closed(n_a=_N), "patternProperties": {"^n_": _N}},
        [
            _covered("PROPERTY_ADDED", "IS", "#/properties/n_a"),
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/n_a",
        ],
        [_covered("PROPERTY_REMOVED", "IS", "#/properties/n_a")],
    ),
    Row(
        {**_closed(), "patternProperties": {"(?=n)": _N}},  # RE2 has no look-ahead: covers nothing
        {**_closed(n=_N), "patternProperties": {"(?=n)": _N}},
        ["OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/n"],
        ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/n"],
    ),
    Row(
        _closed(),
        _open(),
        ["ADDITIONAL_PROPERTIES_ADDED #/additionalProperties"],
        ["ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"],
    ),
    Row(
        _rest(_S),
        _open(),
        ["ADDITIONAL_PROPERTIES_EXTENDED #/additionalProperties"],
        ["ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"],
    ),
    Row(_rest(_S), _rest(_N), *[["TYPE_CHANGED #/additionalProperties"]] * 2),
    Row(
        {**_MODERN, "unevaluatedProperties": False},
        {**_MODERN, "unevaluatedProperties": True},
        ["UNEVALUATED_PROPERTIES_ADDED #/unevaluatedProperties"],
        ["UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties"],
    ),
    Row(
        {**_MODERN, "unevaluatedProperties": _S},
        {**_MODERN, "unevaluatedProperties": True},
        ["UNEVALUATED_PROPERTIES_EXTENDED #/unevaluatedProperties"],
        ["UNEVALUATED_PROPERTIES_NARROWED #/unevaluatedProperties"],
    ),
    Row(
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {}},
        ["DEPENDENCY_ARRAY_REMOVED #/dependencies/a"],
        ["DEPENDENCY_ARRAY_ADDED #/dependencies/a"],
    ),
    Row(
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {"a": ["b", "c"]}},
        ["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
        ["DEPENDENCY_ARRAY_NARROWED #/dependencies/a"],
    ),
    Row(
        {**_MODERN, "dependentRequired": {"a": ["b"]}},
        {**_MODERN, "dependentRequired": {"a": ["c"]}},
        ["DEPENDENCY_ARRAY_CHANGED #/dependencies/a"],
        ["DEPENDENCY_ARRAY_CHANGED #/dependencies/a"],
    ),
    Row(
        {"dependencies": {"a": _open()}},
        {"dependencies": {}},
        ["DEPENDENCY_SCHEMA_REMOVED #/dependencies/a"],
        ["DEPENDENCY_SCHEMA_ADDED #/dependencies/a"],
    ),
    Row(
        {**_MODERN, "dependentSchemas": {"a": _open(b=_I)}},
        {**_MODERN, "dependentSchemas": {"a": _open(b=_N)}},
        ["TYPE_EXTENDED #/dependencies/a/properties/b"],
        ["TYPE_NARROWED #/dependencies/a/properties/b"],
    ),
    Row(
        _open(a=_open(b=_I)),
        _open(a=_open(b=_N)),
        *[[f"TYPE_{e} #/properties/a/properties/b"] for e in ("EXTENDED", "NARROWED")],
    ),
]
ITEMS = [
    Row(
        {"type": "array", "items": _S},
        {"type": "array"},
        ["SCHEMA_REMOVED #/items"],
        ["SCHEMA_ADDED #/items"],
    ),
    Row(
        {"type": "array", "items": _I},
        {"type": "array", "items": _N},
        ["TYPE_EXTENDED #/items"],
        ["TYPE_NARROWED #/items"],
    ),
    Row(
        _items(_S),
        _items(_S, _N),
        ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"],
        ["ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL #/items/1"],
    ),
    Row(
        _items(),
        _items({}),
        ["ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/items/0"],
        ["ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL #/items/0"],
    ),
    Row(
        _items(_S, rest=False),
        _items(_S, _N, rest=False),
        ["ITEM_ADDED_TO_CLOSED_CONTENT_MODEL #/items/1"],
        ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    Row(
        _items(rest=False),
        _items(False, rest=False),
        ["ITEM_ADDED_TO_CLOSED_CONTENT_MODEL #/items/0"],
        ["ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/0"],
    ),
    Row(
        _items(rest=_N),
        _items(_N, rest=_N),
        [_covered("ITEM_ADDED", "IS", "#/items/0")],
        [_covered("ITEM_REMOVED", "IS", "#/items/0")],
    ),
    Row(
        _items(rest=_N),
        _items(_S, rest=_N),
        ["TYPE_CHANGED #/items/0", _covered("ITEM_ADDED", "NOT", "#/items/0")],
        ["TYPE_CHANGED #/items/0", _covered("ITEM_REMOVED", "NOT", "#/items/0")],
    ),
    Row(
        {**_MODERN, "prefixItems": [_I], "items": False},
        {**_MODERN, "prefixItems": [_N], "items": True},
        ["TYPE_EXTENDED #/items/0", "ADDITIONAL_ITEMS_ADDED #/additionalItems"],
        ["TYPE_NARROWED #/items/0", "ADDITIONAL_ITEMS_REMOVED #/additionalItems"],
    ),
    Row(
        _items(rest=_S),
        _items(),
        ["ADDITIONAL_ITEMS_EXTENDED #/additionalItems"],
        ["ADDITIONAL_ITEMS_NARROWED #/additionalItems"],
    ),
    Row(
        {**_MODERN, "unevaluatedItems": False},
        {**_MODERN, "unevaluatedItems": True},
        ["UNEVALUATED_ITEMS_ADDED #/unevaluatedItems"],
        ["UNEVALUATED_ITEMS_REMOVED #/unevaluatedItems"],
    ),
    Row(
        {**_MODERN, "unevaluatedItems": _S},
        {**_MODERN, "unevaluatedItems": True},
        ["UNEVALUATED_ITEMS_EXTENDED #/unevaluatedItems"],
        ["UNEVALUATED_ITEMS_NARROWED #/unevaluatedItems"],
    ),
]
UNIONS = [
    Row(
        {"type": ["string"]}, {"type": ["string", "null"]}, ["SUM_TYPE_EXTENDED #/"], ["SUM_TYPE_NARROWED #/"]
    ),
    Row(_S, {"type": ["null", "string"]}, ["SUM_TYPE_EXTENDED #/"], ["TYPE_CHANGED #/"]),
    Row(_S, {"oneOf": [_S]}, [], []),
    Row(_I, {"anyOf": [_S, _N]}, ["TYPE_EXTENDED #/", "SUM_TYPE_EXTENDED #/"], ["TYPE_CHANGED #/"]),
    Row({"allOf": [_S, {"minLength": 3}]}, _S, ["PRODUCT_TYPE_NARROWED #/"], ["TYPE_CHANGED #/"]),
    Row({**_S, "enum": ["a"]}, _S, ["PRODUCT_TYPE_NARROWED #/"], ["TYPE_CHANGED #/"]),
    Row(
        {"allOf": [_S]},
        {"allOf": [_S, {"minLength": 3}]},
        ["PRODUCT_TYPE_EXTENDED #/"],
        ["PRODUCT_TYPE_NARROWED #/"],
    ),
    Row({"oneOf": [_S, _N]}, {"oneOf": [_N, _S]}, [], []),
    Row({"oneOf": [_S, _S]}, {"oneOf": [_S]}, [], []),
    Row({"oneOf": [_S, _N]}, {"oneOf": [_S, _B]}, *[["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]] * 2),
    Row(
        {"oneOf": [_I, _S]},
        {"oneOf": [{"type": "string", "maxLength": 5}, _N]},
        ["TYPE_EXTENDED #/oneOf/0", "COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        ["MAX_LENGTH_REMOVED #/oneOf/0/maxLength", "COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    Row({"oneOf": [_S]}, {"anyOf": [_S]}, ["COMBINED_TYPE_EXTENDED #/"], ["COMBINED_TYPE_EXTENDED #/"]),
    Row(
        {"oneOf": [_S, _N]},
        {"anyOf": [_S, _N]},
        ["COMBINED_TYPE_EXTENDED #/"],
        ["COMBINED_TYPE_CHANGED #/"],
    ),
    Row({"allOf": [_S, _N]}, {"oneOf": [_S, _N]}, *[["COMBINED_TYPE_CHANGED #/"]] * 2),
    Row(
        {"allOf": [_S, _N]},
        {"oneOf": [_S]},
        ["COMBINED_TYPE_EXTENDED #/", "PRODUCT_TYPE_NARROWED #/"],
        ["COMBINED_TYPE_CHANGED #/"],
    ),
    Row(
        {"anyOf": [_S, _N]},
        {"oneOf": [_S]},
        ["COMBINED_TYPE_CHANGED #/"],
        ["COMBINED_TYPE_EXTENDED #/", "SUM_TYPE_EXTENDED #/"],
    ),
    Row(
        {"if": _S, "then": {"minLength": 1}},
        {"if": _S, "then": {"minLength": 2}},
        [],  # as in Confluent's registry, conditions are not compared
        [],
    ),
]
REFERENCES = [
    Row(
        {"$ref": "#/definitions/a", "definitions": {"a": _I}},
        {"$ref": "#/definitions/b", "definitions": {"b": _N}},
        ["TYPE_EXTENDED #/"],
        ["TYPE_NARROWED #/"],
    ),
    Row({"$ref": "#/definitions/a", "definitions": {"a": _I}}, _I, [], []),
    Row(
        {
            "$ref": "#/definitions/a",
            "maxLength": 3,
            "definitions": {"a": _S},
        },  # no meaning beside $ref until draft 7
        _S,
        [],
        [],
    ),
    Row(
        {**_MODERN, "$ref": "#/$defs/a", "maxLength": 3, "$defs": {"a": _S}},
        {**_MODERN, **_S},
        ["PRODUCT_TYPE_NARROWED #/"],
        ["TYPE_CHANGED #/"],
    ),
]
ROWS = [*ANNOTATIONS, *TYPES, *LIMITS, *VALUES, *PROPERTIES, *ITEMS, *UNIONS, *REFERENCES]


def _json(value: Any, **dependencies: str) -> JsonSchema:
    return JsonSchema(SchemaText(SchemaType.JSON, json.dumps(value)), dependencies)


def _changes(old: Any, new: Any) -> list[str]:
    return [f"{each.kind} {each.path}" for each in _json(new).changes(_json(old))]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.forth} {row.back}")
def test_changes_and_their_places(row: Row) -> None:
    assert (_changes(row.old, row.new), _changes(row.new, row.old)) == (row.forth, row.back)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.forth} {row.back}")
def test_levels(row: Row) -> None:
    old, new = _json(row.old), _json(row.new)
    reads_old = all(each.split()[0] in COMPATIBLE for each in row.forth)
    reads_new = all(each.split()[0] in COMPATIBLE for each in row.back)
    for level in Level:
        allowed = (reads_old or not level.new_reads_old) and (reads_new or not level.old_reads_new)
        assert (check(level, new, [old]) == []) == allowed
    lenient = all(each.split()[0] in LENIENT for each in row.forth)
    assert (check(Level.BACKWARD, new, [old], Policy.LENIENT) == []) == lenient


def test_every_kind_is_in_the_table() -> None:
    told = {each.split()[0] for row in ROWS for each in (*row.forth, *row.back)}
    assert told == COMPATIBLE | INCOMPATIBLE
    assert not COMPATIBLE & INCOMPATIBLE
    assert len(told) > 120


def test_incompatible_kinds_have_a_sentence_with_their_place() -> None:
    for row in ROWS:
        for found in _json(row.new).differences(_json(row.old)):
            assert found.path in found.description
            assert "{reader}" in found.description


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.forth} {row.back}")
def test_within_others(row: Row) -> None:
    """A verdict is the same for a property, for items, behind a reference, and as an alternative."""
    if "$schema" in str(row.old) or "$ref" in str(row):
        return
    compatible = not _json(row.new).differences(_json(row.old))
    for outer in (
        lambda inner: _open(a=inner),
        lambda inner: {"type": "array", "items": inner},
        lambda inner: {"oneOf": [inner, {"const": "other"}]},
        lambda inner: {"$ref": "#/definitions/a", "definitions": {"a": inner}},
    ):
        assert (not _json(outer(row.new)).differences(_json(outer(row.old)))) == compatible
    assert (not _json({"not": row.old}).differences(_json({"not": row.new}))) == compatible


def test_recursive_schemas_that_change_in_the_same_way() -> None:
    def tree(value: Any) -> dict[str, Any]:
        return _closed(value=value, children={"type": "array", "items": {"$ref": "#"}})

    assert _changes(tree(_I), tree(_N)) == ["TYPE_EXTENDED #/properties/value"]
    assert _changes(tree(_N), tree(_I)) == ["TYPE_NARROWED #/properties/value"]


def test_a_recursion_that_leads_to_another_place_is_noticed() -> None:
    """Confluent's registry stops where the earlier schema repeats, and takes this for compatible."""
    old = {
        "$ref": "#/definitions/a",
        "definitions": {"a": _open(n={"oneOf": [{"$ref": "#/definitions/a"}, _0]})},
    }
    new = {
        "$ref": "#/definitions/a",
        "definitions": {
            "a": _open(n={"oneOf": [{"$ref": "#/definitions/b"}, _0]}),
            "b": {**_open(n={"oneOf": [{"$ref": "#/definitions/b"}, _0]}), "maxProperties": 1},
        },
    }
    assert _json(new).differences(_json(old))
    assert not _json(old).differences(_json(new))


def test_an_assumption_that_turns_out_wrong_is_taken_back() -> None:
    """a's trial of b's alternative meets a again: what was compatible only by that must not stay so."""

    def schemas(limit: int | None) -> dict[str, Any]:
        leaf = {**_S, **({} if limit is None else {"maxLength": limit})}
        return {
            "$ref": "#/definitions/a",
            "definitions": {
                "a": _closed(b={"oneOf": [{"$ref": "#/definitions/b"}, _0]}, leaf=leaf),
                "b": _closed(a={"oneOf": [{"$ref": "#/definitions/a"}, _0]}),
            },
        }

    assert _json(schemas(3)).differences(_json(schemas(None)))
    assert not _json(schemas(None)).differences(_json(schemas(3)))


def test_references_by_name_are_compared_through() -> None:
    text = '{"type":"object","properties":{"a":{"$ref":"a.json"}}}'
    old, new = (
        JsonSchema(SchemaText(SchemaType.JSON, text), {"a.json": json.dumps(each)}) for each in (_I, _N)
    )
    assert new.differences(old) == []
    assert [each.path for each in old.differences(new)] == ["#/properties/a"]
