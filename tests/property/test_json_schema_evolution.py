"""JSON Schemas evolve by allowed and forbidden steps; what the registry says is what really validating shows.

A step happens somewhere deep in a schema. Values that the earlier schema allows are validated with the later
one by the package jsonschema: after an allowed step all of them are valid, after a forbidden one the step's
own value is not.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.schemas.compatibility import Level, check
from moldau.schemas.languages import parse_new
from moldau.schemas.schema import ParsedSchema, SchemaText, SchemaType


class Step(NamedTuple):
    """A schema before and after, and values that the first allows."""

    old: Any
    new: Any
    values: list[Any]


_S, _N, _I, _0 = ({"type": each} for each in ("string", "number", "integer", "null"))
_ARRAY = {"type": "array"}


def _closed(*required: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def _open(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _tuple(*items: Any, rest: Any = True) -> dict[str, Any]:
    return {"type": "array", "items": list(items), "additionalItems": rest}


# A step, and values of its earlier schema, that show the difference on the way back if there is one.
ALLOWED = [
    Step({**_S, "maxLength": 3}, {**_S, "maxLength": 5}, ["", "abc"]),
    Step({**_S, "minLength": 3}, _S, ["abc"]),
    Step({**_S, "pattern": "^a"}, _S, ["abc"]),
    Step({**_N, "maximum": 3}, {**_N, "maximum": 3.5}, [3, -1]),
    Step({**_N, "exclusiveMinimum": 0}, {**_N, "exclusiveMinimum": -1}, [0.5]),
    Step({**_I, "multipleOf": 6}, {**_I, "multipleOf": 3}, [12, 0]),
    Step(_I, _N, [1]),
    Step(_I, {}, [1]),
    Step({"enum": ["a", 1]}, {"enum": [1, "a", None]}, ["a", 1]),
    Step({**_S, "enum": ["a"]}, _S, ["a"]),
    Step({"not": _N}, {"not": _I}, ["x", None]),
    Step(_closed(a=_S), _closed(a=_S, b=_I), [{}, {"a": "x"}]),
    Step(_closed("a", a=_S), _closed(a=_S), [{"a": "x"}]),
    Step(_open(a=_S), _open(), [{}, {"a": "x", "b": 3}]),
    Step(_closed(a=_S), _open(a=_S), [{}, {"a": "x"}]),
    Step({**_closed(a=_S), "additionalProperties": _I}, _open(a=_S), [{"a": "x", "b": 1}]),
    Step(_closed(a=_I), {**_closed(), "additionalProperties": _N}, [{"a": 1}, {}]),
    Step({"type": "object", "minProperties": 2}, {"type": "object", "minProperties": 1}, [{"a": 1, "b": 2}]),
    Step({"type": "object", "maxProperties": 1}, {"type": "object"}, [{"a": 1}]),
    Step({**_open(), "dependencies": {"a": ["b", "c"]}}, {**_open(), "dependencies": {"a": ["b"]}}, [{}]),
    Step({**_ARRAY, "items": _I}, {**_ARRAY, "items": _N}, [[1, 2], []]),
    Step({**_ARRAY, "maxItems": 2}, {**_ARRAY, "maxItems": 3}, [[1, 2]]),
    Step({**_ARRAY, "uniqueItems": True}, _ARRAY, [[1, 2]]),
    Step(_tuple(_S, rest=False), _tuple(_S, _I, rest=False), [["x"], []]),
    Step(_tuple(_S, _I), _tuple(_S), [["x", 1, None]]),
    Step(_S, {"type": ["string", "null"]}, ["x"]),
    Step({"oneOf": [_S, _0]}, {"oneOf": [_0, _N, _S]}, ["x", None]),
    Step({"oneOf": [_S, _0]}, {"anyOf": [_S, _0]}, ["x", None]),
    Step({"allOf": [_S, {"minLength": 2}]}, {"allOf": [_S]}, ["xy"]),
    Step(_I, {"$ref": "#/definitions/number"}, [1]),
]
# The last value is the one that the later schema refuses.
FORBIDDEN = [
    Step({**_S, "maxLength": 5}, {**_S, "maxLength": 3}, ["abcd"]),
    Step(_S, {**_S, "minLength": 3}, ["ab"]),
    Step(_S, {**_S, "pattern": "^a"}, ["x"]),
    Step({**_S, "pattern": "^b"}, {**_S, "pattern": "^a"}, ["b"]),
    Step({**_N, "maximum": 3.5}, {**_N, "maximum": 3}, [3.25]),
    Step(_N, {**_N, "exclusiveMinimum": 0}, [0]),
    Step({**_I, "multipleOf": 3}, {**_I, "multipleOf": 6}, [9]),
    Step({**_I, "multipleOf": 3}, {**_I, "multipleOf": 5}, [3]),
    Step(_N, _I, [0.5]),
    Step(_S, _N, ["x"]),
    Step({}, _S, [1]),
    Step({"enum": [1, "a"]}, {"enum": [1]}, ["a"]),
    Step({"const": 1}, {"const": 2}, [1]),
    Step({"not": _I}, {"not": _N}, [0.5]),
    Step(_closed(a=_S, b=_I), _closed(a=_S), [{"b": 1}]),
    Step(_closed(a=_S), _closed("a", a=_S), [{}]),
    Step(_closed(), _closed("a", a=_S), [{}]),
    Step(_open(), _open(a=_S), [{"a": 1}]),
    Step(_open(a=_S), _closed(a=_S), [{"b": 1}]),
    Step(_open(), {**_open(), "additionalProperties": _I}, [{"b": "x"}]),
    Step(_closed(a=_S), {**_closed(), "additionalProperties": _N}, [{"a": "x"}]),
    Step({"type": "object"}, {"type": "object", "minProperties": 1}, [{}]),
    Step(_open(), {**_open(), "dependencies": {"a": ["b"]}}, [{"a": 1}]),
    Step(_ARRAY, {**_ARRAY, "items": _N}, [["x"]]),
    Step({**_ARRAY, "maxItems": 3}, {**_ARRAY, "maxItems": 2}, [[1, 2, 3]]),
    Step(_ARRAY, {**_ARRAY, "uniqueItems": True}, [[1, 1]]),
    Step(_tuple(_S, _I, rest=False), _tuple(_S, rest=False), [["x", 1]]),
    Step(_tuple(_S), _tuple(_S, _I), [["x", "y"]]),
    Step({"type": ["string", "null"]}, _S, [None]),
    Step({"oneOf": [_S, _0, _N]}, {"oneOf": [_0, _S]}, [1]),
    Step({"anyOf": [_I, _N]}, {"oneOf": [_I, _N]}, [1]),
    Step({"allOf": [_S]}, {"allOf": [_S, {"minLength": 2}]}, ["x"]),
    Step(_N, {"$ref": "#/definitions/integer"}, [0.5]),
]
_DEFINITIONS = {"number": _N, "integer": _I}
_Wrap = Callable[[Any], Any]
_OTHER = {"const": "the other alternative"}
_AROUND: list[tuple[_Wrap, _Wrap]] = [
    (lambda of: _closed("p", p=of), lambda value: {"p": value}),
    (lambda of: {**_open(p=of, q=_S), "required": ["p"]}, lambda value: {"p": value, "q": "x", "r": 1}),
    (lambda of: {**_closed(), "additionalProperties": of}, lambda value: {"any": value}),
    (lambda of: {"type": "array", "items": of}, lambda value: [value]),
    (lambda of: _tuple(_S, of), lambda value: ["x", value, 1]),
    (lambda of: {"oneOf": [_OTHER, of]}, lambda value: value),
    (lambda of: {"anyOf": [of, _OTHER]}, lambda value: value),
    (lambda of: {"not": {"not": of}}, lambda value: value),
    (lambda of: {"allOf": [of]}, lambda value: value),
]


def _embedded(step: Step, random: Random) -> Step:
    for _ in range(random.randrange(4)):
        of_schema, of_value = random.choice(_AROUND)
        step = Step(of_schema(step.old), of_schema(step.new), [of_value(each) for each in step.values])
    return Step(
        {**step.old, "definitions": _DEFINITIONS}, {**step.new, "definitions": _DEFINITIONS}, step.values
    )


def _parsed(schema: Any) -> ParsedSchema:
    return parse_new(SchemaText(SchemaType.JSON, json.dumps(schema)))


def _is_valid(value: Any, schema: Any) -> bool:
    # What is validated with is what the registry gives out: the canonical text.
    canonical = json.loads(_parsed(schema).canonical)
    return bool(jsonschema.Draft7Validator(canonical).is_valid(value))


@given(st.sampled_from(ALLOWED), st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_allowed_steps_are_compatible_and_keep_values_valid(step: Step, random: Random) -> None:
    step = _embedded(step, random)
    assert check(Level.BACKWARD, _parsed(step.new), [_parsed(step.old)]) == []
    assert check(Level.FORWARD, _parsed(step.old), [_parsed(step.new)]) == []
    for value in step.values:
        assert _is_valid(value, step.old)
        assert _is_valid(value, step.new)


@given(st.sampled_from(FORBIDDEN), st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_forbidden_steps_are_neither(step: Step, random: Random) -> None:
    step = _embedded(step, random)
    assert check(Level.BACKWARD, _parsed(step.new), [_parsed(step.old)])
    assert check(Level.FORWARD, _parsed(step.old), [_parsed(step.new)])
    assert check(Level.FULL_TRANSITIVE, _parsed(step.new), [_parsed(step.new), _parsed(step.old)])
    assert _is_valid(step.values[-1], step.old)
    assert not _is_valid(step.values[-1], step.new)


@given(st.lists(st.sampled_from(ALLOWED), min_size=1, max_size=4), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_allowed_steps_side_by_side(steps: list[Step], random: Random) -> None:
    old: dict[str, Any] = {}
    new: dict[str, Any] = {}
    value = {}
    for index, each in enumerate(steps):
        step = _embedded(each, random)
        old[f"s{index}"], new[f"s{index}"], value[f"s{index}"] = step.old, step.new, step.values[-1]
    together = Step(*({**_closed(**each), "definitions": _DEFINITIONS} for each in (old, new)), [value])
    assert check(Level.BACKWARD, _parsed(together.new), [_parsed(together.old)]) == []
    assert _is_valid(value, together.old)
    assert _is_valid(value, together.new)
