"""Keys and values by a schema registry, for the commands that print and send records.

What the registry or a schema says against it becomes a CommandError, so that every command tells it alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.tools.shared.errors import CommandError, UsageError

if TYPE_CHECKING:
    from moldau.schemas.registry_client import RegistryClient
    from moldau.schemas.schema import ParsedSchema
    from moldau.schemas.serde.records import Decoded, RecordReader, RecordWriter

LANGUAGES = ("avro", "json-schema", "protobuf")
_TYPES = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """The schema to write with: an id, a text, or (neither) the newest version of the subject."""

    language: str = ""
    text: str | None = None
    schema_id: int | None = None
    references: Sequence[tuple[str, str, int]] = ()
    message: str = ""
    """Protobuf: which message of the file; the first one without a name."""
    strategy: str = "topic"
    register: bool = True
    """False: the text must be registered already."""
    normalize: bool = False


@contextmanager
def told_plainly(what: str = "") -> Iterator[None]:
    """Turn what the registry and the coders raise into a CommandError."""
    from moldau.schemas.registry_client import RegistryError
    from moldau.schemas.serde import SerdeError
    from moldau.schemas.subjects import SubjectError

    try:
        yield
    except (RegistryError, SerdeError, SubjectError) as problem:
        raise CommandError(f"{what}{problem}") from None


def open_registry(conf: Mapping[str, str]) -> RegistryClient:
    """Return a client; it connects with its first request."""
    from moldau.schemas.registry_client import RegistryClient

    with told_plainly():
        # A person waits: two attempts, not four.
        return RegistryClient({"max.retries": "1", **conf})


def record_reader(client: RegistryClient) -> RecordReader:
    """Return what decodes keys and values by the schemas that they name."""
    from moldau.schemas.serde.records import RecordReader

    return RecordReader(client.by_id_or_guid)


def require_language(found: Decoded, wanted: str) -> None:
    """SerdeError if a record was written with a schema in another language."""
    from moldau.schemas.serde import SerdeError

    if found.parsed.schema_type != _TYPES[wanted]:
        raise SerdeError(f"schema {found.schema} is {found.parsed.schema_type}, not {wanted}")


def record_writer(client: RegistryClient, topic: str, is_key: bool, choice: SchemaChoice) -> RecordWriter:
    """Find (or register) the schema and return what encodes with it. CommandError."""
    from moldau.schemas.schema import SchemaType
    from moldau.schemas.serde.records import RecordWriter

    what = f"the {'key' if is_key else 'value'}'s schema: "
    with told_plainly(what):
        schema_id, parsed = _chosen(client, topic, is_key, choice)
        if choice.language and parsed.schema_type != _TYPES[choice.language]:
            raise CommandError(f"{what}schema {schema_id} is {parsed.schema_type}, not {choice.language}")
        indexes = None
        if parsed.schema_type is SchemaType.PROTOBUF:
            from moldau.schemas.serde.protobuf import message_indexes

            indexes = message_indexes(parsed, choice.message) if choice.message else (0,)
        return RecordWriter(schema_id, parsed, indexes)


def _chosen(
    client: RegistryClient, topic: str, is_key: bool, choice: SchemaChoice
) -> tuple[int, ParsedSchema]:
    from moldau.schemas.schema import Reference, SchemaText, SchemaType
    from moldau.schemas.subjects import subject_name

    if choice.schema_id is not None:
        return choice.schema_id, client.by_id(choice.schema_id)
    if choice.text is None:
        found = client.latest(subject_name(choice.strategy, topic, is_key, choice.message or None))
        return found.id, found.parsed
    if not choice.language:
        raise UsageError("say the language of the schema: avro, json-schema or protobuf")
    references = tuple(Reference(*each) for each in choice.references)
    text = SchemaText(SchemaType(_TYPES[choice.language]), choice.text, references)
    subject = subject_name(choice.strategy, topic, is_key, choice.message or client.parse(text).name)
    place = (client.register if choice.register else client.lookup)(subject, text, choice.normalize)
    return place.id, place.parsed


def encoder(writer: RecordWriter, what: str) -> Callable[[bytes], bytes]:
    """Return the function that turns JSON text into a key or value. CommandError."""

    def encode(text: bytes) -> bytes:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as problem:
            shown = text[:60].decode(errors="replace")
            raise CommandError(f"{what} {shown!r} is no JSON: {problem}") from None
        with told_plainly(f"{what} cannot be written: "):
            return writer.write(value)

    return encode


def json_bytes(value: Any) -> bytes:
    """JSON on one line."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")
