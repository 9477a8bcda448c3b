"""Resolves a declaration: annotations into wire types, defaults, and the fields of one version.

`declare.py` keeps annotations as strings so that importing it costs nothing; this module evaluates them, once
a class, when the compiler first needs them. Both code writers (`decoder.py`, `encoder.py`) use this only.
"""

from __future__ import annotations

import sys
import types
from functools import cache
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from moldau.common.protocol.declare import IMPLICIT, Fixed, Sized, Struct


class Array(NamedTuple):
    """A wire type: a count, then the elements."""

    element: WireType


class Nested(NamedTuple):
    """A wire type: the fields of a struct, one after the other."""

    struct: type[Struct]


WireType = Fixed | Sized | Array | Nested


class Column(NamedTuple):
    """One field in all versions."""

    name: str
    type: WireType
    default: Any
    since: int
    until: int | None
    nullable_since: int | None
    tag: int | None
    ignorable: bool

    def present(self, version: int) -> bool:
        """Whether `version` has this field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable(self, version: int) -> bool:
        """Whether null is a legal value in `version`."""
        return self.nullable_since is not None and version >= self.nullable_since


@cache
def columns(cls: type[Struct]) -> tuple[Column, ...]:
    """The fields of a struct, in wire order."""
    names = vars(sys.modules[cls.__module__])
    resolved = []
    for name, (annotation, declared) in cls.FIELDS.items():
        wire_type, nullable = _wire_type(eval(annotation, names))
        default = _implied_default(wire_type) if declared.default is IMPLICIT else declared.default
        if default is None and not nullable:
            raise TypeError(f"{cls.__name__}.{name} has the default None, but its type has no null")
        resolved.append(
            Column(
                name=name,
                type=wire_type,
                default=default,
                since=declared.since,
                until=declared.until,
                nullable_since=declared.nullable_since if nullable else None,
                tag=declared.tag,
                ignorable=declared.ignorable,
            )
        )
    return tuple(resolved)


def _wire_type(annotation: Any) -> tuple[WireType, bool]:
    """The wire type of an evaluated annotation, and whether it includes null."""
    origin = get_origin(annotation)
    if origin is Annotated:
        kind = annotation.__metadata__[0]
        return kind, isinstance(kind, Sized) and kind.nullable
    if origin is types.UnionType or origin is Union:
        inner = next(part for part in get_args(annotation) if part is not type(None))
        return _wire_type(inner)[0], True
    if origin is list:
        return Array(_wire_type(get_args(annotation)[0])[0]), False
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return Nested(annotation), False
    raise TypeError(f"{annotation!r} is not a wire type")


def _implied_default(wire_type: WireType) -> Any:
    """Zero, nothing, null for records; IMPLICIT for lists and structs, which each message needs anew."""
    if isinstance(wire_type, Fixed):
        return wire_type.default
    if isinstance(wire_type, Sized):
        return {"string": "", "bytes": b"", "records": None}[wire_type.kind]
    return IMPLICIT


def holds_records(cls: type[Struct]) -> bool:
    """Whether a struct has record batches, at any depth: such frames are never copied whole."""
    return any(_holds_records(column.type) for column in columns(cls))


def _holds_records(wire_type: WireType) -> bool:
    if isinstance(wire_type, Array):
        return _holds_records(wire_type.element)
    if isinstance(wire_type, Nested):
        return holds_records(wire_type.struct)
    return isinstance(wire_type, Sized) and wire_type.kind == "records"


def min_size_bytes(wire_type: WireType, version: int, flexible: bool) -> int:
    """The minimum size of a non-null value on the wire: it bounds an array's count before it is read."""
    if isinstance(wire_type, Fixed):
        return wire_type.size_bytes
    if isinstance(wire_type, Nested):
        inline = [c for c in columns(wire_type.struct) if c.tag is None and c.present(version)]
        # A nullable struct may be its marker byte alone.
        markers = [c for c in inline if isinstance(c.type, Nested) and c.nullable(version)]
        others = [min_size_bytes(c.type, version, flexible) for c in inline if c not in markers]
        return len(markers) + sum(others) + flexible
    if flexible:
        return 1
    return 2 if isinstance(wire_type, Sized) and wire_type.kind == "string" else 4
