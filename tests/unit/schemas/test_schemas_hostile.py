"""Schemas that are written to do harm: to nest, to multiply, to repeat, to be large. Each ends in an answer
or an error.

Sizes are such that work that grows with the square of them, or with the number of ways through a schema,
would take minutes: the suite's timeout is the test.
"""

import json
import re
from typing import Any

import pytest

from moldau.schemas.avro import comparing, rules_new
from moldau.schemas.json_schema.loading import LEVELS_MAX
from moldau.schemas.json_text import NESTING_MAX, TEXT_CHARACTERS_MAX
from moldau.schemas.languages import parse, parse_new
from moldau.schemas.schema import InvalidSchema, ParsedSchema, SchemaText, SchemaType, TooComplex


def _avro(value: Any) -> ParsedSchema:
    return parse(SchemaText(SchemaType.AVRO, value if isinstance(value, str) else json.dumps(value)))


def _json(value: Any, **dependencies: str) -> ParsedSchema:
    text = value if isinstance(value, str) else json.dumps(value)
    return parse(SchemaText(SchemaType.JSON, text), dependencies)


def _record(name: str, *fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": of} for each, of in fields],
        **more,
    }


@pytest.mark.parametrize("of", [_avro, _json])
def test_too_long(of: Any) -> None:
    with pytest.raises(InvalidSchema, match="characters"):
        of(f'{{"doc":"{"x" * TEXT_CHARACTERS_MAX}"}}')


@pytest.mark.parametrize(
    "text",
    ["[" * 1_000_000, '{"not":' * 300_000, '{"a":' * 900 + "1" + "}" * 900, "[" * 10_000 + "]" * 10_000],
    ids=["arrays", "unclosed", "a little too deep", "closed"],
)
@pytest.mark.parametrize("of", [_avro, _json])
def test_too_deep(of: Any, text: str) -> None:
    with pytest.raises(InvalidSchema):
        of(text)


def test_as_deep_as_allowed() -> None:
    depth = NESTING_MAX - 1
    array = _avro('{"type":"array","items":' * depth + '"int"' + "}" * depth)
    assert array.differences(_avro(array.normalized())) == []
    depth = LEVELS_MAX - 1
    for keyword in ("not", "items", "additionalProperties"):
        start, end = f'{{"{keyword}":' * depth, "}" * depth
        inner = _json(f'{start}{{"type":"string"}}{end}')
        assert len(inner.differences(_json(f'{start}{{"type":"null"}}{end}'))) == 1
        assert inner.normalized() == inner.canonical
        with pytest.raises(InvalidSchema, match="within one another"):
            _json(f'{{"{keyword}":{start}{{"type":"string"}}{end}}}')


@pytest.mark.parametrize(
    "text",
    [
        '{"maximum":' + "9" * 100_000 + "}",
        '{"maximum":1e999999999999999999999}',
        '{"maximum":-Infinity}',
    ],
)
def test_numbers_beyond_all_bounds(text: str) -> None:
    with pytest.raises(InvalidSchema):
        _json(text)


def test_numbers_of_many_zeros_are_not_written_out() -> None:
    huge = _json('{"type":"number","maximum":1e99999999,"multipleOf":1e-99999999}')
    kinds = {each.kind for each in _json('{"type":"number","maximum":1,"multipleOf":3}').differences(huge)}
    assert kinds == {"MAXIMUM_DECREASED", "MULTIPLE_OF_CHANGED"}


@pytest.mark.parametrize(
    "text",
    ["/*" * 500_000, '"/' + '\\"' * 500_000, '"/' + '\\"' * 500_000 + "\\", "/" * 1_000_000, '"/*' * 300_000],
    ids=["comments", "a text", "a text and half an escape", "slashes", "texts"],
)
def test_comments_that_never_end(text: str) -> None:
    with pytest.raises(InvalidSchema):
        _avro(text)


def test_values_behind_a_quotation_mark_in_a_comment_count() -> None:
    with pytest.raises(InvalidSchema, match="more than 200000 values"):
        _avro('[/*"*/' + "[]," * 150_000 + "[]]")


def test_a_chain_of_records() -> None:
    def chain(leaf: str) -> ParsedSchema:
        names = [_record(f"R{index}", ("inner", f"R{index - 1}")) for index in range(1, 4_000)]
        return _avro([_record("R0", ("leaf", leaf)), *names])

    ints, longs, strings = chain("int"), chain("long"), chain("string")
    assert longs.differences(ints) == []
    found = strings.differences(ints)
    assert 0 < len(found) <= 1_000
    assert max(len(each.path) for each in found) < 100_000
    assert len(_avro(ints.canonical).normalized()) > 200_000


def test_types_that_are_used_twice_two_hundred_times_over() -> None:
    """2**200 ways lead to the leaf."""

    def doubling(leaf: str) -> ParsedSchema:
        last: Any = _record("R0", ("leaf", leaf))
        for index in range(1, 50):
            last = _record(f"R{index}", ("a", last), ("b", f"R{index - 1}"))
        return _avro(last)

    assert doubling("long").differences(doubling("int")) == []
    assert 0 < len(doubling("string").differences(doubling("int"))) <= 1_000

    def json_doubling(leaf: str) -> ParsedSchema:
        parts: dict[str, Any] = {"d0": {"type": leaf}}
        for index in range(1, 200):
            below = {"$ref": f"#/definitions/d{index - 1}"}
            parts[f"d{index}"] = {"type": "object", "properties": {"a": below, "b": below}}
        return _json({"$ref": "#/definitions/d199", "definitions": parts})

    assert json_doubling("number").differences(json_doubling("integer")) == []
    assert 0 < len(json_doubling("string").differences(json_doubling("integer"))) <= 1_000


def test_large_unions() -> None:
    def union(leaf: str, count: int = 1_500) -> ParsedSchema:
        return _avro([_record(f"U{index}", ("leaf", leaf)) for index in range(count)])

    assert union("long").differences(union("int")) == []
    assert len(union("int").differences(union("string"))) == 1_000  # as many as are told

    def one_of(leaf: str, count: int) -> ParsedSchema:
        parts = [
            {"type": "object", "properties": {f"p{index}": {"type": leaf}}, "additionalProperties": False}
            for index in range(count)
        ]
        return _json({"oneOf": parts})

    assert one_of("number", 1_001).differences(one_of("number", 1_000)) == []
    with pytest.raises(TooComplex, match="unions of 1000 and 1000"):
        one_of("number", 1_000).differences(one_of("integer", 1_000))


def test_unions_whose_every_branch_may_be_every_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "PAIRS_MAX", 20_000)

    def same_names(leaf: str) -> ParsedSchema:
        return _avro([_record("U", ("leaf", leaf), namespace=f"n{index}") for index in range(500)])

    with pytest.raises(TooComplex):
        same_names("string").differences(same_names("int"))


def test_records_that_contain_each_other_in_every_way() -> None:
    """Every alternative of every part may be every part: the ways through are as many as orders of 25
    things."""

    def all_in_all(leaf: str) -> ParsedSchema:
        every = [{"$ref": f"#/definitions/r{index}"} for index in range(25)]
        part = {"type": "object", "properties": {"leaf": {"type": leaf}, "next": {"oneOf": every}}}
        return _json({**every[0], "definitions": {f"r{index}": part for index in range(25)}})

    assert all_in_all("number").differences(all_in_all("integer")) == []
    assert all_in_all("integer").differences(all_in_all("number"))


def test_many_symbols_and_values() -> None:
    def enum(count: int) -> ParsedSchema:
        return _avro({"type": "enum", "name": "E", "symbols": [f"S{index}" for index in range(count)]})

    assert enum(50_001).differences(enum(50_000)) == []
    assert len(enum(50_000).differences(enum(50_001))) == 1
    values = _json({"enum": list(range(100_000))})
    assert [each.kind for each in values.differences(_json({"enum": list(range(100_001))}))] == [
        "ENUM_ARRAY_NARROWED"
    ]


def test_many_fields() -> None:
    fields = [(f"f{index}", "int") for index in range(10_000)]
    wide = _avro(_record("W", *fields))
    assert wide.differences(_avro(wide.normalized())) == []
    assert len(wide.differences(_avro(_record("W")))) == 1_000


def test_catastrophic_patterns_are_run_in_linear_time_or_refused() -> None:
    def closed(patterns: dict[str, Any], names: list[str]) -> ParsedSchema:
        properties = {name: {"type": "string"} for name in names}
        return _json(
            {
                "type": "object",
                "properties": properties,
                "patternProperties": patterns,
                "additionalProperties": False,
            }
        )

    names = ["a" * length + "!" for length in range(1, 100)]
    patterns = {f"^(a+)+(a|a)*{index}$": {"type": "string"} for index in range(100)}
    found = closed(patterns, []).differences(closed({}, names))
    assert {each.kind for each in found} == {"PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"}
    with pytest.raises(TooComplex):
        closed({f"p{index}": {} for index in range(2_000)}, []).differences(
            closed({}, [*map(str, range(2_000))])
        )
    expanding = _json({"pattern": "(((a{100}){100}){100}){100}", "type": "string"})
    assert [each.kind for each in expanding.differences(_json({"type": "string"}))] == ["PATTERN_ADDED"]
    assert closed({"(((a{100}){100}){100}){100}": {}}, []).differences(closed({}, ["a"]))


def test_a_pattern_is_not_run_by_re(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = "(x+x+)+y_not_seen_elsewhere"
    seen = []
    compile_ = re.compile
    monkeypatch.setattr(re, "compile", lambda text, *more: (seen.append(text), compile_(text, *more))[1])
    value = {
        "type": "object",
        "patternProperties": {pattern: {"pattern": pattern}},
        "additionalProperties": False,
    }
    _json(value).differences(
        _json({"type": "object", "properties": {"x" * 40: {}}, "additionalProperties": False})
    )
    assert pattern not in seen


def test_references_by_the_thousand() -> None:
    parts: dict[str, Any] = {f"d{index}": {"$ref": f"#/definitions/d{index + 1}"} for index in range(5_000)}
    chain = _json({"$ref": "#/definitions/d0", "definitions": {**parts, "d5000": {"type": "string"}}})
    assert chain.differences(_json({"type": "string"})) == []
    parts["d4999"] = {"$ref": "#/definitions/d0"}
    with pytest.raises(InvalidSchema, match="leads to itself"):
        _json({"$ref": "#/definitions/d0", "definitions": parts})
    identities = {f"d{index}": {"$id": f"http://example.com/{index}/"} for index in range(5_000)}
    _json({"definitions": identities})
    with pytest.raises(InvalidSchema):
        _json({"$ref": "#" + "/properties/a" * 100_000})


def test_a_recursive_default_is_checked_once_for_what_it_has() -> None:
    deep: Any = None
    for _ in range(60):
        deep = {"next": deep}
    node = {"name": "next", "type": ["null", "Node"], "default": deep}
    text = json.dumps({"type": "record", "name": "Node", "fields": [node]})
    parse_new(SchemaText(SchemaType.AVRO, text))
    with pytest.raises(InvalidSchema):
        parse_new(SchemaText(SchemaType.AVRO, text.replace("null}", "3}")))


def test_defaults_that_many_branches_could_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every level has two branches that could have the value: trying each for each other is 2**60."""
    records = [_record(name, ("next", ["null", "A", "B"])) for name in "AB"]
    records[0]["fields"][0]["type"] = ["null", "A", records[1]]
    value: Any = 3
    for _ in range(60):
        value = {"next": value}
    text = json.dumps(_record("Top", ("a", records[0]), ("b", ["null", "A", "B"])))
    with_default = text.replace(
        '["null", "A", "B"]}]}', f'["null", "A", "B"], "default": {json.dumps(value)}}}]}}'
    )
    parsed = parse(SchemaText(SchemaType.AVRO, with_default))
    with pytest.raises(InvalidSchema, match="Invalid default"):
        parse_new(SchemaText(SchemaType.AVRO, with_default))
    assert parsed.normalized()
    many = [*(_record(f"R{index}", ("x", "int")) for index in range(1_000)), _record("Y", ("y", "int"))]
    field = {"name": "f", "type": {"type": "array", "items": many}, "default": [{"y": 1}] * 1_000}
    monkeypatch.setattr(rules_new, "TRIALS_MAX", 10_000)
    with pytest.raises(TooComplex):
        parse_new(SchemaText(SchemaType.AVRO, json.dumps({**_record("Top"), "fields": [field]})))


def test_references_to_references_by_the_hundred() -> None:
    texts = {"r0": json.dumps(_record("R0", ("x", "int")))}
    for index in range(1, 400):
        texts[f"r{index}"] = json.dumps(_record(f"R{index}", ("x", f"R{index - 1}")))
    parsed = parse(SchemaText(SchemaType.AVRO, '["null","R399"]'), texts)
    assert parsed.canonical == parsed.normalized() == '["null","R399"]'
    assert parsed.differences(parsed) == []
    with pytest.raises(TooComplex):
        parsed.formatted("resolved")
