"""Protobuf: its JSON mapping and its binary encoding, by Google's library.

Fields are printed under their JSON names, 64-bit numbers as text, enums by name; fields that know no "not
set" are printed with their default value, as Confluent's REST proxy and console tools do. Both the JSON names
and the names in the file are read; unknown fields are refused. Google's library bounds the depth of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.schemas.protobuf.descriptors import descriptor_pool
from moldau.schemas.protobuf.elements import Message
from moldau.schemas.protobuf.parsed import ProtobufSchema
from moldau.schemas.schema import InvalidSchema, JsonValue, ParsedSchema
from moldau.schemas.serde import SerdeError


class ProtobufSerde:
    """Codes values of one message."""

    def __init__(self, message_class: Any, pool: Any, indexes: tuple[int, ...]) -> None:
        self.message_indexes = indexes
        self._class = message_class
        self._pool = pool

    def from_json(self, value: JsonValue) -> bytes:
        """Return the payload of a value in Protobuf's JSON mapping. SerdeError."""
        from google.protobuf import json_format

        message = self._class()
        if not isinstance(value, dict):
            raise SerdeError(f"an object is expected for {self._class.DESCRIPTOR.full_name}")
        try:
            json_format.ParseDict(value, message, descriptor_pool=self._pool)
            packed: bytes = message.SerializeToString(deterministic=True)
        except json_format.ParseError as problem:
            raise SerdeError(_sentence(problem)) from None
        except RecursionError:
            raise SerdeError("the value is nested too deeply") from None
        except Exception as problem:
            # ParseDict lets through whatever a value of an unexpected type leads to (AttributeError, ...);
            # EncodeError is a required field that is missing.
            raise SerdeError(
                f"the value does not fit {self._class.DESCRIPTOR.full_name}: {problem}"
            ) from None
        return packed

    def to_json(self, payload: bytes) -> JsonValue:
        """Return a payload's value in Protobuf's JSON mapping. SerdeError."""
        from google.protobuf import json_format
        from google.protobuf.message import DecodeError

        name = self._class.DESCRIPTOR.full_name
        try:
            message = self._class.FromString(payload)
        except DecodeError:
            raise SerdeError(f"the bytes are no {name}") from None
        try:
            return json_format.MessageToDict(
                message, always_print_fields_with_no_presence=True, descriptor_pool=self._pool
            )
        except (json_format.Error, RecursionError, TypeError, ValueError) as problem:
            raise SerdeError(f"a {name} has no form in JSON: {problem}") from None


def _sentence(problem: Exception) -> str:
    text = str(problem).splitlines()[0] if str(problem) else "the value does not fit"
    return text if len(text) <= 300 else text[:297] + "..."


def make(parsed: ParsedSchema, indexes: Sequence[int] | None = None) -> ProtobufSerde:
    """Make the coder of a message: the first one, or that which `indexes` lead to. SerdeError."""
    from google.protobuf.message_factory import GetMessageClass

    if not isinstance(parsed, ProtobufSchema):
        raise TypeError(f"a schema of {parsed.schema_type} has no Protobuf coder")
    path = tuple(indexes or (0,))
    name = message_name(parsed, path)
    try:
        pool = descriptor_pool(parsed)
    except InvalidSchema as problem:
        raise SerdeError(f"no values can be coded with this schema: {problem}") from None
    return ProtobufSerde(GetMessageClass(pool.FindMessageTypeByName(name)), pool, path)


def message_name(parsed: ProtobufSchema, indexes: Sequence[int]) -> str:
    """The full name of the message that indexes lead to. SerdeError if there is none."""
    names = [parsed.file.package] if parsed.file.package else []
    types = parsed.file.types
    for index in indexes:
        messages = [each for each in types if isinstance(each, Message)]
        if index >= len(messages):
            raise SerdeError(f"the schema has no message with the indexes {list(indexes)}")
        names.append(messages[index].name)
        types = messages[index].types
    return ".".join(names)


def message_indexes(parsed: ParsedSchema, full_name: str) -> tuple[int, ...]:
    """The indexes of a message by its name, with or without the package. SerdeError if it is not there."""
    if not isinstance(parsed, ProtobufSchema):
        raise TypeError(f"a schema of {parsed.schema_type} has no messages")
    prefix = f"{parsed.file.package}." if parsed.file.package else ""
    path: list[int] = []
    types = parsed.file.types
    for name in full_name.removeprefix(prefix).split("."):
        messages = [each for each in types if isinstance(each, Message)]
        index = next((number for number, each in enumerate(messages) if each.name == name), None)
        if index is None:
            raise SerdeError(f"the schema has no message {full_name}")
        path.append(index)
        types = messages[index].types
    return tuple(path)
