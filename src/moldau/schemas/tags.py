"""Tags within a schema's text: added to records and fields, or taken away (confluent:tags).

    Avro, JSON Schema   "confluent:tags": ["PII"] of a record or field, an object or property
    Protobuf            option (confluent.message_meta) and (confluent.field_meta): tags of a message or field

An entity is named by a path: `shop.Order.item` in Avro (the namespace may be left out), `object.item` in JSON
Schema (steps through `array`, `definitions.Name`, `$defs.Name`, `not`), `Order.item` in Protobuf (within
messages, and of a oneof). As Confluent's ParsedSchema.copy with tags. Not here: what a request asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from moldau.schemas.schema import InvalidSchema, SchemaType

TAGS = "confluent:tags"
_MODULES = {
    SchemaType.AVRO: "moldau.schemas.avro.tagging",
    SchemaType.JSON: "moldau.schemas.json_schema.tagging",
    SchemaType.PROTOBUF: "moldau.schemas.protobuf.tagging",
}


class TagChange(NamedTuple):
    """What becomes of the tags of one entity."""

    path: str
    is_field: bool
    """A field (property); else a record (object, message)."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def steps(self) -> list[str]:
        """The parts of the path."""
        return self.path.removeprefix(".").split(".")

    def applied(self, tags: Sequence[str]) -> list[str]:
        """The tags after the change, each once."""
        removed = frozenset(self.removed)
        return [each for each in dict.fromkeys((*tags, *self.added)) if each not in removed]


def with_tags(schema_type: SchemaType, canonical: str, changes: Sequence[TagChange]) -> str:
    """The text with other tags. InvalidSchema if it has nothing at one of the paths."""
    text: str = import_module(_MODULES[schema_type]).with_tags(canonical, changes)
    return text


def change_member(node: dict[str, Any], change: TagChange) -> None:
    """Change the tags of a JSON object."""
    before = node.get(TAGS)
    tags = change.applied([str(each) for each in before] if isinstance(before, list) else [])
    if tags:
        node[TAGS] = tags
    else:
        node.pop(TAGS, None)


def no_such_path(change: TagChange) -> InvalidSchema:
    """The refusal for a path that leads nowhere."""
    return InvalidSchema(f"No matching path '{change.path}' found in the schema")
