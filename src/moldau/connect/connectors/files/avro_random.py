"""Values of an Avro schema, drawn at random; `arg.properties` narrow them (datagen.py).

One source of randomness and one number go in: the same give the same value.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Mapping
from typing import Any

from moldau.connect.errors import ConnectError
from moldau.connect.schema import Schema, Type, array_schema, map_schema, struct_schema

Draw = Callable[[random.Random, int], Any]
_PLAIN = {
    "boolean": Type.BOOLEAN,
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "string": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
    "enum": Type.STRING,
}
_RANGES = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
_DEPTH_MAX = 50
_COUNT_MAX = 10_000
_PIECE = re.compile(r"(?:\[([^\]]+)\]|\\(d|w)|\((.*?)\)|\\?(.))(?:\{(\d+)(?:,(\d+))?\}|([*+?]))?")


class RandomAvro:
    """Of one schema."""

    def __init__(self, avro: Any) -> None:
        """ConnectError: it is none, or what it asks for cannot be drawn."""
        self._known: dict[str, tuple[Schema, Draw]] = {}
        try:
            self.schema, self._draw = self._of(avro, 0)
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            raise ConnectError(f"the Avro schema cannot be used: {wrong!r}") from wrong

    def value(self, source: random.Random, number: int) -> Any:
        """The value of record `number`."""
        return self._draw(source, number)

    def _of(self, avro: Any, depth: int) -> tuple[Schema, Draw]:
        if depth > _DEPTH_MAX:
            raise ConnectError(f"the schema is nested deeper than {_DEPTH_MAX}")
        if isinstance(avro, str):
            if avro in self._known:
                return self._known[avro]
            if avro != "null" and avro not in _PLAIN:
                raise ConnectError(f"the schema has the unknown type {avro}")
            avro = {"type": avro}
        if isinstance(avro, list):
            return self._union(avro, depth)
        kind = avro["type"]
        if isinstance(kind, (dict, list)):
            return self._of(kind, depth + 1)
        if kind in self._known:
            return self._known[kind]
        schema, draw = self._by_kind(kind, avro, avro.get("arg.properties", {}), depth)
        if "name" in avro and kind in ("record", "enum", "fixed"):
            self._known[avro["name"]] = schema, draw
        return schema, draw

    def _by_kind(self, kind: str, avro: Any, given: Mapping[str, Any], depth: int) -> tuple[Schema, Draw]:
        if kind == "record":
            return self._record(avro, depth)
        if kind == "array":
            items, draw = self._of(avro["items"], depth + 1)
            length = _length(given)
            return array_schema(items), lambda source, number: [
                draw(source, number) for _ in range(length(source))
            ]
        if kind == "map":
            items, draw = self._of(avro["values"], depth + 1)
            length = _length(given)
            keys = Schema(Type.STRING)
            return map_schema(keys, items), lambda source, number: {
                _letters(source, 8): draw(source, number) for _ in range(length(source))
            }
        return Schema(_PLAIN[kind]), _given(given) or _plain(kind, avro, given)

    def _record(self, avro: Any, depth: int) -> tuple[Schema, Draw]:
        fields: dict[str, tuple[Schema, Draw]] = {}
        for each in avro["fields"]:
            kind = each["type"]
            if "arg.properties" in each and not isinstance(kind, list):
                kind = {**({"type": kind} if isinstance(kind, str) else kind)}
                kind["arg.properties"] = each["arg.properties"]
            fields[each["name"]] = self._of(kind, depth + 1)
        name = ".".join(each for each in (avro.get("namespace"), avro.get("name")) if each)
        schema = struct_schema({each: found for each, (found, _) in fields.items()}, name or None)
        draws = {each: draw for each, (_, draw) in fields.items()}
        return schema, lambda source, number: {each: draw(source, number) for each, draw in draws.items()}

    def _union(self, avro: list[Any], depth: int) -> tuple[Schema, Draw]:
        branches = [each for each in avro if each != "null"]
        if len(branches) != 1:
            raise ConnectError("a union may have one type beside null")
        schema, draw = self._of(branches[0], depth + 1)
        if len(branches) == len(avro):
            return schema, draw
        return (
            schema.as_optional(),
            lambda source, number: None if source.random() < 0.1 else draw(source, number),
        )


def _given(given: Mapping[str, Any]) -> Draw | None:
    """What the properties say, whatever the type."""
    if "options" in given:
        options = list(given["options"])
        return lambda source, _: source.choice(options)
    if "iteration" in given:
        step, start = given["iteration"].get("step", 1), given["iteration"].get("start", 0)
        restart = given["iteration"].get("restart")
        span = None if restart is None else max(int((restart - start) / step), 1)
        return lambda _, number: start + step * (number if span is None else number % span)
    return None


def _plain(kind: str, avro: Any, given: Mapping[str, Any]) -> Draw:
    if kind == "enum":
        symbols = list(avro["symbols"])
        return lambda source, _: source.choice(symbols)
    if kind == "fixed":
        size = int(avro["size"])
        return lambda source, _: source.randbytes(size)
    if kind == "boolean":
        odds = float(given.get("odds", 0.5))
        return lambda source, _: source.random() < odds
    bounds = given.get("range", {})
    if kind in _RANGES:
        low, high = _RANGES[kind]
        first, last = int(bounds.get("min", low)), int(bounds.get("max", high + 1)) - 1
        return lambda source, _: source.randint(first, max(first, last))
    if kind in ("float", "double"):
        least, most = float(bounds.get("min", 0.0)), float(bounds.get("max", 1.0))
        return lambda source, _: source.uniform(least, most)
    length = _length(given)
    if kind == "bytes":
        return lambda source, _: source.randbytes(length(source))
    if "regex" in given:
        pieces = _pieces(str(given["regex"]))
        return lambda source, _: "".join(each(source) for each in pieces)
    return lambda source, _: _letters(source, length(source))


def _length(given: Mapping[str, Any]) -> Callable[[random.Random], int]:
    length = given.get("length", {"min": 1, "max": 16})
    if isinstance(length, int):
        return lambda _: min(length, _COUNT_MAX)
    low, high = int(length.get("min", 0)), min(int(length.get("max", 16)), _COUNT_MAX)
    return lambda source: source.randint(low, max(low, high - 1))


def _letters(source: random.Random, count: int) -> str:
    return "".join(source.choices(string.ascii_letters, k=count))


def _pieces(text: str) -> list[Callable[[random.Random], str]]:
    """A pattern of characters, classes, alternatives in brackets, and counts."""
    made: list[Callable[[random.Random], str]] = []
    for found in _PIECE.finditer(text):
        group, short, nested, char, low, high, sign = found.groups()
        first = int(low) if low else {"*": 0, "?": 0}.get(sign or "", 1)
        last = int(high) if high else (first if low else {"*": 8, "+": 8}.get(sign or "", 1))
        if nested is not None:
            one = _alternatives([_pieces(each) for each in nested.removeprefix("?:").split("|")])
        elif short is not None:
            one = _sign(string.digits if short == "d" else string.ascii_letters + string.digits + "_")
        else:
            one = _sign(_class(group) if group is not None else char)
        made.append(_repeated(one, first, min(last, _COUNT_MAX)))
    return made


def _sign(signs: str) -> Callable[[random.Random], str]:
    return lambda source: source.choice(signs)


def _alternatives(
    branches: list[list[Callable[[random.Random], str]]],
) -> Callable[[random.Random], str]:
    return lambda source: "".join(each(source) for each in source.choice(branches))


def _repeated(one: Callable[[random.Random], str], first: int, last: int) -> Callable[[random.Random], str]:
    return lambda source: "".join(one(source) for _ in range(source.randint(first, max(first, last))))


def _class(text: str) -> str:
    """The characters of [a-z0-9_]."""
    signs = ""
    at = 0
    while at < len(text):
        if at + 2 < len(text) and text[at + 1] == "-":
            signs += "".join(map(chr, range(ord(text[at]), ord(text[at + 2]) + 1)))
            at += 3
        else:
            signs += text[at]
            at += 1
    if not signs:
        raise ConnectError(f"the class [{text}] has no characters")
    return signs
