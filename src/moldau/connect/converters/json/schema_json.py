"""Connect's schemas as JSON.

{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"optional":false,"name":"Order"}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from moldau.connect.arrow_types import arrow_type
from moldau.connect.batch import Column
from moldau.connect.converters.json import values as json_values
from moldau.connect.errors import ConnectError
from moldau.connect.schema import Field, Schema, Type
from moldau.connect.values import python_values

DEPTH_MAX = 100
"""Schemas that are nested deeper are refused."""
_TYPES = {each.value: each for each in Type}


class NoSchema(ConnectError):
    """JSON that is no schema of Connect's; the message has Kafka's words."""


def schema_from_json(node: Any, depth: int = 0) -> Schema | None:
    """The schema that JSON stands for; None for null. NoSchema."""
    if node is None:
        return None
    if depth > DEPTH_MAX:
        raise NoSchema(f"Schema is nested deeper than {DEPTH_MAX}")
    if not isinstance(node, Mapping) or not isinstance(node.get("type"), str):
        raise NoSchema("Schema must contain 'type' field")
    type_ = _TYPES.get(node["type"])
    if type_ is None:
        raise NoSchema(f"Unknown schema type: {node['type']}")
    below: dict[str, Any] = {}
    if type_ is Type.ARRAY:
        below["value_schema"] = _required(
            node.get("items"), "Array schema did not specify the element type", depth
        )
    elif type_ is Type.MAP:
        below["key_schema"] = _required(node.get("keys"), "Map schema did not specify the key type", depth)
        below["value_schema"] = _required(
            node.get("values"), "Map schema did not specify the value type", depth
        )
    elif type_ is Type.STRUCT:
        below["fields"] = _fields(node.get("fields"), depth)
    version = node.get("version")
    made = Schema(
        type_,
        node.get("optional") is True,
        _text(node.get("name")),
        version if isinstance(version, int) and not isinstance(version, bool) else None,
        _text(node.get("doc")),
        parameters=_parameters(node.get("parameters")),
        **below,
    )
    default = node.get("default")
    if default is None:
        return made
    return replace(made, default=_default(made, default))


def _default(schema: Schema, node: Any) -> Any:
    try:
        array = pa.array([json_values.exact(schema, node, "default")], arrow_type(schema))
        return python_values(Column(schema, array))[0]
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        raise NoSchema(f"Invalid default value: {error}") from None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _required(node: Any, message: str, depth: int) -> Schema:
    made = schema_from_json(node, depth + 1)
    if made is None:
        raise NoSchema(message)
    return made


def _fields(nodes: Any, depth: int) -> tuple[Field, ...]:
    if not isinstance(nodes, list):
        raise NoSchema('Struct schema\'s "fields" argument is not an array.')
    made: dict[str, Field] = {}
    for node in nodes:
        name = node.get("field") if isinstance(node, Mapping) else None
        if not isinstance(name, str):
            raise NoSchema("Struct schema's field name not specified properly")
        if name in made:
            raise NoSchema(f"Cannot create field because of field name duplication {name}")
        made[name] = Field(name, _required(node, "Schema must contain 'type' field", depth))
    return tuple(made.values())


def _parameters(node: Any) -> dict[str, str]:
    if node is None:
        return {}
    if not isinstance(node, Mapping) or not all(isinstance(each, str) for each in node.values()):
        raise NoSchema("Schema parameters must have string values.")
    return dict(node)


def schema_to_json(schema: Schema, numeric: bool = False) -> dict[str, Any]:
    """The JSON of a schema, keys in Kafka's order. `numeric`: decimals in defaults are numbers (as texts of
    class `json_values.Number`)."""
    made: dict[str, Any] = {"type": schema.type.value}
    if schema.type is Type.ARRAY:
        made["items"] = schema_to_json(schema.items, numeric)
    elif schema.type is Type.MAP:
        made["keys"] = schema_to_json(schema.keys, numeric)
        made["values"] = schema_to_json(schema.items, numeric)
    elif schema.type is Type.STRUCT:
        made["fields"] = [
            schema_to_json(each.schema, numeric) | {"field": each.name} for each in schema.fields
        ]
    made["optional"] = schema.optional
    for name, value in (("name", schema.name), ("version", schema.version), ("doc", schema.doc)):
        if value is not None:
            made[name] = value
    if schema.parameters:
        made["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        made["default"] = json_values.plain(schema, schema.default, numeric)
    return made
