"""Keys and values of records as JSON: wire format, registry and coder put together.

`RecordReader` finds the schema that a key or value names (in its first bytes or in a header) and returns what
it says; `RecordWriter` does the way back for one schema.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock
from typing import NamedTuple

from moldau.schemas import wire
from moldau.schemas.schema import JsonValue, ParsedSchema, SchemaType
from moldau.schemas.serde import Serde, SerdeError, serde_for

CODERS_KEPT = 1_000

Headers = Iterable[tuple[str, bytes | None]]


class Decoded(NamedTuple):
    """A key or value, and the schema that it was written with."""

    value: JsonValue
    schema: int | str
    """Its id, or its GUID."""
    parsed: ParsedSchema


class RecordReader:
    """Decodes keys and values; threads may share it."""

    def __init__(self, schema_by: Callable[[int | str], ParsedSchema]) -> None:
        """`schema_by` returns the schema with an id or GUID: `RegistryClient.by_id_or_guid`."""
        self._schema_by = schema_by
        self._lock = Lock()
        self._coders: OrderedDict[tuple[int | str, tuple[int, ...]], Serde] = OrderedDict()

    def read(self, data: bytes, is_key: bool, headers: Headers | None = None) -> Decoded:
        """Return what a key or value says.

        SerdeError if it names no schema or was not written with it; what `schema_by` raises otherwise.
        """
        try:
            kept = list(headers) if headers is not None else None
            schema, _, offset = wire.unpack_record(data, kept, is_key)
            parsed = self._schema_by(schema)
            indexes: tuple[int, ...] = ()
            if parsed.schema_type is SchemaType.PROTOBUF:
                _, indexes, offset = wire.unpack_record(data, kept, is_key, with_indexes=True)
        except wire.WireError as problem:
            raise SerdeError(str(problem)) from None
        return Decoded(self._coder(schema, indexes, parsed).to_json(data[offset:]), schema, parsed)

    def _coder(self, schema: int | str, indexes: tuple[int, ...], parsed: ParsedSchema) -> Serde:
        key = (schema, indexes)
        with self._lock:
            found = self._coders.get(key)
            if found is not None:
                self._coders.move_to_end(key)
                return found
        made = serde_for(parsed, indexes or None)
        with self._lock:
            self._coders[key] = made
            while len(self._coders) > CODERS_KEPT:
                self._coders.popitem(last=False)
        return made


class RecordWriter:
    """Encodes keys or values with one schema; threads may share it."""

    def __init__(self, schema_id: int, parsed: ParsedSchema, indexes: tuple[int, ...] | None = None) -> None:
        """SerdeError if the schema cannot code values, or has no message with these indexes (Protobuf)."""
        self._serde = serde_for(parsed, indexes)
        self._header = wire.pack_header(schema_id, self._serde.message_indexes)

    def write(self, value: JsonValue) -> bytes:
        """Return the bytes of a value, the schema's id in front. SerdeError."""
        return self._header + self._serde.from_json(value)
