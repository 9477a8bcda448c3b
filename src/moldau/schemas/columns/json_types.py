"""JSON Schema -> Arrow types.

    boolean                        bool
    integer                        int64    (connect.type int8, int16, int32: these)
    number                         double   (connect.type float32: float)
    string                         string   (format date: date32; date-time: timestamp[us, UTC])
    object with properties         struct
    object with additionalProperties of a type    map<string, ...>
    array with items of one type   list
    T or null, const, enum         T, of its values

What is none of these (a choice of types, a tuple, a recursive definition, a reference that leads nowhere) is
a string: the value as JSON text, as Spark's from_json does it for a column of type string. Every column is
nullable: JSON Schema says what must be there, but a decoder that reads newer and older records at once
cannot.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from moldau.schemas.columns.errors import NoColumns
from moldau.schemas.columns.program import COLUMNS_MAX
from moldau.schemas.schema import ParsedSchema

TEXT, REQUIRED, NULL_ALLOWED = b"json", b"required", b"null"
"""The keys of fields' metadata: it holds JSON text; the schema requires it; the schema allows null."""
_DEPTH_MAX = 50
_STEPS_MAX = 100_000
"""Definitions that use definitions twice double what has to be looked at."""
_CONNECT = {
    ("integer", "int8"): pa.int8(),
    ("integer", "int16"): pa.int16(),
    ("integer", "int32"): pa.int32(),
    ("number", "float32"): pa.float32(),
}
_FORMATS = {"date": pa.date32(), "date-time": pa.timestamp("us", "UTC")}
_PLAIN = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64(), "string": pa.string()}
_OF_VALUES = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}


def arrow_row(parsed: ParsedSchema) -> tuple[pa.StructType, bool]:
    """The columns of a schema: the object's properties, or one named `value` where it is no object; and
    whether it is one.
    """
    types = _Types(parsed)
    made = types.field("value", types.root, ())
    return (made.type, True) if pa.types.is_struct(made.type) else (pa.struct([made]), False)


def is_text(field: pa.Field) -> bool:
    """Whether a column holds JSON text."""
    return field.metadata is not None and TEXT in field.metadata


class _Types:
    """`inside` are the definitions around: one that comes back is recursive."""

    def __init__(self, parsed: ParsedSchema) -> None:
        self.root = json.loads(parsed.canonical)
        self._texts = dict(parsed.dependencies)
        self._others: dict[str, Any] = {}
        self._count = self._steps = 0

    def field(self, name: str, schema: Any, inside: tuple[int, ...]) -> pa.Field:
        self._count += 1
        if self._count > COLUMNS_MAX:
            raise NoColumns(f"the schema has more than {COLUMNS_MAX} columns")
        kind = self._type(schema, inside, self.root)
        return pa.field(name, pa.string(), metadata={TEXT: b"1"}) if kind is None else pa.field(name, kind)

    def _type(self, schema: Any, inside: tuple[int, ...], document: Any) -> pa.DataType | None:
        """None: only as text."""
        self._steps += 1
        if self._steps > _STEPS_MAX:
            raise NoColumns(f"finding the columns of the schema takes more than {_STEPS_MAX} steps")
        if not isinstance(schema, dict) or id(schema) in inside or len(inside) > _DEPTH_MAX:
            return None
        inside = (*inside, id(schema))
        if "$ref" in schema:
            target = self._target(schema["$ref"], document)
            return None if target is None else self._type(target, inside, document)
        for word in ("oneOf", "anyOf"):
            if word in schema:
                rest = [each for each in schema[word] if not _is_null(each)]
                return self._type(rest[0], inside, document) if len(rest) == 1 else None
        if "allOf" in schema:
            return self._all_of(schema, inside, document)
        kind = _kind(schema)
        if kind == "object":
            return self._object(schema, inside)
        if kind == "array":
            items = schema.get("items")
            return pa.list_(self.field("element", items, inside)) if isinstance(items, dict) else None
        if kind == "string" and str(schema.get("format")) in _FORMATS:
            return _FORMATS[schema["format"]]
        return _CONNECT.get((str(kind), str(schema.get("connect.type"))), _PLAIN.get(str(kind)))

    def _object(self, schema: dict[str, Any], inside: tuple[int, ...]) -> pa.DataType | None:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            required = schema.get("required", ())
            fields = []
            for name, each in properties.items():
                field = self.field(name, each, inside)
                words = {REQUIRED: b"1"} if name in required else {}
                words |= {NULL_ALLOWED: b"1"} if _allows_null(each) else {}
                fields.append(field.with_metadata({**(field.metadata or {}), **words}) if words else field)
            return pa.struct(fields)
        others = schema.get("additionalProperties")
        if isinstance(others, dict) and others:
            return pa.map_(pa.string(), self.field("value", others, inside))
        return None

    def _all_of(self, schema: dict[str, Any], inside: tuple[int, ...], document: Any) -> pa.DataType | None:
        """Objects that are all of it: their properties together."""
        parts = [{name: value for name, value in schema.items() if name != "allOf"}, *schema["allOf"]]
        kinds = [self._type(each, inside, document) for each in parts if each]
        if len(kinds) == 1:
            return kinds[0]
        fields: dict[str, pa.Field] = {}
        for kind in kinds:
            if kind is None or not pa.types.is_struct(kind):
                return None
            fields |= {kind.field(index).name: kind.field(index) for index in range(kind.num_fields)}
        return pa.struct(list(fields.values())) if fields else None

    def _target(self, reference: Any, document: Any) -> Any:
        """What a reference within the document, or to another by its name, means; None: unknown."""
        name, _, pointer = str(reference).partition("#")
        found = document
        if name:
            if name not in self._others:
                text = self._texts.get(name, "null")
                # its own references would be looked for in the wrong document
                self._others[name] = json.loads(text) if '"$ref"' not in text else None
            found = self._others[name]
        for part in pointer.split("/")[1:] if pointer else ():
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found


def _allows_null(schema: Any) -> bool:
    """Whether null is surely a value of it; a reference is not followed."""
    if not isinstance(schema, dict):
        return schema is True
    kinds = schema.get("type")
    if any(_is_null(each) for word in ("oneOf", "anyOf") for each in schema.get(word, ())):
        return True
    if kinds is None:
        return not set(schema) & {"$ref", "oneOf", "anyOf", "allOf", "properties", "not", "enum", "const"}
    return kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _kind(schema: dict[str, Any]) -> str | None:
    """The one type besides null that values have; None if there is no such."""
    named = schema.get("type")
    kinds = [named] if isinstance(named, str) else named
    if kinds is None and ("const" in schema or "enum" in schema):
        values = [schema["const"]] if "const" in schema else schema["enum"]
        kinds = sorted({_OF_VALUES.get(type(each), "null") for each in values})
    if kinds is None and "properties" in schema:
        return "object"
    rest = [each for each in kinds or () if each != "null"]
    return rest[0] if len(rest) == 1 and isinstance(rest[0], str) else None
