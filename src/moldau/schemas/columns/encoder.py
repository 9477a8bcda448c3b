"""Columns -> records in Confluent's wire format (decoder.py draws it), written with one schema.

Columns are matched with fields by name. A field without a column is written as its default, or as null where
it may be null; a column without a field is refused, since it would be lost. A null row is a null value.
"""

from __future__ import annotations

import datetime
import io
import struct
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from moldau.schemas.columns.avro_tree import MISSING, AvroType, avro_tree
from moldau.schemas.columns.avro_types import not_null
from moldau.schemas.columns.errors import NotEncodable
from moldau.schemas.schema import ParsedSchema, SchemaType

_HEADER = struct.Struct(">bI")
_EXACT = Context(prec=77)
_EPOCH = datetime.datetime(1970, 1, 1)


class Encoder:
    """Encodes batches with one schema."""

    def __init__(self, parsed: ParsedSchema, schema_id: int) -> None:
        if parsed.schema_type is not SchemaType.AVRO:
            raise NotEncodable(f"schemas of type {parsed.schema_type} are not written yet")
        self._header = _HEADER.pack(0, schema_id)
        self._schema, self._root = raw_schema(parsed), avro_tree(parsed)

    def encode(self, rows: pa.StructArray) -> pa.Array:
        """One record for each row, with header; NotEncodable if a row does not fit the schema."""
        import fastavro

        records: list[bytes | None] = []
        plain = not_null(self._root)[0].kind != "record"
        for index, row in enumerate(rows.to_pylist()):
            if row is None:
                records.append(None)
                continue
            stream = io.BytesIO(self._header)
            stream.seek(len(self._header))
            try:
                value = _avro_value(self._root, row["value"] if plain else row)
                fastavro.schemaless_writer(stream, self._schema, value, disable_tuple_notation=False)
            except Exception as error:
                raise NotEncodable(f"row {index} does not fit the schema: {error}") from None
            records.append(stream.getvalue())
        return pa.array(records, pa.binary())


def _avro_value(type_: AvroType, value: Any) -> Any:
    bare, _ = not_null(type_)
    if value is None:
        return None
    if bare.kind == "record":
        unknown = set(value) - {each.name for each in bare.fields}
        if unknown:
            raise ValueError(f"the schema has no field {', '.join(sorted(unknown))}")
        return {
            each.name: _avro_value(each.type, value[each.name])
            for each in bare.fields
            if each.name in value or (each.default is MISSING and not not_null(each.type)[1])
        }
    if bare.kind == "array":
        assert bare.items is not None
        return [_avro_value(bare.items, each) for each in value]
    if bare.kind == "map":
        assert bare.items is not None
        return {key: _avro_value(bare.items, each) for key, each in value}
    if bare.logical is None:
        return value
    if bare.logical.name == "decimal":
        number = int(Decimal(value).scaleb(bare.logical.scale, _EXACT))
        size = bare.size_bytes or number.bit_length() // 8 + 1
        return number.to_bytes(size, "big", signed=True)
    if bare.logical.name == "date":
        return (value - _EPOCH.date()).days
    us = _microseconds(value)
    return us // 1000 if bare.logical.name.endswith("millis") else us


def _microseconds(value: Any) -> int:
    return int((value.replace(tzinfo=None) - _EPOCH) // datetime.timedelta(microseconds=1))


def raw_schema(parsed: ParsedSchema) -> Any:
    import json

    import fastavro

    def bare(source: Any) -> Any:
        if isinstance(source, list):
            return [bare(each) for each in source]
        if not isinstance(source, dict):
            return source
        return {
            name: value if name == "default" else bare(value)
            for name, value in source.items()
            if name != "logicalType"
        }

    return fastavro.parse_schema(bare(json.loads(parsed.formatted("resolved"))))
