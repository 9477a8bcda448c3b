"""What columns need of an Avro schema's tree (schemas/avro/tree.py): names as texts, errors as records, and
logical types understood.

Named types are shared: two uses of a record are the same object, and a recursive record contains itself. So a
walk must stop at what it has seen. A logical type that its base does not allow is ignored, as the
specification says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from moldau.schemas.avro import tree
from moldau.schemas.avro.parsed import AvroSchema
from moldau.schemas.schema import InvalidSchema, ParsedSchema

DEPTH_MAX = 200
"""Nor do kernels read records that are deeper."""
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
    """The types of a parsed Avro schema, references included; InvalidSchema if it nests too deep."""
    assert isinstance(parsed, AvroSchema)
    return _of(parsed.root, {}, 0)


def _of(source: tree.AvroType, known: dict[int, AvroType], depth: int) -> AvroType:
    """`known` are the types so far, by the source's identity: whatever is used again is shared."""
    if id(source) in known:
        return known[id(source)]
    if depth > DEPTH_MAX:
        raise InvalidSchema(f"with its references in it, the Avro schema nests deeper than {DEPTH_MAX} types")
    made = known[id(source)] = AvroType("record" if source.is_record else source.kind)
    made.name = source.name.full if source.name else ""
    made.aliases = tuple(each.full for each in source.aliases)
    made.symbols, made.default_symbol = tuple(source.symbols), source.default_symbol
    made.size_bytes = source.size_bytes
    made.items = None if source.items is None else _of(source.items, known, depth + 1)
    made.branches = [_of(each, known, depth + 1) for each in source.branches]
    for each in source.fields:
        default = MISSING if each.default is tree.NO_DEFAULT else each.default
        made.fields.append(Field(each.name, _of(each.type, known, depth + 1), default, each.aliases or ()))
    made.logical = _logical(source.properties, made.kind, made.size_bytes)
    return made


def _logical(source: Mapping[str, Any], base: str, size_bytes: int) -> Logical | None:
    name = source.get("logicalType")
    if name == "decimal" and base in ("bytes", "fixed"):
        precision, scale = source.get("precision"), source.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
            return None
        digits_max = (
            int((8 * size_bytes - 1) * math.log10(2)) if base == "fixed" and size_bytes else precision
        )
        return Logical("decimal", precision, scale) if 0 < precision <= digits_max else None
    return Logical(name) if isinstance(name, str) and _LOGICAL_BASES.get(name) == base else None
