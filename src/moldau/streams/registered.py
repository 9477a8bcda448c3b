"""Schemas of the registry in an app: which one a topic is read or written with, fixed for a run.

    reading   the newest schema of the subject as of the start, or the version that the app names; records
              written with others are read as this one's. The next start picks up a newer schema.
    writing   the schema of the flow's columns, registered when the flow is built, or one that is there

The driver asks the registry before anything runs and sends the schemas along, so a registry that is away does
not stop a flow, unless a record comes that was written with a schema not seen before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.streams.errors import AppError, SchemaMissing, StreamsError
from moldau.streams.topic import RegisteredSchema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from moldau.streams.app import App
    from moldau.streams.flow import Output
    from moldau.streams.topic import Topic
    from pyspark_moldau.schema_options import RecordFormats

NO_REGISTRY = (
    "needs a schema registry: App(..., registry='http://host:8081'), --schema-registry or "
    "MOLDAU_SCHEMA_REGISTRY"
)


def reading_options(app: App, topic: Topic, at: str | None = None) -> dict[str, str]:
    """The options of the format "moldau" for a topic's schema; none if it has none in the registry. `at`: the
    registry, whatever the app says.
    """
    form = topic.format
    if not form.has_schemas:
        return {}
    what = f"topic {topic.name}"
    options = {"includeUndecoded": "true"}
    if form.key_format is not None:
        registry = RegisteredSchema(registry=form.registry)
        wanted = f"key_format={form.key_format!r}"
        options |= {"key.format": form.key_format} | _registry(app, what, wanted, registry, topic.options, at)
    if form.registered is not None:
        options |= _common(app, what, form.value, form.registered, topic.options, at)
        options |= {"value.schema": form.registered.version} if form.registered.version else {}
    return options


def writing_options(app: App, output: Output, at: str | None = None) -> dict[str, str]:
    """The same for a topic that a flow writes."""
    options: dict[str, str] = {}
    if output.key_format is not None and output.registered_key is not None:
        key, wanted = output.registered_key, f"key_format={output.key_format!r}"
        options |= {"key.format": output.key_format} | _registry(app, output.topic, wanted, key, {}, at)
        options |= {"key.schema": key.version} if key.version else {}
    registered = output.registered
    if registered is not None:
        options |= _common(app, output.topic, output.value, registered, {}, at)
        options |= {"value.schema": registered.version} if registered.version else {}
        options |= {"value.subject.name.strategy": registered.strategy} if registered.strategy else {}
        options |= {"value.record.name": registered.record_name} if registered.record_name else {}
    return options


def _common(
    app: App, what: str, value: str, registered: RegisteredSchema, options: Mapping[str, str], at: str | None
) -> dict[str, str]:
    return {
        "value.format": value,
        **_registry(app, what, f"value={value!r}", registered, options, at),
        **({"value.subject": registered.subject} if registered.subject else {}),
    }


def _registry(
    app: App, what: str, wanted: str, registered: RegisteredSchema, options: Mapping[str, str], at: str | None
) -> dict[str, str]:
    """Where the registry is. AppError if nobody says."""
    registry = at or registered.registry or app.registry
    if registry:
        return {"schema.registry.url": registry}
    if "schema.registry.url" not in {name.lower() for name in (*app.options, *options)}:
        raise AppError(f"{what}: {wanted} {NO_REGISTRY}")
    return {}


def pinned_for_reading(options: Mapping[str, str], topic: str) -> dict[str, str]:
    """The schemas to read with, as options. StreamsError; SchemaMissing if the registry has none."""
    from moldau.client.errors import OptionError
    from pyspark_moldau.options import stripped
    from pyspark_moldau.pinned_schemas import pinned_for_reading as find
    from pyspark_moldau.registries import RegistryError
    from pyspark_moldau.schema_options import parse_formats

    try:
        formats = find(parse_formats(_of_schemas(stripped(options)), writing=False), topic)
    except RegistryError as failure:
        kind = SchemaMissing if failure.is_not_found else StreamsError
        raise kind(f"topic {topic}: {failure}") from None
    except OptionError as failure:
        raise AppError(f"topic {topic}: {failure}") from None
    return _as_options(formats)


def pinned_for_writing(options: Mapping[str, str], topic: str, records: StructType) -> dict[str, str]:
    """The schemas to write with, as options; registered if they are to be. StreamsError."""
    return _as_options(formats_for_writing(options, topic, records))


def formats_for_writing(options: Mapping[str, str], topic: str, records: StructType) -> RecordFormats:
    """How records are written, with the schema. StreamsError."""
    from moldau.client.errors import OptionError
    from pyspark_moldau import encoding
    from pyspark_moldau.options import stripped
    from pyspark_moldau.registries import RegistryError
    from pyspark_moldau.schema_options import parse_formats

    formats = parse_formats(_of_schemas(stripped(options)), writing=True)
    try:
        return encoding.pinned_for_writing(formats, topic, records)
    except (RegistryError, OptionError) as failure:
        raise StreamsError(f"{topic}: {failure}") from None


def _as_options(formats: RecordFormats) -> dict[str, str]:
    return {
        f"{each.side}.schema.pinned": each.pinned.as_option()
        for each in formats.choices
        if each.pinned is not None
    }


def _of_schemas(options: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in options.items() if not name.startswith("kafka.")}
