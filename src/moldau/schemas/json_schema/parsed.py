"""A parsed JSON Schema behind the interface of all languages (`moldau.schemas.schema.ParsedSchema`).

The canonical text is the text without spaces, in its own order; the normalised one has all members sorted.
Numbers keep their digits (1.0 stays 1.0), as in Confluent's registry. The text is kept, the nodes only for a
while.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from moldau.schemas.json_schema.changes import Change, Nested
from moldau.schemas.json_schema.comparing import compare, flat
from moldau.schemas.json_schema.kinds import COMPATIBLE, LENIENT, difference
from moldau.schemas.json_schema.loading import load
from moldau.schemas.json_schema.nodes import Node
from moldau.schemas.json_text import read, write
from moldau.schemas.recent import WEIGHT_OF_ANY, Recent
from moldau.schemas.schema import Difference, InvalidSchema, ParsedSchema, Reference, SchemaText, SchemaType

_NODES: Recent[Node] = Recent(weight_max=500_000)


class JsonSchema:
    """Understood on construction; InvalidSchema if it cannot be."""

    schema_type = SchemaType.JSON

    def __init__(self, source: SchemaText, dependencies: Mapping[str, str]) -> None:
        self.references: tuple[Reference, ...] = source.references
        self.dependencies = dependencies
        value = read(source.text, number=Decimal)
        self.name: str | None = value.get("title") if isinstance(value, dict) else None
        self.canonical = write(value)
        self._weight = WEIGHT_OF_ANY + len(self.canonical) + sum(map(len, dependencies.values()))
        _NODES.put(self, self._weight, self._load(value))

    def _load(self, value: Any) -> Node:
        try:
            return load(value, self.dependencies)
        except RecursionError:
            raise InvalidSchema("the schema nests too deep") from None

    @property
    def _root(self) -> Node:
        return _NODES.get(self, self._weight, lambda: self._load(read(self.canonical, number=Decimal)))

    def normalized(self) -> str:
        return write(_sorted(read(self.canonical, number=Decimal)))

    def formatted(self, wanted: str) -> str:
        return self.canonical

    def differences(self, writer: ParsedSchema) -> list[Difference]:
        return self._differences(writer, COMPATIBLE)

    def differences_lenient(self, writer: ParsedSchema) -> list[Difference]:
        """`differences`, where properties of open content models may come and go."""
        return self._differences(writer, LENIENT)

    def _differences(self, writer: ParsedSchema, compatible: frozenset[str]) -> list[Difference]:
        assert isinstance(writer, JsonSchema)
        if self.canonical == writer.canonical and dict(self.dependencies) == dict(writer.dependencies):
            return []
        found = compare(writer._root, self._root, compatible)

        def is_wanted(each: Change | Nested) -> bool:
            return each.kind not in compatible if isinstance(each, Change) else not each.found.compatible

        return [difference(each.kind, each.path) for each in flat(found, is_wanted)]

    def changes(self, writer: ParsedSchema) -> list[Difference]:
        """All differences to what was written with `writer`, also those that are compatible."""
        assert isinstance(writer, JsonSchema)
        found = compare(writer._root, self._root, COMPATIBLE)
        return [difference(each.kind, each.path) for each in flat(found)]


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
