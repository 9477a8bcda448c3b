"""A schema in Avro, as others see it. See `moldau.schemas.schema.ParsedSchema`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from moldau.schemas.avro.comparing import compare
from moldau.schemas.avro.normalizing import normalize
from moldau.schemas.avro.parsing import parse_avro
from moldau.schemas.avro.printing import print_avro
from moldau.schemas.avro.rules_new import check_new
from moldau.schemas.avro.tree import AvroType, all_types
from moldau.schemas.schema import (
    Difference,
    InvalidSchema,
    ParsedSchema,
    Reference,
    SchemaText,
    SchemaType,
    TooComplex,
)


class AvroSchema:
    """Understood on construction; InvalidSchema if it cannot be."""

    schema_type = SchemaType.AVRO

    def __init__(self, source: SchemaText, dependencies: Mapping[str, str]) -> None:
        self.references: tuple[Reference, ...] = source.references
        self.dependencies = dependencies
        self.root: AvroType
        try:
            self.root, referenced = parse_avro(source.text, dependencies)
        except RecursionError:
            raise InvalidSchema("the schema nests too deep") from None
        # Avro's library prints by name only the types that references are themselves, and defines those
        # within them again: a text that it then refuses to read, as defined twice.
        self._referenced = [each for root in referenced for each in all_types(root) if each.name is not None]

    @property
    def name(self) -> str | None:
        return self.root.full_name if self.root.is_record else None

    @cached_property
    def canonical(self) -> str:
        return print_avro(self.root, self._referenced)

    def normalized(self) -> str:
        return print_avro(normalize(self.root, self._referenced), self._referenced)

    def formatted(self, wanted: str) -> str:
        """ "resolved": with the definitions of the references in it; TooComplex if that nests too deep."""
        if wanted.lower() != "resolved":
            return self.canonical
        try:
            return print_avro(self.root)
        except RecursionError:
            raise TooComplex("with its references in it, the schema nests too deep") from None

    def differences(self, writer: ParsedSchema) -> list[Difference]:
        assert isinstance(writer, AvroSchema)
        return compare(self.root, writer.root)

    def validate_new(self) -> None:
        """InvalidSchema for what only schemas of earlier times may have (`languages.parse_new`)."""
        check_new(self.root)
