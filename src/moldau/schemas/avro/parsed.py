"""A parsed Avro schema behind the interface of all languages (`moldau.schemas.schema.ParsedSchema`).

The text is kept, the tree only for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.schemas.avro.comparing import compare
from moldau.schemas.avro.normalizing import normalize
from moldau.schemas.avro.parsing import parse_avro
from moldau.schemas.avro.printing import print_avro
from moldau.schemas.avro.rules_new import check_new
from moldau.schemas.avro.tree import AvroType, all_types
from moldau.schemas.recent import WEIGHT_OF_ANY, Recent
from moldau.schemas.schema import (
    Difference,
    InvalidSchema,
    ParsedSchema,
    Reference,
    SchemaText,
    SchemaType,
    TooComplex,
)


class _Tree(NamedTuple):
    root: AvroType
    referenced: list[AvroType]
    """All types that are defined by references."""


_TREES: Recent[_Tree] = Recent(weight_max=500_000)


class AvroSchema:
    """Understood on construction; InvalidSchema if it cannot be."""

    schema_type = SchemaType.AVRO

    def __init__(self, source: SchemaText, dependencies: Mapping[str, str]) -> None:
        self.references: tuple[Reference, ...] = source.references
        self.dependencies = dependencies
        self._text = source.text
        self._weight = WEIGHT_OF_ANY + len(source.text) + sum(map(len, dependencies.values()))
        tree = self._parse()
        _TREES.put(self, self._weight, tree)
        self.name = tree.root.full_name if tree.root.is_record else None
        self.canonical = print_avro(*tree)

    def _parse(self) -> _Tree:
        try:
            root, referenced = parse_avro(self._text, self.dependencies)
        except RecursionError:
            raise InvalidSchema("the schema nests too deep") from None
        # Avro's library prints by name only the types that references are themselves, and defines those
        # within them again: a text that it then refuses to read, as defined twice.
        return _Tree(
            root, [each for every in referenced for each in all_types(every) if each.name is not None]
        )

    @property
    def _tree(self) -> _Tree:
        return _TREES.get(self, self._weight, self._parse)

    @property
    def root(self) -> AvroType:
        """The schema's type, with the names resolved, those of references too."""
        return self._tree.root

    def normalized(self) -> str:
        root, referenced = self._tree
        return print_avro(normalize(root, referenced), referenced)

    def formatted(self, wanted: str) -> str:
        """ "resolved": with the definitions of the references in it; TooComplex if that nests too deep."""
        if wanted.lower() != "resolved":
            return self.canonical
        try:
            return print_avro(self._tree.root)
        except RecursionError:
            raise TooComplex("with its references in it, the schema nests too deep") from None

    def differences(self, writer: ParsedSchema) -> list[Difference]:
        assert isinstance(writer, AvroSchema)
        return compare(self._tree.root, writer._tree.root)

    def validate_new(self) -> None:
        """InvalidSchema for what only schemas of earlier times may have (`languages.parse_new`)."""
        check_new(self._tree.root)
