"""Values as bytes: JSON values to payloads and back, by a schema in any of the three languages.

The JSON forms are those of Confluent's REST proxy and console tools: Avro's JSON encoding (unions tagged with
their branch, bytes as text of code points below 256), JSON itself (checked when it is written), and
Protobuf's JSON mapping. A payload has no header here (../wire.py); records.py puts both together.

For one value at a time: columns are read and written by ../columns/.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

from moldau.schemas.schema import JsonValue, ParsedSchema, SchemaType

_MODULES = {
    SchemaType.AVRO: "moldau.schemas.serde.avro",
    SchemaType.JSON: "moldau.schemas.serde.json_schema",
    SchemaType.PROTOBUF: "moldau.schemas.serde.protobuf",
}


class SerdeError(ValueError):
    """A value does not fit its schema, or bytes were not written with it; the message says where and why."""


class Serde(Protocol):
    """Codes values of one schema."""

    @property
    def message_indexes(self) -> tuple[int, ...] | None:
        """Protobuf: which message of the file it codes (`wire.pack_header`); None in other languages."""
        ...

    def from_json(self, value: JsonValue) -> bytes:
        """Return the payload of what `json.loads` gave. SerdeError."""
        ...

    def to_json(self, payload: bytes) -> JsonValue:
        """Return a payload's value, as `json.dumps` takes it. SerdeError."""
        ...


def serde_for(parsed: ParsedSchema, indexes: Sequence[int] | None = None) -> Serde:
    """Return a coder for a schema; `indexes` choose the message of a Protobuf file, or else the first one.

    Worth keeping: it is compiled once. SerdeError if there is no such message.
    """
    made: Serde = import_module(_MODULES[parsed.schema_type]).make(parsed, indexes)
    return made
