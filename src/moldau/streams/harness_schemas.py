"""Schemas in a harness: a registry in its folder, and values of tests as records with a schema.

Values of rows are what Spark has: numbers, texts, bytes, datetimes, lists, mappings; no tags for unions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.streams.errors import AppError
from moldau.streams.topic import SCHEMA_FORMATS

if TYPE_CHECKING:
    from moldau.schemas.registry_client import Registered
    from moldau.streams.app import App
    from moldau.streams.flow import Output
    from moldau.streams.topic import RegisteredSchema


class HarnessSchemas:
    """The registry of a harness."""

    def __init__(self, app: App, folder: Path) -> None:
        from moldau.schemas.folder_registry import FolderRegistry

        self.url = f"folder:{folder}"
        self._app = app
        self.registry = FolderRegistry(folder)

    def register(self, topic: str, schema: str, kind: str, *, of_key: bool = False) -> Registered:
        """Register a schema of a topic's values or keys; `kind` is avro, json-schema or protobuf."""
        from moldau.schemas.registry_client import RegistryError
        from moldau.schemas.schema import SchemaText
        from pyspark_moldau.schema_options import SCHEMA_TYPES

        if kind not in SCHEMA_TYPES:
            raise AppError(f"{topic}: {kind!r} is no kind of schema; there are {', '.join(SCHEMA_FORMATS)}")
        try:
            subject = f"{topic}-key" if of_key else self._subject(topic)
            return self.registry.register(subject, SchemaText(SCHEMA_TYPES[kind], schema))
        except RegistryError as failure:
            raise AppError(f"{topic}: {failure}") from None

    def has(self, topic: str) -> bool:
        """Whether the topic's values have a schema."""
        return self._registered(topic) is not None

    def encode(self, topic: str, value: Mapping[str, Any], version: int | None) -> bytes:
        """A value as a record, with the newest schema of the topic or this version of it; columns of the key
        that the schema does not have are left out. AppError.
        """
        known = self._app.topics.get(topic)
        keys = {column.split()[0] for column in known.format.key} if known is not None else set()
        return self._encode(topic, self._subject(topic), value, version, keys)

    def encode_key(self, topic: str, columns: Mapping[str, Any]) -> bytes | None:
        """A key of these columns with the newest schema of keys; None if all of them are. AppError."""
        if all(each is None for each in columns.values()):
            return None
        return self._encode(topic, f"{topic}-key", columns, None, set())

    def _encode(
        self, topic: str, subject: str, value: Mapping[str, Any], version: int | None, spare: set[str]
    ) -> bytes:
        import pyarrow as pa

        from moldau.schemas.columns import Encoder, is_record, spark_types
        from moldau.schemas.registry_client import RegistryError

        try:
            found = (
                self.registry.latest(subject) if version is None else self.registry.version(subject, version)
            )
        except RegistryError as failure:
            raise AppError(f"{topic}: {failure}: harness.register({topic!r}, schema) adds one") from None
        columns = spark_types(found.parsed)
        if len(value) == 1 and not is_record(found.parsed):
            value = dict(zip(columns.names, value.values(), strict=True))
        unknown = sorted(value.keys() - set(columns.names) - spare)
        if unknown:
            raise AppError(
                f"{topic}: the schema has no field {unknown[0]}; it has {', '.join(columns.names)}"
            )
        fields = [each for each in columns if each.name in value]
        try:
            rows = pa.array([dict(value)], pa.struct(fields))
            record: bytes = Encoder(found.parsed, found.id).encode(rows)[0].as_py()
        except (ValueError, TypeError) as failure:  # Arrow's errors and NotEncodable are ValueErrors
            raise AppError(f"{topic}: {dict(value)} does not fit the schema: {failure}") from None
        return record

    def decode(self, topic: str, value: bytes | None) -> Any:
        """A record's key or value as a mapping, by the schema it was written with."""
        import pyarrow as pa

        from moldau.schemas.columns import Decoder
        from moldau.schemas.wire import unpack

        if value is None:
            return None
        schema_id = unpack(value).schema
        assert isinstance(schema_id, int)
        decoder = Decoder(self.registry.by_id(schema_id), self.registry.by_id)
        rows, bad = decoder.decode(pa.array([value], pa.binary()))
        if bad[0].as_py():
            raise AppError(f"{topic} has a record that is not what its schema {schema_id} says")
        return rows[0].as_py()

    def has_keys(self, topic: str) -> bool:
        """Whether the topic's keys have a schema."""
        if topic in self._app.topics:
            return self._app.topics[topic].format.key_format is not None
        return any(each.registered_key is not None for each in self._outputs(topic))

    def key_text(self, topic: str, key: bytes | None) -> str:
        """A key as text is: one column, or a JSON object of several."""
        columns = self.decode(topic, key) or {"": ""}
        if len(columns) == 1:
            return str(next(iter(columns.values())))
        return json.dumps(columns, default=str)

    def _outputs(self, topic: str) -> list[Output]:
        from moldau.streams.flow import Output

        outputs = [each.output for each in self._app.flows.values()]
        return [each for each in outputs if isinstance(each, Output) and each.topic == topic]

    def _registered(self, topic: str) -> RegisteredSchema | None:
        if topic in self._app.topics:
            return self._app.topics[topic].format.registered
        return next((each.registered for each in self._outputs(topic)), None)

    def _subject(self, topic: str) -> str:
        registered = self._registered(topic)
        return (registered.subject if registered else None) or f"{topic}-value"
