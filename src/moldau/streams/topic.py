"""`Topic`: a topic that an app reads, with what its keys and values look like.

    flights = app.topic("flights", key="carrier", schema="carrier string, dep_delay double")

    flights.stream()    every record, from the beginning on and for ever: a streaming DataFrame
    flights.table()     the latest row of every key, tombstones left out: a DataFrame for joins
    flights.read()      every record that is there now: a batch DataFrame

A table in a streaming join is looked up anew in every micro-batch, so that a stream always meets the rows of
now (table_cache.py says at what cost): it suits a compacted topic of up to some hundred thousand keys.

Not here: where rows come from (places.py), what bytes mean (decoding.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from moldau.streams.errors import AppError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from moldau.streams.app import App

ValueFormat = Literal["json", "string", "raw", "avro", "json-schema", "protobuf"]
BadRecords = Literal["null", "drop", "dead-letter", "fail"]
STRATEGIES = ("topic", "record", "topic-record")
"""How Confluent's serializers name subjects."""
SCHEMA_FORMATS = ("avro", "json-schema", "protobuf")
"""Formats whose schemas are in a registry."""
VALUE_FORMATS = ("json", "string", "raw", *SCHEMA_FORMATS)
BAD_RECORDS = ("null", "drop", "dead-letter", "fail")


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema of the registry, as an app names it."""

    version: str | None = None
    """latest, or a number; None: the newest for reading, the rows' own for writing."""
    registry: str | None = None
    """Where the registry is, if it is not the app's."""
    subject: str | None = None
    """Where the schema is, if the topic's name does not say."""
    strategy: str | None = None
    record_name: str | None = None


@dataclass(frozen=True)
class TopicFormat:
    """What the records of a topic look like, and what is done with those that do not."""

    value: ValueFormat = "json"
    schema: str | StructType | None = None
    """Of JSON; once rows are read, also of the formats whose schema is the registry's."""
    key: tuple[str, ...] = ()
    """Columns of the record key: one is the key's text, several are fields of a JSON object."""
    bad_records: BadRecords = "null"
    record: bool = False
    """Whether rows have the column `record`: key, topic, partition, offset, timestamp and headers as they
    came.
    """
    registered: RegisteredSchema | None = None
    """Which schema of the registry it is, for formats that have theirs there."""
    key_format: str | None = None
    """The format of keys with a schema of the registry; None: text."""
    registry: str | None = None
    """Where the registry is, if it is not the app's."""

    @property
    def has_schemas(self) -> bool:
        """Whether keys or values have a schema of the registry, and the source decodes them."""
        return self.registered is not None or self.key_format is not None


@dataclass(frozen=True)
class Topic:
    """A topic as an app reads it. Made by `App.topic`."""

    app: App = field(repr=False, compare=False)
    name: str
    format: TopicFormat
    starting: str = "earliest"
    dead_letters: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    watermark: tuple[str, str] | None = None

    def stream(self) -> DataFrame:
        """Every record as a row, now and for ever."""
        from moldau.streams.decoding import decoded

        rows = decoded(self.app.place.read_stream(self, self.app.reading(self)), self.format)
        return rows.withWatermark(*self.watermark) if self.watermark else rows

    def table(self) -> DataFrame:
        """The latest row of every key; a key whose latest record is a tombstone (no value) is not there."""
        from moldau.streams.decoding import decoded, latest_by_key

        if not self.format.key:
            raise AppError(
                f"topic {self.name} has no key that its rows could be told apart by: "
                f"app.topic({self.name!r}, key=...)"
            )
        self.app.reading(self, as_table=True)
        return decoded(latest_by_key(self.app.place.read_table(self)), self.format)

    def read(self) -> DataFrame:
        """Every record that is there now as a row."""
        from moldau.streams.decoding import decoded

        self.app.reading(self, as_table=True)
        return decoded(self.app.place.read_batch(self), self.format)


def topic_format(
    name: str,
    *,
    key: str | Sequence[str] | None,
    value: str,
    schema: str | int | StructType | None,
    bad_records: str,
    record: bool,
    registry: str | None = None,
    subject: str | None = None,
    key_format: str = "text",
) -> TopicFormat:
    """Check what a topic is said to look like; raises AppError with the sentence that says what is wrong."""
    check_value(f"topic {name}", value)
    if bad_records not in BAD_RECORDS:
        raise AppError(f"topic {name}: bad_records={bad_records!r} is not one of {', '.join(BAD_RECORDS)}")
    if value == "json" and schema is None:
        raise AppError(
            f"topic {name}: JSON needs a schema, such as schema='carrier string, delay double'; "
            "value='string' gives the text as it is"
        )
    if value == "json" and isinstance(schema, int):
        raise AppError(
            f"topic {name}: schema={schema} is a version of the registry's, and JSON has none there"
        )
    columns = key_columns(key)
    check_key_format(f"topic {name}", key_format, columns)
    keys_alone = value not in SCHEMA_FORMATS and key_format != "text"
    registered = registered_schema(f"topic {name}", value, schema, None if keys_alone else registry, subject)
    if value in SCHEMA_FORMATS:
        schema = None
    elif value != "json" and schema is not None:
        raise AppError(
            f"topic {name}: a schema is for value='json'; value={value!r} has the one column value"
        )
    return TopicFormat(
        value,  # type: ignore[arg-type]
        schema,  # type: ignore[arg-type]
        columns,
        bad_records,  # type: ignore[arg-type]
        record,
        registered,
        None if key_format == "text" else key_format,
        registry,
    )


def check_key_format(what: str, key_format: str, columns: Sequence[str]) -> None:
    """AppError if keys cannot have this format."""
    if key_format == "text":
        return
    if key_format not in SCHEMA_FORMATS:
        formats = ", ".join(SCHEMA_FORMATS)
        raise AppError(f"{what}: key_format={key_format!r} is no format; there are text, {formats}")
    if not columns or any(" " in column for column in columns):
        raise AppError(
            f"{what}: key_format={key_format!r} needs key=, the names of fields; their types are the schema's"
        )


def check_value(what: str, value: str) -> None:
    """AppError if `value` is no format."""
    if value not in VALUE_FORMATS:
        raise AppError(f"{what}: value={value!r} is no format; there are {', '.join(VALUE_FORMATS)}")


def registered_schema(
    what: str,
    value: str,
    schema: object,
    registry: str | None,
    subject: str | None,
    *,
    form: str = "value",
    option: str = "schema",
) -> RegisteredSchema | None:
    """Check which schema of the registry is meant; None for formats that have none there. AppError."""
    if value not in SCHEMA_FORMATS:
        if registry is not None or subject is not None:
            raise AppError(
                f"{what}: registry and subject are for value={' or '.join(map(repr, SCHEMA_FORMATS))}"
            )
        return None
    if schema is None:
        return RegisteredSchema(registry=registry, subject=subject)
    version = str(schema).lower() if isinstance(schema, (int, str)) else ""
    if version != "latest" and not (version.isdigit() and int(version)):
        raise AppError(
            f"{what}: with {form}={value!r} the schema is the registry's: {option}='latest', or the number "
            f"of a version, not {schema!r}"
        )
    return RegisteredSchema(version, registry, subject)


def key_columns(key: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns that `key=` names: one as a text, several as a list."""
    if key is None:
        return ()
    columns = (key,) if isinstance(key, str) else tuple(key)
    if not all(isinstance(column, str) and column.strip() for column in columns):
        raise AppError(f"key={key!r} must name a column, or a list of columns")
    return tuple(column.strip() for column in columns)


def written_key(
    topic: str, key_format: str, schema: str | int | None, columns: Sequence[str], registry: str | None
) -> RegisteredSchema | None:
    """Check which schema of the registry keys are to be written with; None for text. AppError."""
    check_key_format(topic, key_format, columns)
    if key_format == "text":
        if schema is not None:
            raise AppError(f"{topic}: key_schema={schema!r} is for keys with a key_format, such as 'avro'")
        return None
    return registered_schema(
        topic, key_format, schema, registry, None, form="key_format", option="key_schema"
    )


def written_schema(
    topic: str,
    value: str,
    schema: str | int | None,
    registry: str | None,
    subject: str | None,
    record_name: str | None,
) -> RegisteredSchema | None:
    """Check which schema a topic is to be written with; `subject` may also be a strategy. AppError."""
    check_value(topic, value)
    by_strategy = subject in STRATEGIES
    found = registered_schema(topic, value, schema, registry, None if by_strategy else subject)
    if found is None:
        if schema is not None or record_name is not None or by_strategy:
            raise AppError(f"{topic}: value={value!r} is written without a schema of the registry")
        return None
    return replace(found, strategy=subject if by_strategy else None, record_name=record_name)
