"""Parses a schema of any language; a language is imported when its first schema comes."""

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, runtime_checkable

from moldau.schemas.schema import Language, ParsedSchema, SchemaText, SchemaType

_PACKAGES = {
    SchemaType.AVRO: "moldau.schemas.avro",
    SchemaType.JSON: "moldau.schemas.json_schema",
    SchemaType.PROTOBUF: "moldau.schemas.protobuf",
}
_NO_DEPENDENCIES: Mapping[str, str] = {}


def language(schema_type: SchemaType) -> Language:
    """The language of this name."""
    found: Language = import_module(_PACKAGES[schema_type]).LANGUAGE
    return found


def parse(source: SchemaText, dependencies: Mapping[str, str] = _NO_DEPENDENCIES) -> ParsedSchema:
    """Understand a schema; see `Language.parse`. InvalidSchema if it cannot be."""
    return language(source.schema_type).parse(source, dependencies)


@runtime_checkable
class _HasRulesForNew(Protocol):
    def validate_new(self) -> None: ...


def parse_new(source: SchemaText, dependencies: Mapping[str, str] = _NO_DEPENDENCIES) -> ParsedSchema:
    """As `parse`, for a schema that is to be registered now.

    Some rules came later than the first schemas, which must stay readable: a default that fits its type,
    names of letters, digits and underscores (Avro). InvalidSchema also for what breaks these.
    """
    parsed = parse(source, dependencies)
    if isinstance(parsed, _HasRulesForNew):
        parsed.validate_new()
    return parsed
