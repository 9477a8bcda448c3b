"""Differences between two files, by Confluent's kinds, and which of them keep a reader from reading.

Fields are compared by number over the whole message, in or out of oneofs; messages by name. The rules are
those of the newest Confluent registry (a field may leave its oneof; independent fields may not come together
in one).

A message that fields use is compared at each use, and its differences are told at each, as there. To be safe
from schemas that make this exponential, a pair of messages is compared once, and at most
`DIFFERENCES_MAX` differences are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from moldau.schemas.effort import step
from moldau.schemas.protobuf.elements import SCALARS, Enum, Field, File, Message, OneOf, map_types
from moldau.schemas.protobuf.scopes import Scope, TypeInfo, Types, types_of
from moldau.schemas.schema import Difference, InvalidSchema, Reference

DIFFERENCES_MAX = 1_000

COMPATIBLE = frozenset(
    (
        "MESSAGE_ADDED", "MESSAGE_MOVED", "ENUM_ADDED", "ENUM_REMOVED", "ENUM_CONST_ADDED",
        "ENUM_CONST_CHANGED", "ENUM_CONST_REMOVED", "FIELD_ADDED", "FIELD_REMOVED", "FIELD_NAME_CHANGED",
        "FIELD_STRING_OR_BYTES_LABEL_CHANGED", "ONEOF_ADDED", "ONEOF_REMOVED", "ONEOF_FIELD_ADDED",
        "ONEOF_FIELD_MOVED_TO_TOP_LEVEL",
    )
)  # fmt: skip

_SENTENCES: Mapping[str, str] = {
    "PACKAGE_CHANGED": "The package at '{path}' in the {{reader}} schema does not match the package in the "
    "{{writer}} schema",
    "MESSAGE_REMOVED": "The {{reader}} schema is missing a MESSAGE type at path '{path}' in the {{writer}} "
    "schema",
    "FIELD_KIND_CHANGED": "The type of a field at path '{path}' in the {{reader}} schema does not match the "
    "{{writer}} schema",
    "FIELD_SCALAR_KIND_CHANGED": "The kind of a SCALAR field at path '{path}' in the {{reader}} schema does "
    "not match its kind in the {{writer}} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The type of a MESSAGE field at path '{path}' in the {{reader}} schema does "
    "not match its type in the {{writer}} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label for a NUMERIC field at path '{path}' in the {{reader}} schema "
    "does not match its label in the {{writer}} schema",
    "REQUIRED_FIELD_ADDED": "A required field  at path '{path}' in the {{reader}} schema is missing in the "
    "{{writer}} schema",
    "REQUIRED_FIELD_REMOVED": "The {{reader}} schema is missing a required field at path: '{path}' in "
    "the {{writer}} schema",
    "ONEOF_FIELD_REMOVED": "The {{reader}} schema is missing a oneof field at path '{path}' in the "
    "{{writer}} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Multiple fields in the oneof at path '{path}' in the {{reader}} "
    "schema are outside a oneof in the {{writer}} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field in the oneof at path '{path}' in the {{reader}} schema is "
    "outside an existing oneof in the {{writer}} schema",
}
"""What Confluent's registry prints; clients look for these sentences."""

_SCALAR_KINDS = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "general"),
    **dict.fromkeys(("sint32", "sint64"), "signed"),
    **dict.fromkeys(("string", "bytes"), "text"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}
"""Types of one kind are written alike."""


class Found(NamedTuple):
    """A difference by kind and place."""

    kind: str
    path: str


class Comparable(Protocol):
    """What is compared: a file with its references."""

    file: File
    references: tuple[Reference, ...]

    @property
    def dependency_files(self) -> Mapping[str, File]: ...


def incompatible_differences(reader: Comparable, writer: Comparable) -> list[Difference]:
    """What keeps `reader` from reading what was written with `writer`."""
    told: dict[Found, None] = dict.fromkeys(
        each for each in all_differences(reader, writer) if each.kind not in COMPATIBLE
    )
    return [Difference(kind, path, _SENTENCES[kind].format(path=path)) for kind, path in told]


def all_differences(reader: Comparable, writer: Comparable) -> list[Found]:
    """Every difference, also those that do not matter."""
    comparison = _Comparison(
        types_of(writer.file, writer.references, writer.dependency_files),
        types_of(reader.file, reader.references, reader.dependency_files),
    )
    if (writer.file.package or None) != (reader.file.package or None):
        comparison.add("PACKAGE_CHANGED", ())
    place = _Place((), writer.file.package or "", reader.file.package or "")
    try:
        comparison.types(writer.file.types, reader.file.types, place)
    except RecursionError:
        raise InvalidSchema("the messages lead too deeply into each other to be compared") from None
    return comparison.found


class _Place(NamedTuple):
    """Where the comparison is: the messages around it, and the packages in which names are looked up."""

    scope: Scope
    old_package: str
    new_package: str

    def within(self, name: str) -> _Place:
        return self._replace(scope=(*self.scope, name))


class _Comparison:
    """Compares an old file's types (the writer's) with a new one's (the reader's)."""

    def __init__(self, old: Types, new: Types) -> None:
        self._old = old
        self._new = new
        self.found: list[Found] = []
        self._compared: dict[tuple[int, int], list[Found] | None] = {}

    def add(self, kind: str, path: Iterable[str]) -> None:
        if len(self.found) < DIFFERENCES_MAX or (
            kind not in COMPATIBLE and len(self.found) < 2 * DIFFERENCES_MAX
        ):
            self.found.append(Found(kind, "#/" + "/".join(path)))

    def types(self, old: list[Message | Enum], new: list[Message | Enum], place: _Place) -> None:
        old_messages = {each.name: (index, each) for index, each in enumerate(_messages(old))}
        new_messages = {each.name: (index, each) for index, each in enumerate(_messages(new))}
        for name in dict.fromkeys((*old_messages, *new_messages)):
            inner = place.within(name)
            before, after = old_messages.get(name), new_messages.get(name)
            if after is None and before is not None:
                if not before[1].is_map_entry:
                    self.add("MESSAGE_REMOVED", inner.scope)
            elif before is None and after is not None:
                if not after[1].is_map_entry:
                    self.add("MESSAGE_ADDED", inner.scope)
            elif before is not None and after is not None:
                self.message(before[1], after[1], inner)
                if before[0] != after[0]:
                    self.add("MESSAGE_MOVED", inner.scope)
        old_enums = {each.name: each for each in old if isinstance(each, Enum)}
        new_enums = {each.name: each for each in new if isinstance(each, Enum)}
        for name in dict.fromkeys((*old_enums, *new_enums)):
            path = (*place.scope, name)
            if name not in new_enums:
                self.add("ENUM_REMOVED", path)
            elif name not in old_enums:
                self.add("ENUM_ADDED", path)
            else:
                self._enum(old_enums[name], new_enums[name], path)

    def _enum(self, old: Enum, new: Enum, path: Scope) -> None:
        before = {each.tag: each.name for each in old.constants}
        after = {each.tag: each.name for each in new.constants}
        for tag in sorted({*before, *after}):
            if tag not in after:
                self.add("ENUM_CONST_REMOVED", (*path, str(tag)))
            elif tag not in before:
                self.add("ENUM_CONST_ADDED", (*path, str(tag)))
            elif before[tag] != after[tag]:
                self.add("ENUM_CONST_CHANGED", (*path, str(tag)))

    def message(self, old: Message, new: Message, place: _Place) -> None:
        """Compare two messages; what was found before is told again, a pair that is under way is left out."""
        step()
        pair = (id(old), id(new))
        if pair in self._compared:
            for kind, path in self._compared[pair] or ():
                self.add(kind, (path[2:],))
            return
        self._compared[pair] = None
        start = len(self.found)
        before, after = _Members(old), _Members(new)
        self._one_ofs(before, after, place.scope)
        for tag in sorted({*before.fields, *after.fields}):
            self._field(tag, before, after, place)
        self.types(old.types, new.types, place)
        self._compared[pair] = self.found[start:]

    def _one_ofs(self, before: _Members, after: _Members, path: Scope) -> None:
        for one_of in after.one_ofs.values():
            known = [each.tag for each in one_of.fields if each.tag in before.fields]
            origins = {before.one_of_by_tag.get(tag, tag) for tag in known}
            moved = [each for each in origins if isinstance(each, int)]
            if len(origins) > 1:
                several = len(moved) > 1
                kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if several else "FIELD_MOVED_TO_EXISTING_ONEOF"
                self.add(kind, (*path, one_of.name))
        for name in sorted({*before.one_ofs, *after.one_ofs}):
            if name not in after.one_ofs:
                self.add("ONEOF_REMOVED", (*path, name))
            elif name not in before.one_ofs:
                self.add("ONEOF_ADDED", (*path, name))

    def _field(self, tag: int, before: _Members, after: _Members, place: _Place) -> None:
        step()
        old, new = before.fields.get(tag), after.fields.get(tag)
        old_one_of, new_one_of = before.one_of_by_tag.get(tag), after.one_of_by_tag.get(tag)
        path = (*place.scope, str(tag))
        if new is None and old is not None:
            if old_one_of is None:
                self.add("REQUIRED_FIELD_REMOVED" if old.label == "required" else "FIELD_REMOVED", path)
            elif not before.is_gone(old_one_of, after):
                self.add("ONEOF_FIELD_REMOVED", (*place.scope, old_one_of, str(tag)))
        elif old is None and new is not None:
            if new_one_of is None:
                self.add("REQUIRED_FIELD_ADDED" if new.label == "required" else "FIELD_ADDED", path)
            else:
                self.add("ONEOF_FIELD_ADDED", (*place.scope, new_one_of, str(tag)))
        elif old is not None and new is not None:
            if new_one_of is not None:
                path = (*place.scope, new_one_of, str(tag))
            elif old_one_of is not None:
                self.add("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", path)
            if old.name != new.name:
                self.add("FIELD_NAME_CHANGED", path)
            labels = (old.label, new.label) if old.label and new.label else None
            self._type(old.type, new.type, place, path, labels)

    def _type(
        self, old: str, new: str, place: _Place, path: Scope, labels: tuple[str, str] | None = None
    ) -> None:
        """`labels` where both fields have one that is written out: as in Confluent's registry, a field of
        proto3 without any is not compared with one that is repeated.
        """
        old_info = self._old.find(old, place.scope, place.old_package) if _is_named(old) else None
        new_info = self._new.find(new, place.scope, place.new_package) if _is_named(new) else None
        old_map = map_types(old) or (old_info.map_types if old_info else None)
        new_map = map_types(new) or (new_info.map_types if new_info else None)
        old_kind, new_kind = _kind(old, old_info, old_map), _kind(new, new_info, new_map)
        if old_kind != new_kind:
            self.add("FIELD_KIND_CHANGED", path)
        elif old_map and new_map:
            self._type(old_map[0], new_map[0], place, path)
            self._type(old_map[1], new_map[1], place, path)
        elif old_kind == "scalar":
            kind = _scalar_kind(old, old_info)
            if kind != _scalar_kind(new, new_info):
                self.add("FIELD_SCALAR_KIND_CHANGED", path)
            elif labels is not None and labels[0] != labels[1]:
                # A repeated number may be packed, which a reader of single ones takes for another type.
                numeric = "FIELD_NUMERIC_LABEL_CHANGED"
                self.add("FIELD_STRING_OR_BYTES_LABEL_CHANGED" if kind == "text" else numeric, path)
        elif old_info is None or new_info is None:
            if old != new:
                self.add("FIELD_NAMED_TYPE_CHANGED", path)
        elif old_info.local_name != new_info.local_name:
            self.add("FIELD_NAMED_TYPE_CHANGED", path)
        else:
            self._referenced(old_info, new_info, path)

    def _referenced(self, old: TypeInfo, new: TypeInfo, path: Scope) -> None:
        """Compare the messages that a field uses, unless both are of one version of one subject."""
        if not isinstance(old.element, Message) or not isinstance(new.element, Message):
            return
        if old.element is new.element or (old.local and new.local):
            return  # Types of the files themselves are compared where they stand.
        one, other = old.reference, new.reference
        if one is not None and other is not None and one[1:] == other[1:]:
            return
        start = len(self.found)
        place = _Place(tuple(old.local_name.split(".")), old.package, new.package)
        self.message(old.element, new.element, place)
        if any(each.kind not in COMPATIBLE for each in self.found[start:]):
            self.add("FIELD_NAMED_TYPE_CHANGED", path)


class _Members:
    """The fields of a message by number, in or out of oneofs."""

    def __init__(self, message: Message) -> None:
        self.fields: dict[int, Field] = {each.tag: each for each in message.fields}
        self.one_ofs: dict[str, OneOf] = {each.name: each for each in message.one_ofs}
        self.one_of_by_tag: dict[int, str] = {}
        for one_of in message.one_ofs:
            for each in one_of.fields:
                self.fields[each.tag] = each
                self.one_of_by_tag[each.tag] = one_of.name

    def is_gone(self, one_of: str, after: _Members) -> bool:
        """Whether a oneof was removed with all its fields, which is compatible."""
        return one_of not in after.one_ofs and not any(
            each.tag in after.fields for each in self.one_ofs[one_of].fields
        )


def _messages(types: list[Message | Enum]) -> list[Message]:
    return [each for each in types if isinstance(each, Message)]


def _is_named(type_name: str) -> bool:
    return type_name not in SCALARS and map_types(type_name) is None


def _kind(type_name: str, info: TypeInfo | None, map_of: tuple[str, str] | None) -> str:
    if map_of is not None:
        return "map"
    if type_name in SCALARS or (info is not None and isinstance(info.element, Enum)):
        return "scalar"
    return "message"


def _scalar_kind(type_name: str, info: TypeInfo | None) -> str:
    return "general" if info is not None else _SCALAR_KINDS[type_name]
