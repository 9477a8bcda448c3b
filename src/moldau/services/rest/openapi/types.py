"""Short ways to write JSON Schema as OpenAPI 3.0 has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer", "format": "int32"}
LONG: Schema = {"type": "integer", "format": "int64"}
FLAG: Schema = {"type": "boolean"}
ANYTHING: Schema = {}


def ref(name: str) -> Schema:
    """A schema of the document by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def nullable(schema: Schema) -> Schema:
    """The same, or null."""
    return {"allOf": [schema], "nullable": True} if "$ref" in schema else {**schema, "nullable": True}


def list_of(schema: Schema) -> Schema:
    """An array."""
    return {"type": "array", "items": schema}


def one_of(*values: str) -> Schema:
    """A text of some; more may come, so it is no enumeration for clients."""
    return {"type": "string", "x-extensible-enum": list(values)}


def optional(schema: Schema) -> Schema:
    """A property that may be absent."""
    return {**schema, "x-optional": True}


def obj(**properties: Schema) -> Schema:
    """An object; all properties are there but the `optional` ones."""
    required = [name for name, each in properties.items() if not each.get("x-optional")]
    shown = {
        name: {key: value for key, value in each.items() if key != "x-optional"}
        for name, each in properties.items()
    }
    made: dict[str, Any] = {"type": "object", "properties": shown}
    return {**made, "required": required} if required else made
