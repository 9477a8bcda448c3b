"""Arrow columns -> the schema to register for them, in each language.

    column                        Avro                     JSON Schema            Protobuf (proto3)
    bool int8..int32 int64        boolean int long         boolean integer        bool int32 int64
    float double                  float double             number                 float double
    string binary                 string bytes             string                 string bytes
    decimal(p, s)                 bytes, decimal           number                 -
    date                          int, date                string, date           -
    timestamp with / without zone timestamp- / local-      string, date-time      google.protobuf.Timestamp
                                  timestamp-micros                                (with a zone)
    struct list map<string, ...>  record array map         object array object    message repeated map

A nullable column is a union with null first and null as default in Avro, a type or null in JSON Schema,
`optional` in Protobuf: so a column that is added later is a compatible change. What a language has no type
for is refused (NoColumns) rather than written as something else.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from moldau.schemas.columns.errors import NoColumns
from moldau.schemas.schema import ParsedSchema, SchemaText, SchemaType

_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def schema_of_arrow(
    columns: pa.Schema, schema_type: SchemaType, name: str, previous: ParsedSchema | None = None
) -> SchemaText:
    """The schema of rows with these columns; `name` is the full name of the record or message, dots separate
    the namespace (the package). `previous`: the schema that this one follows, whose fields keep their numbers
    in Protobuf. NoColumns if the language cannot express a column.
    """
    for part in name.split("."):
        _require_name(part, f"the name {name}")
    if schema_type is SchemaType.AVRO:
        record = _Avro().record(columns, name)
        return SchemaText(schema_type, json.dumps(record))
    if schema_type is SchemaType.JSON:
        document = {"$schema": "http://json-schema.org/draft-07/schema#", "title": name}
        return SchemaText(schema_type, json.dumps(document | _json_object(columns)))
    return SchemaText(schema_type, _Protobuf().file(columns, name, _message_before(previous)))


def _require_name(name: str, what: str) -> None:
    if not _AVRO_NAME.fullmatch(name):
        raise NoColumns(
            f"{what}: Avro and Protobuf allow letters, digits and _ in names (no digit first); rename it"
        )


class _Avro:
    """Nested records are named after their field, inside the namespace of the record around them."""

    def record(self, fields: Any, full_name: str) -> dict[str, Any]:
        namespace, _, name = full_name.rpartition(".")
        made: dict[str, Any] = {"type": "record", "name": name}
        if namespace:
            made["namespace"] = namespace
        made["fields"] = [self._field(each, full_name) for each in fields]
        return made

    def _field(self, field: pa.Field, inside: str) -> dict[str, Any]:
        _require_name(field.name, f"the column {field.name}")
        made = {"name": field.name, "type": self._nullable(field, f"{inside}.{field.name}")}
        return made | {"default": None} if field.nullable else made

    def _nullable(self, field: pa.Field, path: str) -> Any:
        kind = self._type(field.type, path)
        return ["null", kind] if field.nullable and kind != "null" else kind

    def _type(self, kind: pa.DataType, path: str) -> Any:
        types = pa.types
        if types.is_struct(kind):
            return self.record([kind.field(index) for index in range(kind.num_fields)], path)
        if types.is_list(kind) or types.is_large_list(kind):
            return {"type": "array", "items": self._nullable(kind.value_field, path)}
        if types.is_map(kind) and types.is_string(kind.key_type):
            return {"type": "map", "values": self._nullable(kind.item_field, path)}
        if types.is_decimal(kind):
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": kind.precision,
                "scale": kind.scale,
            }
        if types.is_timestamp(kind):
            zone = "local-" if kind.tz is None else ""
            return {"type": "long", "logicalType": f"{zone}timestamp-micros"}
        if types.is_date32(kind):
            return {"type": "int", "logicalType": "date"}
        for predicates, name in _AVRO_NAMES:
            if any(predicate(kind) for predicate in predicates):
                return name
        raise NoColumns(f"{path} has the type {kind}, which Avro has no type for; cast it first")


_T = pa.types
_AVRO_NAMES = (
    ((_T.is_null,), "null"),
    ((_T.is_boolean,), "boolean"),
    ((_T.is_int8, _T.is_int16, _T.is_int32), "int"),
    ((_T.is_int64,), "long"),
    ((_T.is_float32,), "float"),
    ((_T.is_float64,), "double"),
    ((_T.is_string, _T.is_large_string), "string"),
    ((_T.is_binary, _T.is_large_binary), "bytes"),
)
_JSON_NAMES = (
    ((_T.is_null,), {"type": "null"}),
    ((_T.is_boolean,), {"type": "boolean"}),
    ((_T.is_int8, _T.is_int16, _T.is_int32), {"type": "integer", "connect.type": "int32"}),
    ((_T.is_int64,), {"type": "integer"}),
    ((_T.is_float32, _T.is_float64, _T.is_decimal), {"type": "number"}),
    ((_T.is_string, _T.is_large_string), {"type": "string"}),
    ((_T.is_date32,), {"type": "string", "format": "date"}),
    ((_T.is_timestamp,), {"type": "string", "format": "date-time"}),
)


def _json_object(fields: Any) -> dict[str, Any]:
    """Without additionalProperties: a reader that does not know a later column must still accept it."""
    made: dict[str, Any] = {"type": "object", "properties": {each.name: _json_field(each) for each in fields}}
    required = [each.name for each in fields if not each.nullable]
    return made | {"required": required} if required else made


def _json_field(field: pa.Field) -> dict[str, Any]:
    made = _json_type(field.type, field.name)
    if field.nullable and made["type"] != "null":
        made = made | {"type": ["null", made["type"]]}
    return made


def _json_type(kind: pa.DataType, path: str) -> dict[str, Any]:
    if _T.is_struct(kind):
        return _json_object([kind.field(index) for index in range(kind.num_fields)])
    if _T.is_list(kind) or _T.is_large_list(kind):
        return {"type": "array", "items": _json_field(kind.value_field)}
    if _T.is_map(kind) and _T.is_string(kind.key_type):
        return {"type": "object", "additionalProperties": _json_field(kind.item_field)}
    for predicates, made in _JSON_NAMES:
        if any(predicate(kind) for predicate in predicates):
            return dict(made)
    raise NoColumns(f"{path} has the type {kind}, which JSON has no type for; cast it first")


_PROTOBUF_NAMES = (
    ((_T.is_boolean,), "bool"),
    ((_T.is_int8, _T.is_int16, _T.is_int32), "int32"),
    ((_T.is_int64,), "int64"),
    ((_T.is_float32,), "float"),
    ((_T.is_float64,), "double"),
    ((_T.is_string, _T.is_large_string), "string"),
    ((_T.is_binary, _T.is_large_binary), "bytes"),
)
_MAP_KEYS = frozenset({"bool", "int32", "int64", "string"})
_TIMESTAMP = "google.protobuf.Timestamp"
_OF_PROTOBUF = range(19_000, 20_000)
"""Numbers that Protobuf keeps for itself."""
_NUMBER_MAX = (1 << 29) - 1


def _message_before(previous: ParsedSchema | None) -> Any:
    if previous is None or previous.schema_type is not SchemaType.PROTOBUF:
        return None
    from moldau.schemas.columns.protobuf_types import message_of

    return message_of(previous)


class _Protobuf:
    """Fields are numbered in the order of the columns. Where a message follows another, fields keep their
    numbers, new ones have numbers that were never used, and those of fields that are gone are reserved: bytes
    of one field are never read as another's.
    """

    def __init__(self) -> None:
        self._imports: set[str] = set()

    def file(self, columns: pa.Schema, full_name: str, before: Any) -> str:
        package, _, name = full_name.rpartition(".")
        body = self._message(columns, name, "", full_name, before)
        lines = ['syntax = "proto3";']
        lines += [f"package {package};"] if package else []
        lines += [f'import "{each}";' for each in sorted(self._imports)]
        return "\n".join([*lines, "", *body, ""])

    def _message(self, fields: Any, name: str, indent: str, path: str, before: Any) -> list[str]:
        inner = indent + "  "
        nested: list[str] = []
        lines: list[str] = []
        numbers = _Numbers(before)
        for field in fields:
            _require_name(field.name, f"the column {field.name}")
            place = f"{path}.{field.name}"
            kind = field.type
            label = ""
            if _T.is_list(kind) or _T.is_large_list(kind):
                label, kind = "repeated ", kind.value_type
                if _T.is_list(kind) or _T.is_large_list(kind) or _T.is_map(kind):
                    raise NoColumns(
                        f"{place} is a list of {kind}, which Protobuf has no type for; wrap it in a struct"
                    )
            if _T.is_map(kind):
                key = self._type(kind.key_type, field.name, inner, place, nested, None)
                if key not in _MAP_KEYS:
                    raise NoColumns(
                        f"{place} has keys of type {kind.key_type}, which Protobuf does not allow"
                    )
                if _T.is_list(kind.item_type) or _T.is_map(kind.item_type):
                    raise NoColumns(f"{place} is a map of {kind.item_type}; wrap its values in a struct")
                value_before = numbers.message_of(field.name, "value")
                value = self._type(kind.item_type, field.name, inner, place, nested, value_before)
                text = f"map<{key}, {value}>"
            else:
                text = self._type(kind, field.name, inner, place, nested, numbers.message_of(field.name))
                if not label and field.nullable and not _T.is_struct(kind) and text != _TIMESTAMP:
                    label = "optional "
            lines.append(f"{inner}{label}{text} {field.name} = {numbers.of(field.name)};")
        lines += [f"{inner}reserved {number};" for number in numbers.gone({each.name for each in fields})]
        return [f"{indent}message {name} {{", *nested, *lines, f"{indent}}}"]

    def _type(
        self, kind: pa.DataType, name: str, indent: str, path: str, nested: list[str], before: Any
    ) -> str:
        if _T.is_struct(kind):
            own = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Value"
            fields = [kind.field(index) for index in range(kind.num_fields)]
            nested.extend(self._message(fields, own, indent, path, before))
            return own
        if _T.is_timestamp(kind) and kind.tz is not None:
            self._imports.add("google/protobuf/timestamp.proto")
            return _TIMESTAMP
        for predicates, text in _PROTOBUF_NAMES:
            if any(predicate(kind) for predicate in predicates):
                return text
        raise NoColumns(f"{path} has the type {kind}, which Protobuf has no type for; cast it first")


class _Numbers:
    """The numbers of a message's fields, as far as possible those of the message before (a descriptor)."""

    def __init__(self, before: Any) -> None:
        self._fields = {} if before is None else {each.name: each for each in before.fields}
        self._reserved: list[range] = []
        if before is not None:
            from google.protobuf.descriptor_pb2 import DescriptorProto

            proto = DescriptorProto()
            before.CopyToProto(proto)
            self._reserved = [range(each.start, each.end) for each in proto.reserved_range]
        self._next = 1 + max((each.number for each in self._fields.values()), default=0)

    def of(self, name: str) -> int:
        """The number of a field. NoColumns if none is left."""
        if name in self._fields:
            return int(self._fields[name].number)
        while taken := next((each for each in (*self._reserved, _OF_PROTOBUF) if self._next in each), None):
            self._next = taken.stop
        if self._next > _NUMBER_MAX:
            raise NoColumns(f"the schema before reserves all numbers that {name} could have")
        self._next += 1
        return self._next - 1

    def gone(self, names: set[str]) -> list[str]:
        """The numbers that must not be used again, if the message has these fields."""
        dropped = [each.number for name, each in self._fields.items() if name not in names]
        ranges = [f"{each.start} to {each.stop - 1}" for each in self._reserved]
        return [*ranges, *(str(number) for number in sorted(dropped))]

    def message_of(self, name: str, inner: str | None = None) -> Any:
        """The message that was the field's type, or its field's in a map; None if there was none."""
        field = self._fields.get(name)
        found = None if field is None else field.message_type
        if found is None or inner is None:
            return found
        return found.fields_by_name[inner].message_type if inner in found.fields_by_name else None
