"""A FileDescriptorProto as elements: what clients register that have code and no text (Python, Go)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from moldau.schemas.protobuf.elements import (
    Enum,
    EnumConstant,
    Extend,
    Field,
    File,
    Group,
    Kind,
    Message,
    OneOf,
    Option,
    Range,
    Reserved,
    Rpc,
    Service,
)
from moldau.schemas.protobuf.known_imports import META_FIELD_NUMBER
from moldau.schemas.schema import InvalidSchema

_FILE_OPTIONS = (
    "java_package", "java_outer_classname", "java_multiple_files", "java_generate_equals_and_hash",
    "java_string_check_utf8", "optimize_for", "go_package", "cc_generic_services", "java_generic_services",
    "py_generic_services", "php_generic_services", "deprecated", "cc_enable_arenas", "objc_class_prefix",
    "csharp_namespace", "swift_prefix", "php_class_prefix", "php_namespace", "php_metadata_namespace",
    "ruby_package",
)  # fmt: skip
_MESSAGE_OPTIONS = ("no_standard_descriptor_accessor", "deprecated", "map_entry")
_FIELD_OPTIONS = ("ctype", "packed", "jstype", "deprecated")
_LABELS = {1: "optional", 2: "required", 3: "repeated"}
_TYPES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool",
    9: "string", 10: "group", 12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32",
    18: "sint64",
}  # fmt: skip
_GROUP = 10
_DEPTH_MAX = 32


def file_of_descriptor(packed: bytes) -> File:
    """Turn a serialized FileDescriptorProto into elements. InvalidSchema if it is none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        descriptor = FileDescriptorProto.FromString(packed)
    except DecodeError:
        raise InvalidSchema("the bytes are no FileDescriptorProto") from None
    syntax = descriptor.syntax or "proto2"
    edition = str(2023 + descriptor.edition - 1000) if syntax == "editions" else None
    converter = _Converter(syntax)
    public = set(descriptor.public_dependency)
    return File(
        syntax=(descriptor.syntax or None) if edition is None else None,
        edition=edition,
        package=descriptor.package or None,
        imports=[name for index, name in enumerate(descriptor.dependency) if index not in public],
        public_imports=[name for index, name in enumerate(descriptor.dependency) if index in public],
        options=_options(descriptor, _FILE_OPTIONS, "confluent.file_meta"),
        types=[
            *(converter.message(each, 1) for each in descriptor.message_type),
            *(_enum(each) for each in descriptor.enum_type),
        ],
        extends=converter.extends(descriptor.extension),
        services=[_service(each) for each in descriptor.service],
    )


class _Converter:
    """Converts what depends on the file's syntax."""

    def __init__(self, syntax: str) -> None:
        self._proto2 = syntax == "proto2"

    def message(self, descriptor: Any, depth: int) -> Message:
        if depth > _DEPTH_MAX:
            raise InvalidSchema(f"messages are nested deeper than {_DEPTH_MAX}")
        groups = {each.type_name.rpartition(".")[2] for each in descriptor.field if each.type == _GROUP}
        nested = {each.name: each for each in descriptor.nested_type}
        reserved: list[list[Reserved]] = [
            [_range(each.start, each.end - 1)] for each in descriptor.reserved_range
        ]
        reserved.extend([name] for name in descriptor.reserved_name)
        message = Message(
            descriptor.name,
            one_ofs=[OneOf(each.name) for each in descriptor.oneof_decl],
            options=_options(descriptor, _MESSAGE_OPTIONS, "confluent.message_meta"),
            reserved=reserved,
            extensions=[[_range(each.start, each.end - 1)] for each in descriptor.extension_range],
            extends=self.extends(descriptor.extension),
        )
        for each in descriptor.field:
            in_one_of = each.HasField("oneof_index") and not each.proto3_optional
            if in_one_of and each.oneof_index >= len(message.one_ofs):
                raise InvalidSchema(
                    f"field {each.name} of {descriptor.name} is in a oneof that does not exist"
                )
            group_type = nested.get(each.type_name.rpartition(".")[2]) if each.type == _GROUP else None
            if group_type is not None:
                fields = [self.field(inner, False) for inner in group_type.field]
                group = Group(None if in_one_of else self._label(each), group_type.name, each.number, fields)
                (message.one_ofs[each.oneof_index] if in_one_of else message).groups.append(group)
            elif in_one_of:
                message.one_ofs[each.oneof_index].fields.append(self.field(each, True))
            else:
                message.fields.append(self.field(each, False))
        message.one_ofs = [each for each in message.one_ofs if each.fields or each.groups]
        message.types = [
            *(self.message(each, depth + 1) for each in descriptor.nested_type if each.name not in groups),
            *(_enum(each) for each in descriptor.enum_type),
        ]
        return message

    def field(self, descriptor: Any, in_one_of: bool) -> Field:
        default = descriptor.default_value if descriptor.HasField("default_value") else None
        return Field(
            None if in_one_of else self._label(descriptor),
            descriptor.type_name or _TYPES.get(descriptor.type, "int32"),
            descriptor.name,
            descriptor.number,
            _options(descriptor, _FIELD_OPTIONS, "confluent.field_meta"),
            default,
            descriptor.json_name if descriptor.HasField("json_name") else None,
        )

    def _label(self, descriptor: Any) -> str | None:
        label = _LABELS.get(descriptor.label)
        if label == "repeated" or descriptor.proto3_optional or self._proto2:
            return label
        return None

    def extends(self, fields: Iterable[Any]) -> list[Extend]:
        found: dict[str, Extend] = {}
        for each in fields:
            found.setdefault(each.extendee, Extend(each.extendee)).fields.append(self.field(each, False))
        return list(found.values())


def _range(start: int, end: int) -> int | Range:
    return start if start == end else Range(start, end)


def _enum(descriptor: Any) -> Enum:
    reserved: list[list[Reserved]] = [[_range(each.start, each.end)] for each in descriptor.reserved_range]
    reserved.extend([name] for name in descriptor.reserved_name)
    return Enum(
        descriptor.name,
        [
            EnumConstant(each.name, each.number, _options(each, ("deprecated",), "confluent.enum_value_meta"))
            for each in descriptor.value
        ],
        _options(descriptor, ("allow_alias", "deprecated"), "confluent.enum_meta"),
        reserved,
    )


def _service(descriptor: Any) -> Service:
    return Service(
        descriptor.name,
        [
            Rpc(
                each.name,
                each.input_type,
                each.output_type,
                each.client_streaming,
                each.server_streaming,
                _options(each, ("deprecated", "idempotency_level"), ""),
            )
            for each in descriptor.method
        ],
        _options(descriptor, ("deprecated",), ""),
    )


def _options(descriptor: Any, names: Sequence[str], meta_name: str) -> list[Option]:
    """The options that are set: those of `names` in their order, then Confluent's own."""
    if not descriptor.HasField("options"):
        return []
    options = descriptor.options
    known = options.DESCRIPTOR.fields_by_name  # php_generic_services, for one, is gone from newer packages.
    found = [_option(options, name) for name in names if name in known and options.HasField(name)]
    if "features" in known and options.HasField("features"):
        for field, value in options.features.ListFields():
            if field.enum_type is not None:
                text = field.enum_type.values_by_number[value].name
                found.append(Option(f"features.{field.name}", Kind.ENUM, text))
    if meta_name and (meta := _meta(options)):
        found.append(Option(meta_name, Kind.MAP, meta, True))
    return found


def _option(options: Any, name: str) -> Option:
    field, value = options.DESCRIPTOR.fields_by_name[name], getattr(options, name)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return Option(name, Kind.ENUM, known.name if known else str(value))
    if isinstance(value, bool):
        return Option(name, Kind.BOOLEAN, "true" if value else "false")
    return Option(name, Kind.STRING, value)


def _meta(options: Any) -> dict[str, Any]:
    """Confluent's extension, which the options of Google's package do not know."""
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.unknown_fields import UnknownFieldSet

    found: dict[str, Any] = {}
    params: list[dict[str, Any]] = []
    tags: list[Any] = []
    packed = [
        each.data
        for each in UnknownFieldSet(options)
        if each.field_number == META_FIELD_NUMBER and isinstance(each.data, bytes)
    ]
    # A message that has no fields takes the bytes apart.
    for inner in UnknownFieldSet(Empty.FromString(b"".join(packed))):
        number, data = inner.field_number, inner.data
        if not isinstance(data, bytes):
            continue
        if number == 1:
            found["doc"] = data.decode("utf-8", "replace")
        elif number == 2:
            entry = {
                each.field_number: each.data.decode("utf-8", "replace")
                for each in UnknownFieldSet(Empty.FromString(data))
                if isinstance(each.data, bytes)
            }
            pair = [("key", entry.get(1, "")), ("value", entry.get(2, ""))]
            # For these two, Confluent's registry prints the value first.
            params.append(dict(reversed(pair) if entry.get(1) in ("precision", "scale") else pair))
        elif number == 3:
            tags.append(data.decode("utf-8", "replace"))
    if params:
        found["params"] = params
    if tags:
        found["tags"] = tags
    return found
