"""AvroConverter, JsonSchemaConverter, ProtobufConverter."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.arrow_types import arrow_type, logical_name, schema_of
from moldau.connect.converters.registry import settings as rows
from moldau.connect.converters.registry.avro_columns import from_avro, plain_avro, to_avro
from moldau.connect.converters.registry.avro_schema import AvroText, schema_of_avro
from moldau.connect.converters.registry.base import Reading, RegistryConverter, Writing
from moldau.connect.errors import ConnectError
from moldau.connect.schema import DATE, TIME, Schema, Type
from moldau.connect.settings import Setting
from moldau.connect.structs import fields_of, struct_of
from moldau.schemas.avro.parsed import AvroSchema
from moldau.schemas.columns import Decoder, Encoder, is_record, schema_of_arrow
from moldau.schemas.columns.json_types import REQUIRED
from moldau.schemas.registry_client import RegistryError
from moldau.schemas.schema import ParsedSchema, SchemaText, SchemaType


class AvroConverter(RegistryConverter):
    """Confluent's io.confluent.connect.avro.AvroConverter."""

    settings: ClassVar[Sequence[Setting]] = rows.AVRO

    def configure(self, settings: Mapping[str, Any], is_key: bool) -> None:
        """See RegistryConverter."""
        super().configure(settings, is_key)
        self._avro = AvroText(
            bool(settings.get("connect.meta.data", True)),
            bool(settings.get("enhanced.avro.schema.support", False)),
            bool(settings.get("scrub.invalid.names", False)),
        )

    def reading(self, parsed: ParsedSchema, indexes: tuple[int, ...]) -> Reading:
        """See RegistryConverter."""
        _require(parsed, SchemaType.AVRO)
        reader = plain_avro(parsed)

        def writer(schema_id: int) -> ParsedSchema:
            self.known(schema_id)
            return reader

        def by_guid(guid: str) -> ParsedSchema:
            self.known_guid(guid)
            return reader

        decoder = Decoder(reader, writer, by_guid)  # bounds the columns, before what follows is made of them
        root = _avro(parsed).root
        schema = schema_of_avro(root)
        arrow_type(schema)  # ConnectError where columns cannot have it
        return Reading(schema, decoder, is_record(reader), lambda array: from_avro(root, schema, array))

    def writing(self, parsed: ParsedSchema, schema: Schema, schema_id: int) -> Writing:
        """See RegistryConverter."""
        _require(parsed, SchemaType.AVRO)
        root, plain = _avro(parsed).root, plain_avro(parsed)
        return Writing(
            Encoder(plain, schema_id), is_record(plain), lambda array: to_avro(root, schema, array)
        )

    def text_of(self, schema: Schema, subject: Callable[[str | None], str]) -> tuple[SchemaText, str | None]:
        """See RegistryConverter."""
        made = self._avro.of(schema)
        text = json.dumps(made, separators=(",", ":"), ensure_ascii=False)
        shape = made[-1 if made[0] == "null" else 0] if isinstance(made, list) else made
        name = shape.get("name") if isinstance(shape, dict) else None
        if name is not None and isinstance(shape, dict) and shape.get("namespace"):
            name = f"{shape['namespace']}.{name}"
        return SchemaText(SchemaType.AVRO, text), name


class JsonSchemaConverter(RegistryConverter):
    """Confluent's io.confluent.connect.json.JsonSchemaConverter."""

    settings: ClassVar[Sequence[Setting]] = rows.JSON_SCHEMA

    def reading(self, parsed: ParsedSchema, indexes: tuple[int, ...]) -> Reading:
        """See RegistryConverter."""
        _require(parsed, SchemaType.JSON)
        decoder = Decoder(parsed, self.known, self.known_guid)
        is_row = is_record(parsed)
        kind = pa.struct(list(decoder.schema)) if is_row else decoder.schema.field(0).type
        schema = _required_as_such(schema_of(kind, not is_row), kind)
        if is_row:
            schema = replace(schema, name=parsed.name)
        return Reading(schema, decoder, is_row, _caster(schema))

    def writing(self, parsed: ParsedSchema, schema: Schema, schema_id: int) -> Writing:
        """See RegistryConverter."""
        _require(parsed, SchemaType.JSON)
        encoder = Encoder(parsed, schema_id)
        return Writing(encoder, is_record(parsed), lambda array: _numbers(schema, array, (TIME,)))

    def text_of(self, schema: Schema, subject: Callable[[str | None], str]) -> tuple[SchemaText, str | None]:
        """See RegistryConverter."""
        kind = _numbers(schema, pa.nulls(0, arrow_type(schema)), (TIME,)).type
        name = schema.name if schema.type is Type.STRUCT else None
        if pa.types.is_struct(kind):
            made = schema_of_arrow(pa.schema(list(kind)), SchemaType.JSON, "ConnectDefault")
            document = json.loads(made.text)
            document["title"] = name or "ConnectDefault"
        else:
            columns = pa.schema([pa.field("value", kind, schema.optional)])
            document = json.loads(schema_of_arrow(columns, SchemaType.JSON, "ConnectDefault").text)
            document = document["properties"]["value"]
        return SchemaText(SchemaType.JSON, json.dumps(document)), document.get("title")


class ProtobufConverter(RegistryConverter):
    """Confluent's io.confluent.connect.protobuf.ProtobufConverter."""

    settings: ClassVar[Sequence[Setting]] = rows.PROTOBUF
    has_indexes: ClassVar[bool] = True

    def reading(self, parsed: ParsedSchema, indexes: tuple[int, ...]) -> Reading:
        """See RegistryConverter."""
        from moldau.schemas.columns.protobuf_types import written_message

        _require(parsed, SchemaType.PROTOBUF)
        decoder = Decoder(parsed, self.known, self.known_guid, indexes)
        schema = schema_of(pa.struct(list(decoder.schema)), False)
        schema = replace(schema, name=written_message(parsed, indexes))
        return Reading(schema, decoder, True, _caster(schema))

    def writing(self, parsed: ParsedSchema, schema: Schema, schema_id: int) -> Writing:
        """See RegistryConverter."""
        _require(parsed, SchemaType.PROTOBUF)
        return Writing(Encoder(parsed, schema_id), True, lambda array: _numbers(schema, array, (TIME, DATE)))

    def text_of(self, schema: Schema, subject: Callable[[str | None], str]) -> tuple[SchemaText, str | None]:
        """See RegistryConverter."""
        if schema.type is not Type.STRUCT:
            raise ConnectError(
                f"ProtobufConverter writes records with fields, and these are {schema.type.name}: use "
                "another converter, or HoistField"
            )
        kind = _numbers(schema, pa.nulls(0, arrow_type(schema)), (TIME, DATE)).type
        name = schema.name or "ConnectDefault1"
        try:
            previous = self.client.latest(subject(name)).parsed
        except RegistryError as error:
            if not error.is_not_found:
                raise
            previous = None
        if previous is not None and previous.schema_type is not SchemaType.PROTOBUF:
            previous = None
        return schema_of_arrow(pa.schema(list(kind)), SchemaType.PROTOBUF, name, previous), name


def _require(parsed: ParsedSchema, wanted: SchemaType) -> None:
    if parsed.schema_type is not wanted:
        raise ConnectError(f"it is a schema of type {parsed.schema_type}, and this converter is for {wanted}")


def _avro(parsed: ParsedSchema) -> AvroSchema:
    if not isinstance(parsed, AvroSchema):
        raise ConnectError("it is no Avro schema")
    return parsed


def _caster(schema: Schema) -> Callable[[pa.Array], pa.Array]:
    arrow_type(schema)  # ConnectError where columns cannot have it
    return lambda array: _retyped(schema, array)


def _retyped(schema: Schema, array: pa.Array) -> pa.Array:
    """A decoded column in the type of its schema (other units of time; which fields may be null)."""
    wanted = arrow_type(schema)
    if array.type.equals(wanted, check_metadata=True):
        return array
    if schema.type is Type.STRUCT:
        parts = zip(schema.fields, fields_of(array), strict=True)
        return struct_of(schema, [_retyped(each.schema, column) for each, column in parts], array, len(array))
    if schema.type is Type.ARRAY:
        mask = array.is_null() if array.null_count else None
        items = _retyped(schema.items, array.values)
        return pa.ListArray.from_arrays(array.offsets, items, type=wanted, mask=mask)
    return pc.cast(array, wanted, safe=False)


def _required_as_such(schema: Schema, kind: pa.DataType) -> Schema:
    """JSON Schema's columns are all nullable; those that it requires are not optional."""
    if schema.type is not Type.STRUCT:
        return schema
    fields = []
    for each, column in zip(schema.fields, kind, strict=True):
        inner = _required_as_such(each.schema, column.type)
        required = column.metadata is not None and REQUIRED in column.metadata
        fields.append(replace(each, schema=inner.as_optional(not required)))
    return replace(schema, fields=tuple(fields))


def _numbers(schema: Schema, array: pa.Array, names: Sequence[str]) -> pa.Array:
    """The column with logical types of these names as the numbers that they are."""
    if logical_name(schema) in names:
        return array.view(pa.int32())
    if schema.type is not Type.STRUCT:
        return array
    parts = zip(schema.fields, fields_of(array), strict=True)
    columns = [_numbers(each.schema, column, names) for each, column in parts]
    fields = [
        pa.field(each.name, column.type, each.schema.optional)
        for each, column in zip(schema.fields, columns, strict=True)
    ]
    mask = array.is_null() if array.null_count or not columns else None
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)
