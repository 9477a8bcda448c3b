"""What fastavro reads, in the shape that columns have: the oracle of the decoder's tests."""

from __future__ import annotations

import io
import json
from decimal import Context, Decimal
from typing import Any

import fastavro

from moldau.schemas.columns.avro_tree import AvroType, avro_tree
from moldau.schemas.columns.avro_types import not_null
from moldau.schemas.languages import parse
from moldau.schemas.schema import SchemaText, SchemaType

_EXACT = Context(prec=77)


def expected_row(writer: str, reader: str, payload: bytes) -> dict[str, Any]:
    """The row of a record without header; raises what fastavro raises."""
    root = avro_tree(parse(SchemaText(SchemaType.AVRO, reader)))
    value = fastavro.schemaless_reader(
        io.BytesIO(payload), raw_schema(writer), raw_schema(reader), return_named_type=True
    )
    row: dict[str, Any] = spark_value(root, value)
    return row


def raw_schema(text: str) -> Any:
    """The schema for fastavro without logical types: values stay what is on the wire."""
    return fastavro.parse_schema(_without_logical(json.loads(text)))


def _without_logical(source: Any) -> Any:
    if isinstance(source, list):
        return [_without_logical(each) for each in source]
    if not isinstance(source, dict):
        return source
    return {
        name: value if name == "default" else _without_logical(value)
        for name, value in source.items()
        if name != "logicalType"
    }


def spark_value(type_: AvroType, value: Any) -> Any:
    """What fastavro read -> what the column has."""
    bare, _ = not_null(type_)
    if value is None:
        return None
    if isinstance(value, tuple) and bare.kind != "union":
        value = value[1]
    if bare.kind == "record":
        fields = value
        return {each.name: spark_value(each.type, fields[each.name]) for each in bare.fields}
    if bare.kind == "union":
        for index, branch in enumerate(bare.branches):
            if _is_of(branch, value):
                return {f"member{index}": spark_value(branch, value)}
        raise ValueError("no branch")
    if bare.kind == "array":
        assert bare.items is not None
        return [spark_value(bare.items, each) for each in value]
    if bare.kind == "map":
        assert bare.items is not None
        return [(key, spark_value(bare.items, each)) for key, each in value.items()]
    if bare.logical is None:
        return value
    if bare.logical.name == "decimal":
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-bare.logical.scale, _EXACT)
    return value * 1000 if bare.logical.name.endswith("millis") else value


_PYTHON = {
    "boolean": bool, "int": int, "long": int, "float": float, "double": float, "bytes": bytes,
    "string": str, "array": list, "map": dict,
}  # fmt: skip


def _is_of(branch: AvroType, value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(branch.name == value[0])
    if branch.name:
        return False
    return type(value) is _PYTHON[branch.kind]
