"""`moldau produce --schema-registry`: JSON in, keys and values by a schema out.

The schema is a file, a text, an id, or without any of these the newest version of the subject. Values are
encoded always, keys where something is said of their schema.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from moldau.tools.shared.errors import UsageError
from moldau.tools.shared.schema_coding import (
    LANGUAGES,
    SchemaChoice,
    encoder,
    open_registry,
    record_writer,
)

Encode = Callable[[bytes], bytes]
_BY_SUFFIX = {".avsc": "avro", ".proto": "protobuf", ".json": "json-schema", ".jsonschema": "json-schema"}


class Said(NamedTuple):
    """What the options say of the schema of keys or values."""

    language: str | None
    text: str | None
    file: Path | None
    schema_id: int | None

    @property
    def anything(self) -> bool:
        return any(each is not None for each in self)


def encoders(
    conf: dict[str, str],
    topic: str,
    key: Said,
    value: Said,
    references: list[str] | None,
    message: str,
    strategy: str,
    register: bool,
) -> tuple[Encode | None, Encode | None]:
    """Return what encodes keys (None: they are sent as they are) and values. UsageError, CommandError."""
    client = open_registry(conf)
    parts: list[Encode | None] = []
    for is_key, said in ((True, key), (False, value)):
        if is_key and not said.anything:
            parts.append(None)
            continue
        choice = _choice(said, "key" if is_key else "value")
        choice = SchemaChoice(
            choice.language,
            choice.text,
            choice.schema_id,
            () if is_key else [_reference(each) for each in references or ()],
            "" if is_key else message,
            strategy,
            register,
        )
        parts.append(
            encoder(record_writer(client, topic, is_key, choice), "the key" if is_key else "the value")
        )
    return parts[0], parts[1]


def _choice(said: Said, part: str) -> SchemaChoice:
    if sum(each is not None for each in (said.text, said.file, said.schema_id)) > 1:
        raise UsageError(f"give one of --{part}-schema, --{part}-schema-file and --{part}-schema-id")
    language = said.language or ""
    if language and language not in LANGUAGES:
        raise UsageError(f"--{part}-format {language} is not known: it is one of {', '.join(LANGUAGES)}")
    text = said.text
    if said.file is not None:
        try:
            text = said.file.read_text(encoding="utf-8")
        except OSError as problem:
            raise UsageError(f"{said.file} cannot be read: {problem.strerror}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{said.file} is no text in UTF-8") from None
        language = language or _BY_SUFFIX.get(said.file.suffix.lower(), "")
    if text is not None and not language:
        raise UsageError(f"say the language of the schema with --{part}-format: {', '.join(LANGUAGES)}")
    return SchemaChoice(language, text, said.schema_id)


def _reference(text: str) -> tuple[str, str, int]:
    name, equals, target = text.partition("=")
    subject, colon, version = target.rpartition(":")
    if not (name and equals and subject and colon and version.isdigit()):
        raise UsageError(f"--value-reference {text!r} is not NAME=SUBJECT:VERSION")
    return name, subject, int(version)
