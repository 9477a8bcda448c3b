"""An Avro schema as types whose names are resolved: a use of a named type is the type itself, so trees may be
cyclic.

Types compare by identity. Whoever walks them stops at named types that it has seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = frozenset({"record", "error", "enum", "fixed"})

NO_DEFAULT: Any = object()
"""The default of a field that has none; None is the default null."""


class Name(NamedTuple):
    """A name, and the namespace that it is in (None: in none)."""

    simple: str
    space: str | None

    @property
    def full(self) -> str:
        return f"{self.space}.{self.simple}" if self.space else self.simple

    @classmethod
    def of(cls, text: str, space: str | None) -> Name:
        """`text` as it was written in the namespace `space`; with dots it has its own."""
        before, dot, simple = text.rpartition(".")
        return cls(simple, (before if dot else space) or None)


@dataclass(eq=False, slots=True)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    doc: str | None
    default: Any
    order: str
    aliases: tuple[str, ...] | None
    properties: dict[str, Any]


@dataclass(eq=False, slots=True)
class AvroType:
    """A type. What is set besides `kind` and `properties` depends on `kind`."""

    kind: str
    properties: dict[str, Any] = field(default_factory=dict)
    name: Name | None = None
    doc: str | None = None
    aliases: tuple[Name, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size_bytes: int = 0
    items: AvroType | None = None
    """Of an array; the values of a map."""
    branches: tuple[AvroType, ...] = ()

    @property
    def full_name(self) -> str:
        """The name in a union: of a named type its full name, of others what they are."""
        return self.name.full if self.name else self.kind

    @property
    def is_record(self) -> bool:
        return self.kind in ("record", "error")

    def inner(self) -> tuple[AvroType, ...]:
        """The types that this one is made of."""
        if self.items is not None:
            return (self.items,)
        return self.branches or tuple(each.type for each in self.fields)


def all_types(root: AvroType) -> list[AvroType]:
    """Every type in a schema once."""
    seen = {id(root)}
    found = [root]
    for each in found:
        for inner in each.inner():
            if id(inner) not in seen:
                seen.add(id(inner))
                found.append(inner)
    return found
