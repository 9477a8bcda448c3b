"""A schema as the mapping of a new index. Without a schema the server guesses from the first documents."""

from __future__ import annotations

from typing import Any

from moldau.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type

_TYPES: dict[Type, dict[str, Any]] = {
    Type.INT8: {"type": "byte"},
    Type.INT16: {"type": "short"},
    Type.INT32: {"type": "integer"},
    Type.INT64: {"type": "long"},
    Type.FLOAT32: {"type": "float"},
    Type.FLOAT64: {"type": "double"},
    Type.BOOLEAN: {"type": "boolean"},
    Type.BYTES: {"type": "binary"},
    Type.STRING: {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}},
}
_LOGICAL: dict[str, dict[str, Any]] = {
    DECIMAL: {"type": "double"},
    DATE: {"type": "date"},
    TIME: {"type": "keyword"},
    TIMESTAMP: {"type": "date"},
}


def mapping_of(schema: Schema) -> dict[str, Any]:
    """The mapping of one field, or of a whole document."""
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is Type.STRUCT:
        return {"properties": {each.name: mapping_of(each.schema) for each in schema.fields}}
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return mapping_of(schema.value_schema)
    if schema.type is Type.MAP:
        return {"type": "object"}
    return _TYPES[schema.type]
