"""Connect's schemas <-> Avro's, as Confluent's AvroData maps them.

    record       STRUCT; its full name, unless that is io.confluent.connect.avro.ConnectDefault
    [null, T]    T, optional          other unions    STRUCT io.confluent.connect.avro.Union, a field a branch
    int          INT32; connect.type int8, int16; logical types date, time-millis
    long         INT64; logical type timestamp-millis
    bytes        BYTES; logical type decimal; fixed has the parameter connect.fixed.size
    enum         STRING, its symbols as parameters
    map          MAP; an array of records MapEntry(key, value) is a MAP whose keys are no texts

connect.name, connect.version, connect.doc, connect.parameters hold what Avro has no place for. A union of int
and long is INT64, of float and double FLOAT64 (Confluent: a STRUCT).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from moldau.connect.arrow_types import logical_name
from moldau.connect.converters.json.values import decimal_bytes, decimal_of
from moldau.connect.errors import ConnectError
from moldau.connect.schema import (
    DATE,
    DECIMAL,
    PRECISION,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    Type,
)
from moldau.connect.values import logical, physical
from moldau.schemas.avro.tree import NO_DEFAULT, AvroType

NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = "ConnectDefault"
UNION = f"{NAMESPACE}.Union"
MAP_ENTRY = "MapEntry"
ENUM = f"{NAMESPACE}.Enum"
FIXED_SIZE = "connect.fixed.size"
PRECISION_DEFAULT = 64
DEPTH_MAX = 100
_PLAIN = {
    "boolean": Type.BOOLEAN,
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "bytes": Type.BYTES,
    "string": Type.STRING,
    "enum": Type.STRING,
    "fixed": Type.BYTES,
    "null": Type.STRING,
}
_LOGICAL = {("int", "date"): DATE, ("int", "time-millis"): TIME, ("long", "timestamp-millis"): TIMESTAMP}
_SMALL = {"int8": Type.INT8, "int16": Type.INT16}


def bare(type_: AvroType) -> tuple[AvroType, bool]:
    """The type without null, as columns have it (schemas/columns/avro_types.not_null), and whether null was
    one of its branches."""
    if type_.kind != "union":
        return type_, False
    rest = tuple(each for each in type_.branches if each.kind != "null")
    nullable = len(rest) < len(type_.branches)
    if not rest:
        return AvroType("null"), True
    if len(rest) == 1:
        return rest[0], nullable
    kinds = {each.kind for each in rest}
    if len(rest) == 2 and kinds in ({"int", "long"}, {"float", "double"}):
        return AvroType("long" if "long" in kinds else "double"), nullable
    return AvroType("union", branches=rest), nullable


def is_map_entries(type_: AvroType) -> bool:
    """Whether an array of this type is a MAP."""
    named = type_.properties.get("connect.internal.type") == MAP_ENTRY
    return (
        type_.is_record
        and [each.name for each in type_.fields] == ["key", "value"]
        and (named or (type_.name is not None and type_.name.full == f"{NAMESPACE}.{MAP_ENTRY}"))
    )


def schema_of_avro(type_: AvroType, depth: int = 0) -> Schema:
    """Connect's schema of an Avro type. ConnectError if it is nested too deep (or contains itself)."""
    if depth > DEPTH_MAX:
        raise ConnectError(f"the Avro schema is nested deeper than {DEPTH_MAX}, or contains itself")
    inner, optional = bare(type_)
    return _schema(inner, optional or inner.kind == "null", depth)


def _schema(type_: AvroType, optional: bool, depth: int) -> Schema:
    given = type_.properties
    parameters = {str(k): str(v) for k, v in (given.get("connect.parameters") or {}).items()}
    version = given.get("connect.version")
    made = Schema(
        Type.STRUCT,
        optional,
        given.get("connect.name"),
        version if isinstance(version, int) else None,
        given.get("connect.doc") or type_.doc,
    )
    if type_.kind == "union":
        fields = [Field(branch_name(each), _schema(each, True, depth + 1)) for each in type_.branches]
        return Schema(Type.STRUCT, optional, UNION, fields=tuple(fields))
    if type_.is_record:
        members = tuple(_field(each.type, each.name, each.default, each.doc, depth) for each in type_.fields)
        full = type_.full_name
        name = made.name or (None if full.startswith(f"{NAMESPACE}.{DEFAULT_NAME}") else full)
        return replace(made, name=name, fields=members, parameters=parameters)
    if type_.kind == "array":
        items = _items(type_)
        if is_map_entries(items):
            key, value = (schema_of_avro(each.type, depth + 1) for each in items.fields)
            return replace(made, type=Type.MAP, key_schema=key, value_schema=value, parameters=parameters)
        return replace(
            made, type=Type.ARRAY, value_schema=schema_of_avro(items, depth + 1), parameters=parameters
        )
    if type_.kind == "map":
        value = schema_of_avro(_items(type_), depth + 1)
        keys = Schema(Type.STRING)
        return replace(made, type=Type.MAP, key_schema=keys, value_schema=value, parameters=parameters)
    return _leaf(type_, made, parameters)


def _items(type_: AvroType) -> AvroType:
    if type_.items is None:
        raise ConnectError(f"an Avro {type_.kind} has no items")
    return type_.items


def _leaf(type_: AvroType, made: Schema, parameters: dict[str, str]) -> Schema:
    given, kind = type_.properties, type_.kind
    word = given.get("logicalType")
    name = _LOGICAL.get((kind, str(word)))
    if name is None and made.name in (DATE, TIME, TIMESTAMP) and kind in ("int", "long"):
        name = made.name
    if name is not None:
        type_of = Type.INT64 if kind == "long" else Type.INT32
        return replace(made, type=type_of, name=name, version=made.version or 1, parameters=parameters)
    if kind in ("bytes", "fixed") and word == "decimal" and isinstance(given.get("scale", 0), int):
        parameters = {"scale": str(given.get("scale", 0))} | parameters
        precision = given.get("precision")
        if isinstance(precision, int) and precision != PRECISION_DEFAULT:
            parameters[PRECISION] = str(precision)
        return replace(made, type=Type.BYTES, name=DECIMAL, version=made.version or 1, parameters=parameters)
    if kind == "enum":
        parameters = {
            ENUM: type_.full_name,
            **{f"{ENUM}.{each}": each for each in type_.symbols},
        } | parameters
    if kind == "fixed":
        parameters = {FIXED_SIZE: str(type_.size_bytes)} | parameters
        made = replace(made, name=made.name or type_.full_name)
    type_of = _SMALL.get(str(given.get("connect.type")), Type.INT32) if kind == "int" else _PLAIN[kind]
    return replace(made, type=type_of, parameters=parameters)


def branch_name(type_: AvroType) -> str:
    """The field of a union's branch."""
    return type_.name.simple if type_.name is not None else type_.kind


def _field(type_: AvroType, name: str, default: Any, doc: str | None, depth: int) -> Field:
    schema = schema_of_avro(type_, depth + 1)
    if doc is not None and schema.doc is None:
        schema = replace(schema, doc=doc)
    if default is NO_DEFAULT or default is None:
        return Field(name, schema)
    try:
        return Field(name, replace(schema, default=_python_default(bare(type_)[0], schema, default)))
    except (ValueError, TypeError, OverflowError, AttributeError, KeyError):
        return Field(name, schema)


def _python_default(type_: AvroType, schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if logical_name(schema) == DECIMAL:
        return decimal_of(value.encode("latin-1"), schema.scale)
    if schema.type is Type.BYTES:
        return value.encode("latin-1")
    if type_.is_record:
        return {
            each.name: _python_default(bare(each.type)[0], inner.schema, value[each.name])
            for each, inner in zip(type_.fields, schema.fields, strict=True)
        }
    if schema.type is Type.ARRAY and type_.items is not None:
        return [_python_default(bare(type_.items)[0], schema.items, each) for each in value]
    if type_.kind == "map" and type_.items is not None:
        inner = bare(type_.items)[0]
        return {key: _python_default(inner, schema.items, each) for key, each in value.items()}
    return logical(schema, value)


@dataclass(slots=True)
class AvroText:
    """Makes the JSON of Avro schemas; types with names are defined once in each."""

    meta_data: bool = True
    enhanced: bool = False
    scrub: bool = False
    _defined: dict[str, Schema] = field(default_factory=dict)

    def of(self, schema: Schema) -> Any:
        """The whole schema of a key or value. ConnectError: Avro cannot express it."""
        self._defined = {}
        return self._optional(schema, self._type(schema))

    def _optional(self, schema: Schema, made: Any) -> Any:
        if not schema.optional or schema.name == UNION:
            if schema.name == UNION and schema.optional:
                return ["null", *made]
            return made
        return [made, "null"] if schema.default is not None else ["null", made]

    def _type(self, schema: Schema) -> Any:
        kind = schema.type
        if kind is Type.STRUCT:
            return self._struct(schema)
        if kind is Type.ARRAY:
            return self._annotated({"type": "array", "items": self.inner(schema.items)}, schema)
        if kind is Type.MAP:
            return self._map(schema)
        made: dict[str, Any] = {"type": _AVRO_NAMES[kind]}
        if kind in (Type.INT8, Type.INT16):
            made["connect.type"] = kind.value
        name = logical_name(schema)
        if name == DECIMAL:
            made["scale"] = schema.scale
            made["precision"] = int(schema.parameters.get(PRECISION, PRECISION_DEFAULT))
        elif FIXED_SIZE in schema.parameters and kind is Type.BYTES:
            return self._named(
                schema, {"type": "fixed", "size": int(schema.parameters[FIXED_SIZE])}, self._name(schema)
            )
        elif self.enhanced and ENUM in schema.parameters:
            symbols = [v for k, v in schema.parameters.items() if k.startswith(f"{ENUM}.")]
            return self._named(schema, {"type": "enum", "symbols": symbols}, schema.parameters[ENUM])
        made = self._annotated(made, schema)
        if name is not None:
            made["logicalType"] = _LOGICAL_WORDS[name]
        return made if len(made) > 1 else made["type"]

    def inner(self, schema: Schema) -> Any:
        """Of a field, or of items."""
        return self._optional(schema, self._type(schema))

    def _map(self, schema: Schema) -> Any:
        if schema.keys.type is Type.STRING and not schema.keys.optional:
            return self._annotated({"type": "map", "values": self.inner(schema.items)}, schema)
        name = f"{NAMESPACE}.{MAP_ENTRY}" if schema.name is None else schema.name
        taken, number = name, 2
        while taken in self._defined:
            taken, number = f"{name}{number}", number + 1
        self._defined[taken] = schema
        space, _, simple = taken.rpartition(".")
        fields = [
            {"name": "key", "type": self.inner(schema.keys)},
            {"name": "value", "type": self.inner(schema.items)},
        ]
        entry = {"type": "record", "name": simple, "namespace": space, "fields": fields}
        entry["connect.internal.type"] = MAP_ENTRY
        return self._annotated({"type": "array", "items": entry}, schema)

    def _struct(self, schema: Schema) -> Any:
        if schema.name == UNION:
            return [self._type(each.schema) for each in schema.fields]
        full = self._name(schema)
        if self._defined.get(full) == _definition(schema):
            return full
        fields: list[Any] = []
        made = self._named(schema, {"type": "record", "fields": fields}, full)
        for each in schema.fields:
            member: dict[str, Any] = {"name": self._part(each.name), "type": self.inner(each.schema)}
            if each.schema.doc is not None:
                member["doc"] = each.schema.doc
            if each.schema.default is not None:
                member["default"] = _avro_default(each.schema, each.schema.default)
            elif each.schema.optional:
                member["default"] = None
            fields.append(member)
        return made

    def _name(self, schema: Schema) -> str:
        if schema.name is not None:
            return ".".join(map(self._part, schema.name.split(".")))
        name = f"{NAMESPACE}.{DEFAULT_NAME}"
        taken, number = name, 2
        while taken in self._defined:
            taken, number = f"{name}{number}", number + 1
        return taken

    def _named(self, schema: Schema, made: dict[str, Any], full: str) -> Any:
        if full in self._defined:
            if self._defined[full] == _definition(schema):
                return full
            raise ConnectError(f"Can't redefine: {full}: two different schemas have this name")
        self._defined[full] = _definition(schema)
        space, _, simple = full.rpartition(".")
        head: dict[str, Any] = {"type": made.pop("type"), "name": simple}
        if space:
            head["namespace"] = space
        head |= made
        return self._annotated(head, schema)

    def _part(self, name: str) -> str:
        if _NAME.fullmatch(name):
            return name
        if not self.scrub:
            raise ConnectError(
                f"Illegal character in: {name}: Avro allows letters, digits and _ in names; rename it "
                "(ReplaceField), or set scrub.invalid.names=true"
            )
        return scrubbed(name)

    def _annotated(self, made: dict[str, Any], schema: Schema) -> dict[str, Any]:
        if not self.meta_data:
            return made
        if schema.doc is not None:
            made["connect.doc"] = schema.doc
        if schema.version is not None:
            made["connect.version"] = schema.version
        if schema.parameters:
            made["connect.parameters"] = dict(schema.parameters)
        if schema.default is not None:
            made["connect.default"] = _avro_default(schema, schema.default)
        if schema.name is not None:
            made["connect.name"] = schema.name
        return made


_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_AVRO_NAMES = {
    Type.BOOLEAN: "boolean",
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_LOGICAL_WORDS = {
    DECIMAL: "decimal",
    DATE: "date",
    TIME: "time-millis",
    TIMESTAMP: "timestamp-millis",
}


def scrubbed(name: str) -> str:
    """A name that Avro allows."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return made if not made[:1].isdigit() else f"_{made}"


def _definition(schema: Schema) -> Schema:
    return replace(schema, optional=False, default=None)


def _avro_default(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if logical_name(schema) == DECIMAL:
        return decimal_bytes(value, schema.scale).decode("latin-1")
    if schema.type is Type.BYTES:
        return bytes(value).decode("latin-1")
    if schema.type is Type.STRUCT:
        return {each.name: _avro_default(each.schema, value.get(each.name)) for each in schema.fields}
    if schema.type is Type.ARRAY:
        return [_avro_default(schema.items, each) for each in value]
    if schema.type is Type.MAP:
        return {str(key): _avro_default(schema.items, each) for key, each in value.items()}
    return physical(schema, value)
