"""What a .proto file consists of, in the order in which it is written. Comments are left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum as Enumeration
from typing import Any, NamedTuple

TAG_MAX = 536_870_911
"""The largest number of a field: `max` in a range."""


class Kind(Enumeration):
    """How an option's value is written."""

    STRING = "string"
    BOOLEAN = "boolean"
    NUMBER = "number"
    ENUM = "enum"
    OPTION = "option"
    """`.name = value`: a field within the option; the value is another Option."""
    MAP = "map"
    LIST = "list"


class Primitive(NamedTuple):
    """A value in a map or list of options that is written without quotes."""

    kind: Kind
    text: str


@dataclass(slots=True)
class Option:
    """`name = value`; `value` is text, an Option, a dict or a list, as `kind` says."""

    name: str
    kind: Kind
    value: Any
    parenthesized: bool = False


class Range(NamedTuple):
    """Numbers from `start` to `end`, both included."""

    start: int
    end: int


Reserved = int | str | Range


@dataclass(slots=True)
class Field:
    """A field of a message; `label` is required, optional, repeated or None, `type` as it is written."""

    label: str | None
    type: str
    name: str
    tag: int
    options: list[Option] = field(default_factory=list)
    default: str | None = None
    json_name: str | None = None


@dataclass(slots=True)
class Group:
    """A field and its message in one (proto2)."""

    label: str | None
    name: str
    tag: int
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class OneOf:
    """Fields of which at most one is set."""

    name: str
    fields: list[Field] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Extend:
    """Fields that are added to a message elsewhere."""

    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Message:
    """A message, with the types within it."""

    name: str
    fields: list[Field] = field(default_factory=list)
    one_ofs: list[OneOf] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: list[list[Reserved]] = field(default_factory=list)
    extensions: list[list[int | Range]] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)

    @property
    def is_map_entry(self) -> bool:
        """Whether it stands for `map<...>` of a field, as descriptors have it."""
        return any(each.name == "map_entry" and each.value == "true" for each in self.options)

    def field_named(self, name: str) -> Field | None:
        """Its first field of a name."""
        return next((each for each in self.fields if each.name == name), None)


@dataclass(slots=True)
class EnumConstant:
    """A name and number of an enum."""

    name: str
    tag: int
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Enum:
    """An enum."""

    name: str
    constants: list[EnumConstant] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: list[list[Reserved]] = field(default_factory=list)


@dataclass(slots=True)
class Rpc:
    """A method of a service."""

    name: str
    request_type: str
    response_type: str
    request_streams: bool = False
    response_streams: bool = False
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Service:
    """A service."""

    name: str
    rpcs: list[Rpc] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class File:
    """A whole file; `syntax` is proto2 or proto3, None for an old file or one with an edition."""

    syntax: str | None = None
    edition: str | None = None
    package: str | None = None
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)

    @property
    def messages(self) -> list[Message]:
        """Its messages, in the order that message indexes count them."""
        return [each for each in self.types if isinstance(each, Message)]


SCALARS = frozenset(
    (
        "bool", "bytes", "double", "fixed32", "fixed64", "float", "int32", "int64", "sfixed32", "sfixed64",
        "sint32", "sint64", "string", "uint32", "uint64",
    )
)  # fmt: skip


def map_types(type_name: str) -> tuple[str, str] | None:
    """The types of key and value of `map<key, value>`; None for other types."""
    if not type_name.startswith("map<"):
        return None
    key, _, value = type_name[4:-1].partition(",")
    return key.strip(), value.strip()
