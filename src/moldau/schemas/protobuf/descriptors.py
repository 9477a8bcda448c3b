"""Elements as descriptors of Google's library: for `format=serialized`, and to code values.

Types are named in full and say whether they are messages or enums; maps and groups get the messages that
stand for them, behind those that are written, so that message indexes stay as they are. Options are kept that
Google's package knows, and Confluent's own; other extensions of options are left out, as in Confluent's
registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from moldau.schemas.protobuf.elements import (
    SCALARS,
    Enum,
    Extend,
    Field,
    File,
    Group,
    Kind,
    Message,
    Option,
    Primitive,
    Range,
    map_types,
)
from moldau.schemas.protobuf.known_imports import KNOWN_IMPORTS, META_FIELD_NUMBER, known_file, serialized
from moldau.schemas.protobuf.normalizing import as_map
from moldau.schemas.protobuf.scopes import Scope, Types, types_of
from moldau.schemas.schema import InvalidSchema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    from moldau.schemas.protobuf.parsed import ProtobufSchema

OWN_NAME = "default"
"""The file's own name, as Confluent's registry calls it."""

_LABELS = {"optional": 1, "required": 2, "repeated": 3, None: 1}
_SCALAR_NUMBERS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8,
    "string": 9, "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_GROUP, _MESSAGE, _ENUM = 10, 11, 14
_META_NAMES = ("file_meta", "message_meta", "field_meta", "enum_meta", "enum_value_meta")


def file_descriptor(schema: ProtobufSchema) -> FileDescriptorProto:
    """The descriptor of a schema's own file. InvalidSchema if it uses a type that is not defined."""
    types = types_of(schema.file, schema.references, schema.dependency_files)
    return _built(schema.file, types, OWN_NAME, set(schema.dependency_files) | KNOWN_IMPORTS)


def descriptor_pool(schema: ProtobufSchema) -> DescriptorPool:
    """A pool with the schema's file (called OWN_NAME), and all that it stands on.

    InvalidSchema if Google's library refuses a file: registries take some schemas that nobody can use.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    files = schema.dependency_files
    pool, added = DescriptorPool(), set[str]()

    def add(name: str, file: File | None) -> None:
        added.add(name)
        packed = serialized(name) if file is None else None
        if packed is not None:
            descriptor = FileDescriptorProto.FromString(packed)
            for inner in descriptor.dependency:
                need(inner)
        else:
            file = known_file(name) if file is None else file
            for inner in (*file.imports, *file.public_imports):
                need(inner)
            types = types_of(file, schema.references, files)
            descriptor = _built(file, types, name, set(files) | KNOWN_IMPORTS)
        try:
            pool.Add(descriptor)
        except (TypeError, ValueError, KeyError) as refused:
            raise InvalidSchema(f"{name}: {str(refused).splitlines()[0]}") from None

    def need(name: str) -> None:
        if name not in added and (name in files or name in KNOWN_IMPORTS):
            add(name, files.get(name))

    try:
        add(OWN_NAME, schema.file)
    except RecursionError:
        raise InvalidSchema("the references lead too deeply into each other") from None
    return pool


def _built(file: File, types: Types, name: str, importable: set[str]) -> FileDescriptorProto:
    """The descriptor. InvalidSchema for numbers that no descriptor has room for."""
    try:
        return _FileBuilder(file, types, name, importable).build()
    except InvalidSchema:
        raise
    except (ValueError, TypeError) as refused:
        raise InvalidSchema(f"{name}: {refused}") from None


class _FileBuilder:
    """Builds the descriptor of one file."""

    def __init__(self, file: File, types: Types, name: str, importable: set[str]) -> None:
        self._file = file
        self._types = types
        self._name = name
        self._importable = importable

    def build(self) -> FileDescriptorProto:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        file = self._file
        built = FileDescriptorProto(name=self._name)
        if file.package:
            built.package = file.package
        if file.edition is not None:
            built.syntax = "editions"
            built.edition = 1000 + int(file.edition) - 2023
        elif file.syntax == "proto3":
            built.syntax = "proto3"
        for name in dict.fromkeys((*file.imports, *file.public_imports)):
            if name in self._importable:
                if name in file.public_imports:
                    built.public_dependency.append(len(built.dependency))
                built.dependency.append(name)
        self._add_missing_imports(built)
        for element in file.types:
            if isinstance(element, Message):
                self._message(built.message_type.add(), element, ())
            else:
                self._enum(built.enum_type.add(), element)
        self._extends(built.extension, built.message_type, file.extends, ())
        for service in file.services:
            added = built.service.add(name=service.name)
            _set_options(added, service.options)
            for rpc in service.rpcs:
                method = added.method.add(
                    name=rpc.name,
                    input_type=self._full_name(rpc.request_type, ())[0],
                    output_type=self._full_name(rpc.response_type, ())[0],
                )
                if rpc.request_streams:
                    method.client_streaming = True
                if rpc.response_streams:
                    method.server_streaming = True
                _set_options(method, rpc.options)
        _set_options(built, file.options)
        return built

    def _add_missing_imports(self, built: FileDescriptorProto) -> None:
        """Files may name types that they do not import, where these come with every registry."""
        names = {name.lstrip(".") for element in self._file.types for name in _named_types(element)}
        for location in sorted(KNOWN_IMPORTS - set(built.dependency)):
            package = location.rpartition("/")[0].replace("/", ".")
            if not any(name.startswith(package + ".") for name in names):
                continue
            file = known_file(location)
            defined = {f"{file.package}.{each.name}" for each in file.types}
            if any(name in defined for name in names) and location != self._name:
                built.dependency.append(location)

    def _full_name(self, name: str, scope: Scope) -> tuple[str, int]:
        found = self._types.find(name, scope)
        if found is None:
            raise InvalidSchema(f"{name} is not defined, neither here nor in a reference")
        return f".{found.full_name}", _MESSAGE if isinstance(found.element, Message) else _ENUM

    def _message(self, built: DescriptorProto, message: Message, scope: Scope) -> None:
        built.name = message.name
        inner = (*scope, message.name)
        for element in message.types:
            if isinstance(element, Message):
                self._message(built.nested_type.add(), element, inner)
            else:
                self._enum(built.enum_type.add(), element)
        for one_of in message.one_ofs:
            if not one_of.fields and not one_of.groups:
                continue
            index = len(built.oneof_decl)
            _set_options(built.oneof_decl.add(name=one_of.name), one_of.options)
            for field in one_of.fields:
                self._field(built.field.add(), field, inner).oneof_index = index
            for group in one_of.groups:
                self._group(built, group, inner).oneof_index = index
        optional = []
        for field in message.fields:
            added = self._field(built.field.add(), field, inner)
            if types := map_types(field.type):
                self._map_entry(built, added, field, types, inner)
            elif field.label == "optional" and self._file.syntax == "proto3":
                optional.append(added)
        for group in message.groups:
            self._group(built, group, inner)
        for added in optional:  # Behind the oneofs that are written.
            added.proto3_optional = True
            added.oneof_index = len(built.oneof_decl)
            built.oneof_decl.add(name=f"_{added.name}")
        for value in (value for values in message.reserved for value in values):
            if isinstance(value, str):
                built.reserved_name.append(value)
            else:
                start, end = _bounds(value)
                built.reserved_range.add(start=start, end=end + 1)
        for extension in (value for values in message.extensions for value in values):
            start, end = _bounds(extension)
            built.extension_range.add(start=start, end=end + 1)
        self._extends(built.extension, built.nested_type, message.extends, inner)
        _set_options(built, message.options)

    def _field(self, built: FieldDescriptorProto, field: Field, scope: Scope) -> FieldDescriptorProto:
        built.name, built.number, built.label = field.name, field.tag, _LABELS[field.label]
        if field.type in SCALARS:
            built.type = _SCALAR_NUMBERS[field.type]
        elif map_types(field.type) is None:
            built.type_name, built.type = self._full_name(field.type, scope)
        if field.default is not None:
            built.default_value = _default(field)
        if field.json_name is not None:
            built.json_name = field.json_name
        _set_options(built, field.options)
        return built

    def _map_entry(
        self,
        built: DescriptorProto,
        added: FieldDescriptorProto,
        field: Field,
        types: tuple[str, str],
        scope: Scope,
    ) -> None:
        words = field.name.split("_")
        entry = "".join(word[:1].upper() + word[1:] for word in words) + "Entry"
        added.label, added.type = 3, _MESSAGE
        prefix = f"{self._file.package}." if self._file.package else ""
        added.type_name = f".{prefix}{'.'.join((*scope, entry))}"
        message = built.nested_type.add(name=entry)
        message.options.map_entry = True
        for tag, (name, type_name) in enumerate(zip(("key", "value"), types, strict=True), 1):
            self._field(message.field.add(), Field(None, type_name, name, tag), scope)

    def _group(self, built: DescriptorProto, group: Group, scope: Scope) -> FieldDescriptorProto:
        message = Message(group.name, fields=group.fields)
        self._message(built.nested_type.add(), message, scope)
        prefix = f"{self._file.package}." if self._file.package else ""
        return built.field.add(
            name=group.name.lower(),
            number=group.tag,
            label=_LABELS[group.label],
            type=_GROUP,
            type_name=f".{prefix}{'.'.join((*scope, group.name))}",
        )

    def _extends(self, built: Any, nested: Any, extends: Sequence[Extend], scope: Scope) -> None:
        for extend in extends:
            for field in extend.fields:
                added = self._field(built.add(), field, scope)
                added.extendee = self._full_name(extend.name, scope)[0]

    def _enum(self, built: Any, enum: Enum) -> None:
        built.name = enum.name
        for constant in enum.constants:
            value = built.value.add(name=constant.name, number=constant.tag)
            _set_options(value, constant.options)
        for reserved in (value for values in enum.reserved for value in values):
            if isinstance(reserved, str):
                built.reserved_name.append(reserved)
            else:
                start, end = _bounds(reserved)
                built.reserved_range.add(start=start, end=end)
        _set_options(built, enum.options)


def _named_types(element: Message | Enum) -> Iterator[str]:
    if isinstance(element, Message):
        for field in (*element.fields, *(each for one_of in element.one_ofs for each in one_of.fields)):
            yield from map_types(field.type) or (field.type,)
        for inner in element.types:
            yield from _named_types(inner)


def _bounds(value: int | Range) -> tuple[int, int]:
    return (value.start, value.end) if isinstance(value, Range) else (value, value)


def _default(field: Field) -> str:
    text = field.default or ""
    if field.type == "bytes":
        data = text.encode("latin-1", "replace")
        return "".join(chr(b) if 32 <= b < 127 and b not in b"\\\"'" else f"\\{b:03o}" for b in data)
    if field.type in SCALARS and text[:3].lstrip("-").lower().startswith("0x"):
        return str(int(text, 16))
    return text


def _set_options(target: Any, options: Iterable[Option]) -> None:
    meta: dict[str, Any] = {}
    for option in options:
        name = option.name.removeprefix(".")
        if option.parenthesized:
            if name.removeprefix("confluent.") in _META_NAMES:
                _add_meta(meta, as_map(option))
        else:
            _set_option(target.options, name, option)
    if meta:
        packed = _packed_meta(meta)
        target.options.MergeFromString(_length_delimited(META_FIELD_NUMBER, packed))


def _set_option(options: Any, name: str, option: Option) -> None:
    """Set an option that Google's package knows; skip others."""
    first, _, rest = name.partition(".")
    field = options.DESCRIPTOR.fields_by_name.get(first)
    if field is None:
        return
    if rest:
        if field.message_type is not None:
            _set_option(getattr(options, first), rest, option)
        return
    try:
        if field.enum_type is not None:
            known = field.enum_type.values_by_name.get(str(option.value))
            if known is not None:
                setattr(options, first, known.number)
        elif option.kind is Kind.BOOLEAN and isinstance(getattr(options, first), bool):
            setattr(options, first, option.value == "true")
        elif option.kind is Kind.STRING and isinstance(getattr(options, first), str):
            setattr(options, first, option.value)
    except (TypeError, ValueError):
        return


def _add_meta(meta: dict[str, Any], option: Option) -> None:
    if option.kind is not Kind.MAP:
        return
    for name, value in option.value.items():
        values = value if isinstance(value, list) else [value]
        if name == "doc" and isinstance(value, str):
            meta["doc"] = value
        elif name == "tags":
            meta.setdefault("tags", []).extend(each for each in values if isinstance(each, str))
        elif name == "params":
            for each in values:
                if isinstance(each, dict) and isinstance(each.get("key"), str):
                    inner = each.get("value", "")
                    text = inner.text if isinstance(inner, Primitive) else str(inner)
                    meta.setdefault("params", {})[each["key"]] = text


def _packed_meta(meta: dict[str, Any]) -> bytes:
    packed = _length_delimited(1, meta["doc"].encode()) if "doc" in meta else b""
    for key, value in meta.get("params", {}).items():
        entry = _length_delimited(1, key.encode()) + _length_delimited(2, value.encode())
        packed += _length_delimited(2, entry)
    for tag in meta.get("tags", ()):
        packed += _length_delimited(3, tag.encode())
    return packed


def _length_delimited(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    packed = bytearray()
    while value > 0x7F:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)
