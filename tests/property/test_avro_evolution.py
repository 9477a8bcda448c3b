"""Avro schemas evolve by allowed and forbidden steps; what the registry says is what really decoding shows.

A step happens somewhere deep in a schema. Values are written with the earlier schema and read with the later
one by fastavro, whose rules are its own: allowed steps must be compatible and decode, forbidden ones neither.
"""

import io
import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.schemas.compatibility import Level, check
from moldau.schemas.languages import parse_new
from moldau.schemas.schema import ParsedSchema, SchemaText, SchemaType


class Step(NamedTuple):
    """A type before and after, and a value that shows the difference."""

    old: Any
    new: Any
    value: Any


def _record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Stepped", "fields": list(fields)}


def _field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def _enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "Stepped", "symbols": list(symbols), **more}


def _fixed(size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": "Stepped", "size": size}


_A = _field("a", "int")
_PROMOTIONS = [
    ("int", "long", 7),
    ("int", "float", 7),
    ("int", "double", 7),
    ("long", "float", 7),
    ("long", "double", 7),
    ("float", "double", 0.5),
    ("string", "bytes", "text"),
    ("bytes", "string", b"text"),
]
ALLOWED = [
    *(Step(old, new, value) for old, new, value in _PROMOTIONS),
    Step(_record(_A), _record(_A, _field("b", "string", default="x")), {"a": 1}),
    Step(_record(_A), _record(_A, _field("b", ["null", "string"], default=None)), {"a": 1}),
    Step(_record(_A, _field("b", "string")), _record(_A), {"a": 1, "b": "x"}),
    Step(_record(_A, _field("b", "string")), _record(_field("b", "string"), _A), {"a": 1, "b": "x"}),
    Step(_record(_A), _record(_field("c", "long", aliases=["a"])), {"a": 1}),
    Step(_enum("X", "Y"), _enum("Y", "X", "Z"), "X"),
    Step(_enum("X", "Y"), _enum("Y", default="Y"), "X"),
    Step("int", ["null", "int"], 7),
    Step(["null", "int"], ["string", "long", "null"], 7),
    Step(["int"], "long", 7),
]
FORBIDDEN = [
    *(Step(new, old, value) for old, new, value in _PROMOTIONS if new not in ("string", "bytes")),
    Step("int", "string", 7),
    Step("string", "boolean", "x"),
    Step("null", "int", None),
    Step(_record(_A), _record(_A, _field("b", "string")), {"a": 1}),
    Step(_record(_A), _record(_field("c", "int")), {"a": 1}),
    Step(_enum("X", "Y"), _enum("Y"), "X"),
    Step(_fixed(2), _fixed(3), b"ab"),
    Step(["null", "int"], "int", None),
    Step(["null", "string"], ["null", "int"], "x"),
    Step({"type": "array", "items": "string"}, {"type": "array", "items": "int"}, ["x"]),
    Step({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, {"a": 1}),
]
_Wrap = Callable[[Any], Any]


def _around(random: Random) -> tuple[_Wrap, _Wrap]:
    """A place within another type: how the type is put there, and a value of it."""
    name = f"Outer{random.randrange(10**9)}"
    others = [_field(f"f{index}", random.choice(["int", "string"])) for index in range(random.randrange(3))]
    values = {each["name"]: 5 if each["type"] == "int" else "x" for each in others}
    position = random.randrange(len(others) + 1)
    choices: list[tuple[_Wrap, _Wrap]] = [
        (lambda of: {"type": "array", "items": of}, lambda value: [value, value]),
        (lambda of: {"type": "map", "values": of}, lambda value: {"key": value}),
        (
            lambda of: {
                "type": "record",
                "name": name,
                "fields": [*others[:position], _field("stepped", of), *others[position:]],
            },
            lambda value: {**values, "stepped": value},
        ),
        (
            lambda of: {
                "type": "record",
                "name": name,
                "fields": [_field("maybe", ["null", _in_record(name, of)])],
            },
            lambda value: {"maybe": {"stepped": value}},
        ),
    ]
    return random.choice(choices)


def _in_record(name: str, of: Any) -> dict[str, Any]:
    return {"type": "record", "name": f"{name}Inner", "fields": [_field("stepped", of)]}


def _embedded(step: Step, random: Random) -> Step:
    for _ in range(random.randrange(4)):
        of_type, of_value = _around(random)
        step = Step(of_type(step.old), of_type(step.new), of_value(step.value))
    return step


def _parsed(schema: Any) -> ParsedSchema:
    return parse_new(SchemaText(SchemaType.AVRO, json.dumps(schema)))


def _decode(step: Step) -> Any:
    # What is decoded with is what the registry gives out: the canonical text.
    old, new = (fastavro.parse_schema(json.loads(_parsed(each).canonical)) for each in (step.old, step.new))
    written = io.BytesIO()
    fastavro.schemaless_writer(written, old, step.value)
    written.seek(0)
    return fastavro.schemaless_reader(written, old, new)


@given(st.sampled_from(ALLOWED), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_allowed_steps_are_compatible_and_decode(step: Step, random: Random) -> None:
    step = _embedded(step, random)
    old, new = _parsed(step.old), _parsed(step.new)
    assert check(Level.BACKWARD, new, [old]) == []
    assert check(Level.FORWARD_TRANSITIVE, old, [new]) == []
    _decode(step)


@given(st.sampled_from(FORBIDDEN), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_forbidden_steps_are_neither(step: Step, random: Random) -> None:
    step = _embedded(step, random)
    old, new = _parsed(step.old), _parsed(step.new)
    assert check(Level.BACKWARD, new, [old])
    assert check(Level.FORWARD, old, [new])
    assert check(Level.FULL, new, [old])
    with pytest.raises((fastavro.read.SchemaResolutionError, ValueError, KeyError)):
        _decode(step)


@given(st.lists(st.sampled_from(ALLOWED), min_size=1, max_size=4), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_allowed_steps_side_by_side(steps: list[Step], random: Random) -> None:
    """Several fields that evolve at once, each in names of its own."""
    olds, news, values = [], [], {}
    for index, step in enumerate(steps):
        step = _embedded(step, random)
        rename = ('"Stepped"', f'"Stepped{index}"')
        olds.append(_field(f"s{index}", json.loads(json.dumps(step.old).replace(*rename))))
        news.append(_field(f"s{index}", json.loads(json.dumps(step.new).replace(*rename))))
        values[f"s{index}"] = step.value
    random.shuffle(news)
    top = {"type": "record", "name": "Top"}
    together = Step({**top, "fields": olds}, {**top, "fields": news}, values)
    assert check(Level.BACKWARD, _parsed(together.new), [_parsed(together.old)]) == []
    _decode(together)
