"""A schema from a file (or standard input): its language by the file's name, its references by options."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from moldau.tools.shared.errors import UsageError

_BY_SUFFIX = {".avsc": "AVRO", ".proto": "PROTOBUF"}
_BY_WORD = {
    "avro": "AVRO",
    "json": "JSON",
    "json-schema": "JSON",
    "jsonschema": "JSON",
    "protobuf": "PROTOBUF",
}
_AVRO_TYPES = ("record", "enum", "fixed", "error")


def request_body(file: str, schema_type: str | None, references: list[str] | None) -> dict[str, Any]:
    """What is sent to the registry. UsageError."""
    text = _read(file)
    language = _language(file, text, schema_type)
    body: dict[str, Any] = {"schema": text, "schemaType": language}
    if references:
        body["references"] = [_reference(each) for each in references]
    return body


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"{file} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no text in UTF-8") from None


def _language(file: str, text: str, given: str | None) -> str:
    if given is not None:
        found = _BY_WORD.get(given.lower())
        if found is None:
            raise UsageError(f"--type {given} is not known: write avro, json or protobuf")
        return found
    found = _BY_SUFFIX.get(Path(file).suffix.lower())
    return found or _guessed(text)


def _guessed(text: str) -> str:
    """By the text: what is no JSON is Protobuf; what names a type of Avro's is Avro."""
    try:
        value = json.loads(text)
    except ValueError:
        return "PROTOBUF"
    if not isinstance(value, dict):
        return "AVRO" if not isinstance(value, bool) else "JSON"
    is_avro = (
        value.get("type") in _AVRO_TYPES or "logicalType" in value or ("name" in value and "fields" in value)
    )
    return "AVRO" if is_avro else "JSON"


def _reference(text: str) -> dict[str, Any]:
    name, equals, target = text.partition("=")
    subject, colon, version = target.rpartition(":")
    if not (name and equals and subject and colon and version.isdigit()):
        raise UsageError(f"--reference {text!r} is not NAME=SUBJECT:VERSION, for example Money=money-value:1")
    return {"name": name, "subject": subject, "version": int(version)}
