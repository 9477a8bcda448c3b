"""Columns in Avro's own types (as schemas/columns decodes and encodes them) <-> columns in Connect's.

The schema that columns are coded with is the registered one without its logical types (`plain_avro`), so that
dates and times are the numbers that both have in memory; decimals are kept where they fit into 38 digits, and
are bytes else (Confluent writes 64 digits where a schema names none).
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from moldau.connect.arrow_types import DIGITS_MAX, arrow_type, logical_name
from moldau.connect.converters.json.values import decimal_bytes, decimal_of
from moldau.connect.converters.registry.avro_schema import UNION, is_map_entries, scrubbed
from moldau.connect.converters.registry.avro_schema import bare as without_null
from moldau.connect.schema import DECIMAL, Schema, Type
from moldau.connect.structs import fields_of, struct_of
from moldau.schemas.avro.tree import AvroType
from moldau.schemas.languages import parse
from moldau.schemas.schema import ParsedSchema, SchemaText, SchemaType


def plain_avro(parsed: ParsedSchema) -> ParsedSchema:
    """The schema without logical types (and references)."""
    tree = json.loads(parsed.formatted("resolved"))
    _strip(tree)
    return parse(SchemaText(SchemaType.AVRO, json.dumps(tree)))


def _strip(node: Any) -> None:
    if isinstance(node, list):
        for each in node:
            _strip(each)
    elif isinstance(node, dict):
        precision = node.get("precision")
        if not (
            node.get("logicalType") == "decimal" and isinstance(precision, int) and precision <= DIGITS_MAX
        ):
            node.pop("logicalType", None)
        for name in ("type", "items", "values", "fields"):
            if name in node:
                _strip(node[name])


def from_avro(type_: AvroType, schema: Schema, array: pa.Array) -> pa.Array:
    """A decoded column of an Avro type as a column of its Connect schema. ArrowInvalid, ValueError: a decimal
    is too long."""
    inner, _ = without_null(type_)
    wanted = arrow_type(schema)
    if schema.type is Type.STRUCT:
        types = inner.branches if inner.kind == "union" else tuple(each.type for each in inner.fields)
        made = [
            from_avro(each, member.schema, column)
            for each, member, column in zip(types, schema.fields, fields_of(array), strict=True)
        ]
        return struct_of(schema, made, array, len(array))
    if inner.items is not None:
        return _nested_from_avro(inner, inner.items, schema, array)
    if array.type == wanted:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if logical_name(schema) == DECIMAL:
        if pa.types.is_decimal(array.type):
            return array.cast(wanted)
        values = [None if each is None else decimal_of(each, schema.scale) for each in array.to_pylist()]
        return pa.array(values, wanted)
    if pa.types.is_temporal(wanted):
        return array.view(wanted)
    return array.cast(wanted)


def _nested_from_avro(type_: AvroType, items: AvroType, schema: Schema, array: pa.Array) -> pa.Array:
    wanted = arrow_type(schema)
    mask = array.is_null() if array.null_count else None
    first, last = _bounds(array)
    offsets = pa.array(np.asarray(array.offsets) - first, pa.int32())
    if schema.type is Type.ARRAY:
        inner = from_avro(items, schema.items, array.values.slice(first, last - first))
        return pa.ListArray.from_arrays(offsets, inner, type=wanted, mask=mask)
    if type_.kind == "map":
        keys = array.keys.slice(first, last - first)
        values = from_avro(items, schema.items, array.items.slice(first, last - first))
    else:
        key, value = fields_of(array.values.slice(first, last - first))
        keys = from_avro(items.fields[0].type, schema.keys, key)
        values = from_avro(items.fields[1].type, schema.items, value)
    return map_of(wanted, offsets, keys, values, mask)


def map_of(
    kind: pa.DataType, offsets: pa.Array, keys: pa.Array, items: pa.Array, mask: pa.Array | None
) -> pa.Array:
    """A map column; null where `mask` is true."""
    entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    validity = None if mask is None else pa.array(np.invert(np.asarray(mask))).buffers()[1]
    return pa.Array.from_buffers(kind, len(offsets) - 1, [validity, offsets.buffers()[1]], -1, 0, [entries])


def _bounds(array: pa.Array) -> tuple[int, int]:
    offsets = array.offsets
    return offsets[0].as_py(), offsets[len(offsets) - 1].as_py()


def to_avro(type_: AvroType, schema: Schema, array: pa.Array) -> pa.Array:
    """A column of a Connect schema as the encoder takes it for an Avro type (which may be another than that
    of the schema: then names have to match)."""
    inner, _ = without_null(type_)
    if schema.type is Type.STRUCT:
        return _struct_to_avro(inner, schema, array)
    if inner.items is not None and schema.type in (Type.ARRAY, Type.MAP):
        return _nested_to_avro(inner, inner.items, schema, array)
    if logical_name(schema) == DECIMAL:
        scale = inner.properties.get("scale", 0)
        precision = inner.properties.get("precision", 0)
        if inner.kind == "bytes" and precision > DIGITS_MAX:
            values = array.to_pylist()
            return pa.array(
                [None if each is None else decimal_bytes(each, scale) for each in values], pa.binary()
            )
        return array
    if pa.types.is_temporal(array.type):
        return array.view(pa.int64() if schema.type is Type.INT64 else pa.int32())
    return array


def _struct_to_avro(inner: AvroType, schema: Schema, array: pa.Array) -> pa.Array:
    columns, names = [], []
    known = {each.name: each.type for each in inner.fields}
    for index, (each, column) in enumerate(zip(schema.fields, fields_of(array), strict=True)):
        if schema.name == UNION and inner.kind == "union":
            columns.append(to_avro(inner.branches[index], each.schema, column))
            names.append(f"member{index}")
        else:
            name = each.name if each.name in known else scrubbed(each.name)
            type_ = known.get(name)
            columns.append(column if type_ is None else to_avro(type_, each.schema, column))
            names.append(each.name if type_ is None else name)
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    mask = array.is_null() if array.null_count or not columns else None
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


def _nested_to_avro(inner: AvroType, items: AvroType, schema: Schema, array: pa.Array) -> pa.Array:
    first, last = _bounds(array)
    offsets = pa.array(np.asarray(array.offsets) - first, pa.int32())
    mask = array.is_null() if array.null_count else None
    if schema.type is Type.ARRAY:
        values = to_avro(items, schema.items, array.values.slice(first, last - first))
        kind = pa.list_(pa.field("element", values.type))
        return pa.ListArray.from_arrays(offsets, values, type=kind, mask=mask)
    keys, values = array.keys.slice(first, last - first), array.items.slice(first, last - first)
    if inner.kind == "map":
        values = to_avro(items, schema.items, values)
        return map_of(pa.map_(keys.type, pa.field("value", values.type)), offsets, keys, values, mask)
    if not is_map_entries(items):
        return array
    keys = to_avro(items.fields[0].type, schema.keys, keys)
    values = to_avro(items.fields[1].type, schema.items, values)
    fields = [pa.field("key", keys.type), pa.field("value", values.type)]
    entries = pa.StructArray.from_arrays([keys, values], fields=fields)
    kind = pa.list_(pa.field("element", entries.type))
    return pa.ListArray.from_arrays(offsets, entries, type=kind, mask=mask)
