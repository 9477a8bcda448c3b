"""A record in a request of v3: from JSON to what is written, and its delivery report.

    {"partition_id": 1, "headers": [{"name": "a", "value": "aGVsbG8="}], "timestamp": "2026-11-23T10:00:00Z",
     "key": {"type": "BINARY", "data": "Zm9v"}, "value": {"schema_version": 2, "data": {"city": "Praha"}}}

Everything may be left out. Without a type a key or value has a schema: that of schema_id, of schema_version
in its subject, or the subject's newest.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.services.http.problems import HttpProblem
from moldau.services.kafka.producing import Delivered, OutgoingRecord
from moldau.services.rest.embedded import BadData, Format, format_of, to_bytes
from moldau.services.rest.schema_choice import SchemaChoice, SchemaCoder
from moldau.services.rest.v3 import fields
from moldau.services.rest.v3.errors import INVALID_PAYLOAD, PARTITION_NOT_FOUND

if TYPE_CHECKING:
    from moldau.services.rest.schema_choice import Schemas

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT32_LEAST = -(2**31)
_SCHEMA_FIELDS = ("subject", "subject_name_strategy", "schema_id", "schema_version", "schema")


class EncodedPart(NamedTuple):
    """A key or value as it is written."""

    format: Format
    data: bytes | None
    coder: SchemaCoder | None

    def report(self) -> dict[str, Any]:
        """What a delivery report says of it."""
        shown: dict[str, Any] = {"type": self.format.name}
        if self.coder is not None:
            shown["subject"] = self.coder.subject
            shown["schema_id"] = self.coder.schema_id
            shown["schema_version"] = self.coder.version
        shown["size"] = len(self.data or b"")
        return shown


class ProducedRecord(NamedTuple):
    """A record that is ready to be written."""

    outgoing: OutgoingRecord
    key: EncodedPart | None
    value: EncodedPart | None


async def read_record(
    schemas: Schemas, topic: str, body: Mapping[str, Any], may_write: Callable[[str], bool]
) -> ProducedRecord:
    """Understand one record; `may_write` is for subjects. HttpProblem 400, 40301, 40402, 42205 to 42207."""
    partition = fields.optional_number(body, "partition_id", least=_INT32_LEAST)
    if partition is not None and partition < 0:
        raise HttpProblem(PARTITION_NOT_FOUND, "Partition not found.")
    headers = [_header(each) for each in fields.objects(body, "headers")]
    timestamp_ms = _timestamp_ms(body)
    key = await _part(schemas, topic, body, "key", may_write)
    value = await _part(schemas, topic, body, "value", may_write)
    outgoing = OutgoingRecord(
        key.data if key else None, value.data if value else None, partition, timestamp_ms, headers
    )
    return ProducedRecord(outgoing, key, value)


def report(cluster_id: str, topic: str, record: ProducedRecord, delivered: Delivered) -> dict[str, Any]:
    """The delivery report of a record that was written, without error_code."""
    shown: dict[str, Any] = {
        "cluster_id": cluster_id,
        "topic_name": topic,
        "partition_id": delivered.partition,
        "offset": delivered.offset,
    }
    if delivered.timestamp_ms is not None:
        shown["timestamp"] = timestamp_text(delivered.timestamp_ms)
    if record.key is not None:
        shown["key"] = record.key.report()
    if record.value is not None:
        shown["value"] = record.value.report()
    return shown


def timestamp_text(timestamp_ms: int) -> str:
    """Milliseconds since 1970 in ISO 8601, as Java's Instant prints them: no fraction where there is none."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    precision = "milliseconds" if timestamp_ms % 1000 else "seconds"
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def timestamp_of(text: str, name: str) -> int:
    """Milliseconds since 1970 of a text in ISO 8601; of UTC where it names no zone. HttpProblem 400."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise HttpProblem(
            400, f"{name} must read like 2026-11-23T10:00:00Z, and not {fields.shown(text)}."
        ) from None


def _timestamp_ms(body: Mapping[str, Any]) -> int | None:
    text = fields.optional_text(body, "timestamp")
    if text is None:
        return None
    found = timestamp_of(text, "timestamp")
    if found <= 0:  # librdkafka takes 0 for the moment of writing
        raise HttpProblem(400, f"timestamp must be later than 1970-01-01T00:00:00Z, and not {text}.")
    return found


def _header(each: Mapping[str, Any]) -> tuple[str, bytes | None]:
    name = fields.text(each, "name")
    if "\0" in name:  # for librdkafka it would end there
        raise HttpProblem(400, "The name of a header has a NUL character.")
    value = fields.optional_text(each, "value")
    try:
        return name, None if value is None else base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise HttpProblem(400, f"The value of header {fields.shown(name)} is no base64.") from None


async def _part(
    schemas: Schemas, topic: str, body: Mapping[str, Any], name: str, may_write: Callable[[str], bool]
) -> EncodedPart | None:
    given = fields.optional_object(body, name)
    if given is None:
        return None
    wanted = _format(given)
    data = given.get("data")
    try:
        if wanted is not None and wanted.schema_type is None:
            for field in _SCHEMA_FIELDS:
                if given.get(field) is not None:
                    raise HttpProblem(
                        INVALID_PAYLOAD, f"Payload error. type={wanted.name} cannot be used with {field}."
                    )
            return EncodedPart(wanted, to_bytes(wanted, data), None)
        coder = await schemas.coder(topic, name == "key", _choice(given, wanted), may_write)
        found = format_of(coder.schema_type)
        if data is None:
            return EncodedPart(found, None, coder)
        return EncodedPart(found, await schemas.in_thread(coder.write, data), coder)
    except BadData as wrong:
        raise HttpProblem(400, f"Bad Request: {wrong}") from None


def _format(given: Mapping[str, Any]) -> Format | None:
    text = fields.optional_text(given, "type")
    if text is None:
        return None
    if text.upper() not in Format.__members__:
        known = ", ".join(Format.__members__)
        raise HttpProblem(400, f"type {fields.shown(text)} is not known: there are {known}.")
    return Format[text.upper()]


def _choice(given: Mapping[str, Any], wanted: Format | None) -> SchemaChoice:
    schema_id = fields.optional_number(given, "schema_id", least=0)
    schema_version = fields.optional_number(given, "schema_version", least=1)
    schema = fields.optional_text(given, "schema")
    if wanted is not None and schema is None:
        named = [name for name in ("schema_id", "schema_version") if given.get(name) is not None]
        without = f", and cannot be used with {' or '.join(named)}" if named else ""
        raise HttpProblem(INVALID_PAYLOAD, f"Payload error. type={wanted.name} needs schema{without}.")
    return SchemaChoice(
        wanted,
        fields.optional_text(given, "subject"),
        fields.optional_text(given, "subject_name_strategy"),
        schema_id,
        schema_version,
        schema,
    )
