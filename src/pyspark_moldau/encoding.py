"""Columns of a schema -> bytes: the reverse of decoding.py.

The driver finds or registers the writer's schema (`with_writers_schemas`), a task encodes with it
(`encoded_column`). A null row is a null value, that is a tombstone. A schema that is no record ("long", for
keys above all) is written from a struct with one field, whatever its name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from moldau.schemas.columns import Encoder, NoColumns, NotEncodable, is_record, spark_types
from moldau.schemas.schema import SchemaType
from pyspark_moldau.decoding import all_nullable
from pyspark_moldau.errors import OptionError, SinkError
from pyspark_moldau.pinned_schemas import PinnedSchema, writers_schema
from pyspark_moldau.registries import opened
from pyspark_moldau.schema_options import RecordFormats, SchemaChoice
from pyspark_moldau.sink_options import SinkOptions

ENCODERS_MAX = 16

_encoders: dict[PinnedSchema, tuple[Encoder, bool]] = {}
"""With whether the schema is a record's."""


def with_writers_schemas(options: SinkOptions, schema: StructType) -> SinkOptions:
    """The options with the schemas to write with. OptionError, RegistryError."""
    return replace(options, formats=pinned_for_writing(options.formats, options.topic, schema))


def pinned_for_writing(formats: RecordFormats, topic: str | None, schema: StructType) -> RecordFormats:
    """The formats with the schemas for these columns, registered where they are to be."""
    kinds = {each.name.lower(): each.dataType for each in schema.fields}
    pins = {}
    for choice, columns in [(each, arrow_columns(kinds[each.side], each)) for each in formats.choices]:
        try:
            pins[choice.side] = writers_schema(choice, topic, columns, lambda: opened(formats.registry))
        except NoColumns as failure:
            raise OptionError(f"{choice.side}.format={choice.format}: {failure}") from None
        _refuse_unknown_columns(choice, columns, pins[choice.side])
    return formats.pinned(pins)


def arrow_columns(kind: DataType, choice: SchemaChoice) -> pa.Schema:
    """The fields of a struct column, all nullable.

    Whether Spark knows a column to be never null changes with the query's plan; a schema that is registered
    must not, and one with nothing but nullable fields may lose and gain any of them.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    if not isinstance(kind, StructType):
        raise OptionError(
            f"{choice.side}.format={choice.format} writes the fields of a struct, and the column "
            f"{choice.side} is {kind.simpleString()}: make one with struct(...)"
        )
    nullable = all_nullable(kind)
    assert isinstance(nullable, StructType)
    return to_arrow_schema(nullable, timezone="UTC")


def _refuse_unknown_columns(choice: SchemaChoice, columns: pa.Schema, pinned: PinnedSchema) -> None:
    """Tell on the driver what each task would find: a column that the schema does not have."""
    if pinned.source.schema_type is SchemaType.JSON:
        return  # it may allow others
    known = spark_types(pinned.parsed).names
    if len(columns.names) == 1 and not is_record(pinned.parsed):
        return
    unknown = [name for name in columns.names if name not in known]
    if unknown:
        raise OptionError(
            f"{choice.side}.format={choice.format}: {pinned.subject or 'the schema'} has no field "
            f"{', '.join(unknown)}; it has {', '.join(known)}"
        )


def encoded_column(column: Any, choice: SchemaChoice | None) -> Any:
    """A column of rows as bytes; as it is if it has no schema. SinkError if a row does not fit."""
    if choice is None:
        return column
    pinned = choice.pinned
    assert pinned is not None
    if pinned not in _encoders:
        if len(_encoders) >= ENCODERS_MAX:
            _encoders.clear()
        encoder = Encoder(pinned.parsed, pinned.schema_id)
        _encoders[pinned] = encoder, is_record(pinned.parsed)
    encoder, with_fields = _encoders[pinned]
    try:
        return encoder.encode(column if with_fields or column.type.num_fields != 1 else _renamed(column))
    except NotEncodable as failure:
        where = pinned.subject or f"id {pinned.schema_id}"
        raise SinkError(f"a {choice.side} cannot be written with the schema of {where}: {failure}") from None


def _renamed(column: Any) -> Any:
    """The struct with its only field named `value`, as columns.spark_types names it."""
    (kind,) = column.type
    validity = column.is_valid().buffers()[1] if column.null_count else None
    return pa.StructArray.from_buffers(
        pa.struct([kind.with_name("value")]), len(column), [validity], children=[column.field(0)]
    )
