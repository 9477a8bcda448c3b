"""A record that was read, as JSON of a response.

    {"partition_id": 0, "offset": 17, "timestamp": "2026-11-23T10:00:00Z", "timestamp_type": "CREATE_TIME",
     "headers": [{"name": "a", "value": "aGVsbG8="}],
     "key": {"type": "STRING", "data": "Praha"}, "value": {"type": "AVRO", "schema_id": 3, "data": {...}}}

A key or value that is not of the format asked for is shown as BINARY, with the reason beside it: one odd
record does not end the reading of a topic.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

from moldau.common.core.compact_json import compact_json
from moldau.services.http.problems import HttpProblem
from moldau.services.kafka.reading import ReadRecord
from moldau.services.rest.embedded import BadData, Format, format_of, json_text, to_json_text
from moldau.services.rest.v3.fields import shown
from moldau.services.rest.v3.produced_record import timestamp_text

if TYPE_CHECKING:
    from moldau.schemas.serde.records import RecordReader
    from moldau.services.rest.schema_choice import Schemas

_TURN_BYTES_MAX = 256 * 1024
"""What is made to JSON at a time: the event loop has its turn in between."""
_BY_SCHEMA = "SCHEMA"
"""Whatever language the schema that a record names is of."""
FORMATS = (*(each.name for each in Format), _BY_SCHEMA)


def format_named(text: str | None, name: str) -> str:
    """A format of the query, in capitals; BINARY where it is not said. HttpProblem 400."""
    wanted = (text or Format.BINARY.name).upper()
    if wanted not in FORMATS:
        raise HttpProblem(400, f"{name}={shown(text)} is not known: there are {', '.join(FORMATS).lower()}.")
    return wanted


class RecordShower:
    """Makes JSON texts of records, in the formats that were asked for."""

    def __init__(self, schemas: Schemas, key_format: str, value_format: str) -> None:
        """HttpProblem if a format needs a registry and none is set."""
        self._schemas = schemas
        self._key_format = key_format
        self._value_format = value_format
        self._reader: RecordReader | None = None
        if any(_needs_schema(each) for each in (key_format, value_format)):
            self._reader = schemas.reader

    async def texts(self, records: Sequence[ReadRecord]) -> list[bytes]:
        """The records' JSON; decoding by schemas happens in a thread."""
        if self._reader is None:
            texts, turn_bytes = [], 0
            for each in records:
                texts.append(self._text(each))
                turn_bytes += each.size_bytes
                if turn_bytes > _TURN_BYTES_MAX:
                    turn_bytes = 0
                    await asyncio.sleep(0)
            return texts
        found: list[bytes] = await self._schemas.in_thread(lambda: [self._text(each) for each in records])
        return found

    def _text(self, record: ReadRecord) -> bytes:
        parts: dict[str, Any] = {"partition_id": record.partition, "offset": record.offset}
        if record.timestamp_ms is not None:
            parts["timestamp"] = timestamp_text(record.timestamp_ms)
            parts["timestamp_type"] = "LOG_APPEND_TIME" if record.is_log_append_time else "CREATE_TIME"
        parts["headers"] = [
            {"name": name, "value": None if value is None else base64.b64encode(value).decode()}
            for name, value in record.headers
        ]
        parts["key"] = self._part(record, record.key, self._key_format, is_key=True)
        parts["value"] = self._part(record, record.value, self._value_format, is_key=False)
        return compact_json(parts)

    def _part(self, record: ReadRecord, data: bytes | None, wanted: str, *, is_key: bool) -> Any:
        if data is None:
            return None
        try:
            if _needs_schema(wanted):
                return self._by_schema(record, data, wanted, is_key)
            return {"type": wanted, "data": orjson.Fragment(to_json_text(Format[wanted], data))}
        except BadData as wrong:
            text = orjson.Fragment(to_json_text(Format.BINARY, data))
            return {"type": "BINARY", "data": text, "error": str(wrong)}

    def _by_schema(self, record: ReadRecord, data: bytes, wanted: str, is_key: bool) -> dict[str, Any]:
        from moldau.schemas.registry_client import RegistryError
        from moldau.schemas.serde import SerdeError

        assert self._reader is not None
        try:
            decoded = self._reader.read(data, is_key, record.headers)
        except (SerdeError, RegistryError) as problem:
            raise BadData(str(problem)) from None
        found = format_of(decoded.parsed.schema_type).name
        if wanted not in (found, _BY_SCHEMA):
            raise BadData(f"it was written with a schema of type {found}, and not {wanted}")
        named = "schema_id" if isinstance(decoded.schema, int) else "schema_guid"
        return {"type": found, named: decoded.schema, "data": orjson.Fragment(json_text(decoded.value))}


def _needs_schema(wanted: str) -> bool:
    return wanted == _BY_SCHEMA or Format[wanted].schema_type is not None
