"""The schemas that a query reads or writes with: taken from the registry once, on the driver.

A query's columns are fixed when it is made, and its tasks run elsewhere and later. So the driver takes one
schema, the reader's or the writer's, and everything is sent along: text, what it refers to, id. So are the
versions before a reader's, since records were written with them. A task needs the registry only for other
schemas, by their ids, which never change (registries.py).

Not here: options (schema_options.py), coding (decoding.py, encoding.py).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from moldau.schemas.languages import parse
from moldau.schemas.schema import ParsedSchema, Reference, SchemaText, SchemaType
from pyspark_moldau.errors import OptionError
from pyspark_moldau.registries import Registered, Registry, RegistryError, opened
from pyspark_moldau.schema_options import KEY, LATEST_SCHEMA, REGISTER, RecordFormats, SchemaChoice

if TYPE_CHECKING:
    import pyarrow

OTHERS_MAX = 10
OTHERS_BYTES_MAX = 500_000


@dataclass(frozen=True)
class PinnedSchema:
    """A registered schema, whole: nothing has to be looked up for it."""

    schema_id: int
    source: SchemaText
    dependencies: tuple[tuple[str, str], ...] = ()
    subject: str = ""
    version: int = 0
    """Where it was found; "" and 0 if it was given by its id."""
    others: tuple[PinnedSchema, ...] = ()
    """Other versions that records may have been written with."""

    @property
    def parsed(self) -> ParsedSchema:
        """The schema, understood; parsed once in a process."""
        return _parsed(self.source, self.dependencies)

    def as_option(self) -> str:
        """The schema as the text of an option."""
        return json.dumps(self._as_json())

    def _as_json(self) -> dict[str, Any]:
        return {
            "id": self.schema_id,
            "schemaType": self.source.schema_type,
            "schema": self.source.text,
            "references": self.source.references,
            "dependencies": dict(self.dependencies),
            "subject": self.subject,
            "version": self.version,
            "others": [each._as_json() for each in self.others],
        }

    @classmethod
    def from_option(cls, text: str) -> PinnedSchema:
        """The reverse. ValueError, KeyError or TypeError for another text."""
        return cls._of_json(json.loads(text))

    @classmethod
    def _of_json(cls, given: Mapping[str, Any]) -> PinnedSchema:
        source = SchemaText(
            SchemaType(given["schemaType"]),
            given["schema"],
            tuple(Reference(*each) for each in given["references"]),
        )
        return cls(
            int(given["id"]),
            source,
            tuple(given["dependencies"].items()),
            given["subject"],
            int(given["version"]),
            tuple(cls._of_json(each) for each in given["others"]),
        )


@functools.lru_cache(maxsize=64)
def _parsed(source: SchemaText, dependencies: tuple[tuple[str, str], ...]) -> ParsedSchema:
    return parse(source, dict(dependencies))


def pinned(schema_id: int, schema: ParsedSchema, subject: str = "", version: int = 0) -> PinnedSchema:
    """A schema of the registry, to be sent along."""
    source = SchemaText(schema.schema_type, schema.canonical, schema.references)
    return PinnedSchema(schema_id, source, tuple(schema.dependencies.items()), subject, version)


def readers_schema(choice: SchemaChoice, topic: str | None, registry: Callable[[], Registry]) -> PinnedSchema:
    """The schema to read keys or values with. OptionError, RegistryError."""
    if choice.pinned is not None:
        return choice.pinned
    if choice.schema_id is not None:
        return _checked(choice, pinned(choice.schema_id, registry().by_id(choice.schema_id)))
    subject = choice.subject_of(topic, choice.record_name)
    newest = registry().latest(subject)
    if choice.schema == LATEST_SCHEMA:
        reader = _of(newest, subject)
    else:
        reader = _of(registry().version(subject, int(choice.schema)), subject)
    return replace(_checked(choice, reader), others=_others(registry(), reader, newest.version))


def _others(registry: Registry, reader: PinnedSchema, newest: int) -> tuple[PinnedSchema, ...]:
    """The newest versions besides the reader's. They save questions only, so some may be missing."""
    found: list[PinnedSchema] = []
    room_bytes = OTHERS_BYTES_MAX
    for version in range(newest, max(newest - OTHERS_MAX, 0), -1):
        if version == reader.version:
            continue
        try:
            other = _of(registry.version(reader.subject, version), reader.subject)
        except RegistryError as failure:
            if failure.is_not_found:
                continue
            break
        room_bytes -= len(other.as_option())
        if room_bytes >= 0:
            found.append(other)
    return tuple(found)


def writers_schema(
    choice: SchemaChoice, topic: str | None, columns: pyarrow.Schema, registry: Callable[[], Registry]
) -> PinnedSchema:
    """The schema to write these columns with, registered if it is to be. OptionError, RegistryError."""
    if choice.schema != REGISTER or choice.schema_id is not None or choice.pinned is not None:
        return replace(readers_schema(choice, topic, registry), others=())
    from moldau.schemas.columns import schema_of_arrow

    name = choice.record_name or record_name_of(topic or "", choice.side)
    subject = choice.subject_of(topic, name)
    source = schema_of_arrow(columns, choice.schema_type, name, _previous(registry, choice, subject))
    return _checked(choice, _of(registry().register(subject, source), subject))


def _previous(registry: Callable[[], Registry], choice: SchemaChoice, subject: str) -> ParsedSchema | None:
    """The newest schema of the subject, whose field numbers are kept; in Protobuf only."""
    if choice.schema_type is not SchemaType.PROTOBUF:
        return None
    try:
        return registry().latest(subject).parsed
    except RegistryError as failure:
        if not failure.is_not_found:
            raise
        return None


def record_name_of(topic: str, side: str) -> str:
    """The record's name in a schema that nobody has named: DelaysByHour for delays-by-hour."""
    words = "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", topic))
    name = f"{words}Key" if side == KEY else words
    return name if re.match(r"[A-Za-z]", name) else f"Record{name}"


def _of(found: Registered, subject: str) -> PinnedSchema:
    return pinned(found.id, found.parsed, subject, found.version)


def _checked(choice: SchemaChoice, found: PinnedSchema) -> PinnedSchema:
    kind = found.source.schema_type
    if kind is not choice.schema_type:
        where = found.subject or f"id {found.schema_id}"
        raise OptionError(
            f"{choice.side}.format is {choice.format}, and the registry's schema of {where} is {kind}"
        )
    return found


def pinned_for_reading(formats: RecordFormats, topic: str | None) -> RecordFormats:
    """The formats with the schemas that they mean now."""
    pins: Mapping[str, PinnedSchema] = {
        each.side: readers_schema(each, topic, lambda: opened(formats.registry)) for each in formats.choices
    }
    return formats.pinned(pins)
