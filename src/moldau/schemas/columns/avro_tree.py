"""An Avro schema as a tree of types with the names resolved, which is all that columns need of it.

Named types are shared: two uses of a record are the same object, and a recursive record contains itself. So a
walk must stop at what it has seen. Aliases, defaults and logical types are kept; a logical type that its base
does not allow is ignored, as the specification says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from moldau.schemas.schema import InvalidSchema, ParsedSchema

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

MISSING: Any = object()
"""The default of a field that has none."""

_LOGICAL_BASES = {
    "date": "int",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
}


class Logical(NamedTuple):
    """A logical type that changes the column's type."""

    name: str
    precision: int = 0
    scale: int = 0


class Field(NamedTuple):
    """A field of a record."""

    name: str
    type: AvroType
    default: Any
    aliases: tuple[str, ...]


@dataclass(eq=False, slots=True)
class AvroType:
    """One type; which attributes are used depends on `kind`."""

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[Field] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size_bytes: int = 0
    items: AvroType | None = None
    branches: list[AvroType] = field(default_factory=list)
    logical: Logical | None = None


def avro_tree(parsed: ParsedSchema) -> AvroType:
    """The tree of a parsed Avro schema, references included; InvalidSchema if a name cannot be resolved."""
    return tree_of_text(parsed.formatted("resolved"))


def tree_of_text(text: str) -> AvroType:
    """The tree of an Avro schema in JSON that defines all its names."""
    try:
        return _Builder().build(json.loads(text), "")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidSchema):
            raise
        raise InvalidSchema(f"the Avro schema cannot be read: {error!r}") from None


class _Builder:
    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def build(self, source: Any, namespace: str) -> AvroType:
        if isinstance(source, list):
            return AvroType("union", branches=[self.build(each, namespace) for each in source])
        if isinstance(source, str):
            return self._by_name(source, namespace)
        kind = source["type"]
        if not isinstance(kind, str) or kind not in _COMPLEX:
            built = self.build(kind, namespace)
            if isinstance(kind, str) and kind in PRIMITIVES:
                built.logical = _logical(source, kind, 0)
            return built
        if kind == "array":
            return AvroType("array", items=self.build(source["items"], namespace))
        if kind == "map":
            return AvroType("map", items=self.build(source["values"], namespace))
        return self._define("record" if kind == "error" else kind, source, namespace)

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        for full in (f"{namespace}.{name}" if namespace and "." not in name else name, name):
            if full in self._named:
                return self._named[full]
        raise InvalidSchema(f"the Avro schema uses the type {name}, which nothing defines")

    def _define(self, kind: str, source: dict[str, Any], namespace: str) -> AvroType:
        full, namespace = _full_name(source["name"], source.get("namespace"), namespace)
        aliases = tuple(_full_name(each, None, namespace)[0] for each in source.get("aliases", ()))
        defined = AvroType(kind, full, aliases)
        self._named[full] = defined
        if kind == "record":
            for each in source["fields"]:
                made = Field(
                    each["name"],
                    self.build(each["type"], namespace),
                    each.get("default", MISSING),
                    tuple(each.get("aliases", ())),
                )
                defined.fields.append(made)
        elif kind == "enum":
            defined.symbols = tuple(source["symbols"])
            defined.default_symbol = source.get("default")
        else:
            defined.size_bytes = int(source["size"])
            defined.logical = _logical(source, "fixed", defined.size_bytes)
        return defined


_COMPLEX = frozenset({"array", "map", "record", "error", "enum", "fixed"})


def _full_name(name: str, own_namespace: str | None, outer_namespace: str) -> tuple[str, str]:
    if "." in name:
        return name.lstrip("."), name.rpartition(".")[0]
    namespace = outer_namespace if own_namespace is None else own_namespace
    return (f"{namespace}.{name}" if namespace else name), namespace


def _logical(source: dict[str, Any], base: str, size_bytes: int) -> Logical | None:
    name = source.get("logicalType")
    if name == "decimal" and base in ("bytes", "fixed"):
        precision, scale = source.get("precision"), source.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
            return None
        digits_max = len(str(1 << (8 * size_bytes - 1))) - 1 if base == "fixed" and size_bytes else precision
        return Logical("decimal", precision, scale) if 0 < precision <= digits_max else None
    return Logical(name) if isinstance(name, str) and _LOGICAL_BASES.get(name) == base else None
