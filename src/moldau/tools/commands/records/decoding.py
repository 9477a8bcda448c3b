"""`moldau consume --schema-registry`: keys and values as what their schemas say.

    auto        decoded where a schema is named, in the first bytes or a header; shown as it is otherwise
    raw         shown as it is
    avro, json-schema, protobuf     must be of this language

A decoded value stands in `%v` as JSON on one line, and in --json as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.common.core.message_headers import message_headers
from moldau.tools.commands.records.render import ConsumedRecord, Renderer, json_fields
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.schema_coding import (
    LANGUAGES,
    json_bytes,
    open_registry,
    record_reader,
    require_language,
    told_plainly,
)

FORMS = ("auto", "raw", *LANGUAGES)
_Shown = tuple[Any, int | str] | None
"""A decoded value with its schema's id or GUID; None: not decoded."""


def require_form(form: str, option: str) -> None:
    """UsageError if a form is not known."""
    if form not in FORMS:
        raise UsageError(f"{option} {form} is not known: it is one of {', '.join(FORMS)}")


class DecodedRecord:
    """A record of confluent-kafka whose key and value may be decoded."""

    def __init__(self, record: Any, key: _Shown, value: _Shown, with_ids: bool) -> None:
        self._record = record
        self._key = key
        self._value = value
        self._with_ids = with_ids

    def __getattr__(self, name: str) -> Any:
        return getattr(self._record, name)

    def key(self) -> Any:
        """The key, as text if it is decoded."""
        return self._text(self._key, self._record.key())

    def value(self) -> Any:
        """The value, as text if it is decoded."""
        return self._text(self._value, self._record.value())

    def _text(self, shown: _Shown, data: bytes | None) -> bytes | None:
        if shown is None:
            return data
        return json_bytes(shown[0]) + (f"\t{shown[1]}".encode() if self._with_ids else b"")

    def as_json(self) -> dict[str, Any]:
        """The record for --json."""
        fields = json_fields(self._record)
        for name, shown in (("key", self._key), ("value", self._value)):
            if shown is not None:
                fields[name] = shown[0]
                fields[f"{name}_schema"] = shown[1]
        return fields


def decoding(
    renderer: Renderer, conf: dict[str, str], key_form: str, value_form: str, with_ids: bool, as_json: bool
) -> Renderer:
    """Return a renderer that decodes first. CommandError at a record that cannot be decoded."""
    reader = record_reader(open_registry(conf))

    def part(record: ConsumedRecord, data: bytes | None, is_key: bool, form: str) -> _Shown:
        headers: Sequence[tuple[str, bytes | None]] = message_headers(record)
        if data is None or form == "raw" or (form == "auto" and not _names_schema(data, headers, is_key)):
            return None
        what = f"{record.topic()}[{record.partition()}] at offset {record.offset()}: the "
        what += f"{'key' if is_key else 'value'} cannot be decoded: "
        try:
            with told_plainly(what):
                found = reader.read(data, is_key, headers)
                if form != "auto":
                    require_language(found, form)
        except CommandError as problem:
            option = "--key-format" if is_key else "--value-format"
            raise CommandError(f"{problem} ({option} raw shows it as it is)") from None
        return found.value, found.schema

    def render(record: ConsumedRecord, count: int) -> bytes:
        decoded = DecodedRecord(
            record,
            part(record, record.key(), True, key_form),
            part(record, record.value(), False, value_form),
            with_ids,
        )
        return json_bytes(decoded.as_json()) + b"\n" if as_json else renderer(decoded, count)

    return render


def _names_schema(data: bytes, headers: Sequence[tuple[str, bytes | None]], is_key: bool) -> bool:
    from moldau.schemas import wire

    try:
        wire.unpack_record(data, headers, is_key)
    except wire.WireError:
        return False
    return True
