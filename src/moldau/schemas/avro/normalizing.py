"""What has no meaning in an Avro schema, put in one order: what Confluent's registry does with
normalize=true.

* Properties that Avro does not know are sorted, after the name and the parameters of a logical type; the
  members of their values and of defaults too. Aliases are sorted.
* A default is spelled as its type's values are: 1 for a double is 1.0.
* An "error" is a record; an empty doc of a type is left out.

Confluent's registry loses here the empty namespace of a type within another's namespace, and defaults that do
not fit (Avro 1.11 takes that of a union's second branch for one). These have a meaning, so they stay.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from moldau.schemas.avro.rules_new import Fits
from moldau.schemas.avro.tree import NO_DEFAULT, AvroField, AvroType
from moldau.schemas.effort import step

_LOGICAL_BASES = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "uuid": ("string", "fixed"),
    "decimal": ("bytes", "fixed"),
    "duration": ("fixed",),
}


def normalize(root: AvroType, known: Iterable[AvroType] = ()) -> AvroType:
    """A tree of its own, in which what has no meaning has one order; types in `known` (references) stay.

    TooComplex if its defaults are beyond all limits.
    """
    return _Normalizer(known).type(root)


class _Normalizer:
    def __init__(self, known: Iterable[AvroType]) -> None:
        self._made = {id(each): each for each in known}
        self._fits = Fits()

    def type(self, type_: AvroType) -> AvroType:
        step()
        if id(type_) in self._made:
            return self._made[id(type_)]
        found = replace(type_, properties=_properties(type_))
        if type_.name is not None:
            self._made[id(type_)] = found
            found.kind = "record" if type_.is_record else type_.kind
            found.doc = type_.doc or None
            found.aliases = tuple(sorted(type_.aliases, key=lambda each: each.full))
        if type_.items is not None:
            found.items = self.type(type_.items)
        found.branches = tuple([self.type(each) for each in type_.branches])
        found.fields = [self._field(each) for each in type_.fields]
        return found

    def _field(self, field: AvroField) -> AvroField:
        return replace(
            field,
            type=self.type(field.type),
            default=self._default(field),
            aliases=None if field.aliases is None else tuple(sorted(field.aliases)),
            properties=_sorted(field.properties),
        )

    def _default(self, field: AvroField) -> Any:
        if field.default is NO_DEFAULT:
            return NO_DEFAULT
        if not self._fits(field.type, field.default):
            return _sorted(field.default)
        return self._spelled(field.type, field.default)

    def _spelled(self, type_: AvroType, value: Any) -> Any:
        if type_.kind == "union":
            branch = next((each for each in type_.branches if self._fits(each, value)), None)
            return value if branch is None else self._spelled(branch, value)
        if type_.kind == "double":
            return float(value)
        if type_.kind == "float":
            return _single(float(value))
        items = type_.items
        if items is not None and isinstance(value, list):
            return [self._spelled(items, each) for each in value]
        if items is not None:
            return {name: self._spelled(items, value[name]) for name in sorted(value)}
        if type_.is_record:
            types = {each.name: each.type for each in type_.fields}
            return {
                name: self._spelled(types[name], value[name]) if name in types else _sorted(value[name])
                for name in sorted(value)
            }
        return value


def _single(value: float) -> float:
    """The float of 4 bytes that is nearest, with the fewest digits that tell it from others."""
    try:
        packed = struct.pack("f", value)
    except OverflowError:
        return value
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        if struct.pack("f", short) == packed:
            return short
    return value


def _properties(type_: AvroType) -> dict[str, Any]:
    properties: dict[str, Any] = _sorted(type_.properties)
    logical = properties.get("logicalType")
    if not isinstance(logical, str) or type_.kind not in _LOGICAL_BASES.get(logical, ()):
        return properties
    first = ["logicalType"]
    if logical == "decimal":
        precision, scale = properties.get("precision"), properties.get("scale", 0)
        if not _is_decimal(precision, scale):
            return properties
        first += ["precision", "scale"] if scale else ["precision"]
    return {name: properties[name] for name in dict.fromkeys([*first, *properties])}


def _is_decimal(precision: Any, scale: Any) -> bool:
    numbers = all(isinstance(each, int) and not isinstance(each, bool) for each in (precision, scale))
    return numbers and precision > 0 and 0 <= scale <= precision


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
