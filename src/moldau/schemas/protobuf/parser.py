"""A .proto text as elements."""

from __future__ import annotations

from collections.abc import Callable

from moldau.schemas.effort import step
from moldau.schemas.protobuf.elements import (
    TAG_MAX,
    Enum,
    EnumConstant,
    Extend,
    Field,
    File,
    Group,
    Message,
    OneOf,
    Option,
    Range,
    Reserved,
    Rpc,
    Service,
)
from moldau.schemas.protobuf.options import read_option, read_options
from moldau.schemas.protobuf.reader import Reader
from moldau.schemas.schema import InvalidSchema

TEXT_CHARACTERS_MAX = 2_000_000
DEPTH_MAX = 32
"""Messages within messages: what protoc allows."""

_LABELS = ("required", "optional", "repeated")
_MESSAGE_WORDS = ("message", "enum", "extend", "oneof", "extensions", "reserved", "option")


def parse_text(text: str) -> File:
    """Parse a text. InvalidSchema with line and column."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise InvalidSchema(
            f"the text has {len(text)} characters; a schema has at most {TEXT_CHARACTERS_MAX}"
        )
    return _Parser(text).file()


class _Parser:
    """Reads one file from its first character to its last."""

    def __init__(self, text: str) -> None:
        self._reader = Reader(text)
        self._file = File()
        self._begun = False
        self._depth = 0

    def file(self) -> File:
        reader, file = self._reader, self._file
        readers: dict[str, Callable[[], None]] = {
            "syntax": self._syntax,
            "edition": self._edition,
            "package": self._package,
            "import": self._import,
            "option": lambda: file.options.append(self._option()),
            "message": lambda: file.types.append(self._message()),
            "enum": lambda: file.types.append(self._enum()),
            "extend": lambda: file.extends.append(self._extend()),
            "service": lambda: file.services.append(self._service()),
        }
        while reader.sign:
            if reader.take_sign(";"):
                continue
            read = readers.get(reader.peek_word())
            if read is None:
                raise reader.unexpected("message, enum, import, option or the like is expected")
            reader.word()
            read()
            self._begun = True
        return file

    def _syntax(self) -> None:
        self._first("syntax")
        self._reader.require("=")
        syntax = self._reader.string()
        if syntax not in ("proto2", "proto3"):
            raise InvalidSchema(f"there is no syntax {syntax!r}: proto2 or proto3")
        self._file.syntax = syntax
        self._reader.require(";")

    def _edition(self) -> None:
        self._first("edition")
        self._reader.require("=")
        self._file.edition = self._reader.string()
        if not self._file.edition.isdigit():
            raise InvalidSchema(f"there is no edition {self._file.edition!r}")
        self._reader.require(";")

    def _first(self, word: str) -> None:
        if self._begun:
            raise self._reader.unexpected(f"{word} must be the first declaration")

    def _package(self) -> None:
        self._file.package = self._reader.word()
        self._reader.require(";")

    def _import(self) -> None:
        target = self._file.imports
        word = self._reader.peek_word()
        if word in ("public", "weak", "option"):
            self._reader.word()
            target = self._file.public_imports if word == "public" else target
        target.append(self._reader.string())
        self._reader.require(";")

    def _option(self) -> Option:
        option = read_option(self._reader)
        self._reader.require(";")
        return option

    def _message(self) -> Message:
        reader = self._reader
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise reader.unexpected(f"messages are nested deeper than {DEPTH_MAX}")
        message = Message(reader.word())
        reader.require("{")
        while not reader.take_sign("}"):
            if not reader.take_sign(";"):
                self._in_message(message)
        self._depth -= 1
        return message

    def _in_message(self, message: Message) -> None:
        step()
        reader = self._reader
        word = reader.word()
        if word == "message":
            message.types.append(self._message())
        elif word == "enum":
            message.types.append(self._enum())
        elif word == "extend":
            message.extends.append(self._extend())
        elif word == "oneof":
            message.one_ofs.append(self._one_of())
        elif word == "extensions":
            message.extensions.append(self._extensions())
        elif word == "reserved":
            message.reserved.append(self._reserved())
        elif word == "option":
            message.options.append(self._option())
        else:
            self._field(word, message.fields, message.groups)

    def _field(self, word: str, fields: list[Field], groups: list[Group] | None) -> None:
        reader, label = self._reader, None
        if word in _LABELS:
            label = word
            if label == "required" and self._file.syntax == "proto3":
                raise reader.unexpected("proto3 has no required fields")
            word = reader.word()
        elif self._needs_label and word not in ("map", "group"):
            raise InvalidSchema(
                f"{word} {reader.peek_word()}: a field of proto2 begins with optional, repeated or required"
            )
        if word == "group" and groups is not None:
            groups.append(self._group(label))
            return
        fields.append(self._field_of(label, self._type(word, label)))

    @property
    def _needs_label(self) -> bool:
        return self._file.syntax != "proto3" and self._file.edition is None

    def _type(self, word: str, label: str | None) -> str:
        reader = self._reader
        if word != "map" or not reader.take_sign("<"):
            return word
        if label is not None:
            raise reader.unexpected("a map has no label")
        key = reader.word()
        reader.require(",")
        value = reader.word()
        reader.require(">")
        return f"map<{key}, {value}>"

    def _field_of(self, label: str | None, type_name: str) -> Field:
        reader = self._reader
        field = Field(label, type_name, reader.word(), self._tag())
        for option in read_options(reader):
            if option.name == "default" and not option.parenthesized and field.default is None:
                field.default = str(option.value)
            elif option.name == "json_name" and not option.parenthesized and field.json_name is None:
                field.json_name = str(option.value)
            else:
                field.options.append(option)
        reader.require(";")
        return field

    def _tag(self) -> int:
        self._reader.require("=")
        return self._reader.integer()

    def _group(self, label: str | None) -> Group:
        reader = self._reader
        group = Group(label, reader.word(), self._tag())
        read_options(reader)
        reader.require("{")
        while not reader.take_sign("}"):
            if not reader.take_sign(";"):
                word = reader.word()
                if word in _MESSAGE_WORDS:
                    raise InvalidSchema(f"group {group.name} has {word}: a group may only have fields")
                self._field(word, group.fields, None)
        return group

    def _one_of(self) -> OneOf:
        reader = self._reader
        one_of = OneOf(reader.word())
        reader.require("{")
        while not reader.take_sign("}"):
            if reader.take_sign(";"):
                continue
            word = reader.word()
            if word == "option":
                one_of.options.append(self._option())
            elif word == "group":
                one_of.groups.append(self._group(None))
            elif word in _LABELS or word == "map":
                raise InvalidSchema(
                    f"oneof {one_of.name} has a field with {word}: its fields have a type only"
                )
            else:
                one_of.fields.append(self._field_of(None, word))
        return one_of

    def _extend(self) -> Extend:
        reader = self._reader
        extend = Extend(reader.word())
        reader.require("{")
        while not reader.take_sign("}"):
            if not reader.take_sign(";"):
                self._field(reader.word(), extend.fields, None)
        return extend

    def _reserved(self) -> list[Reserved]:
        reader = self._reader
        values: list[Reserved] = []
        while True:
            if reader.sign and reader.sign in "'\"":
                values.append(reader.string())
            elif reader.peek_word()[:1].isalpha():
                values.append(reader.word())  # Editions have names without quotes.
            else:
                values.append(self._numbers())
            if not reader.take_sign(","):
                reader.require(";")
                return values

    def _extensions(self) -> list[int | Range]:
        reader = self._reader
        values = [self._numbers()]
        while reader.take_sign(","):
            values.append(self._numbers())
        read_options(reader)
        reader.require(";")
        return values

    def _numbers(self) -> int | Range:
        reader = self._reader
        start = reader.integer()
        if reader.peek_word() != "to":
            return start
        reader.word()
        if reader.peek_word() == "max":
            reader.word()
            return Range(start, TAG_MAX)
        return Range(start, reader.integer())

    def _enum(self) -> Enum:
        reader = self._reader
        enum = Enum(reader.word())
        reader.require("{")
        while not reader.take_sign("}"):
            if reader.take_sign(";"):
                continue
            word = reader.word()
            if word == "option":
                enum.options.append(self._option())
            elif word == "reserved":
                enum.reserved.append(self._reserved())
            else:
                enum.constants.append(EnumConstant(word, self._tag(), read_options(reader)))
                reader.require(";")
        return enum

    def _service(self) -> Service:
        reader = self._reader
        service = Service(reader.word())
        reader.require("{")
        while not reader.take_sign("}"):
            if reader.take_sign(";"):
                continue
            word = reader.word()
            if word == "option":
                service.options.append(self._option())
            elif word == "rpc":
                service.rpcs.append(self._rpc())
            else:
                raise InvalidSchema(f"service {service.name} has {word}: rpc or option is expected")
        return service

    def _rpc(self) -> Rpc:
        reader = self._reader
        name = reader.word()
        request_streams, request_type = self._rpc_type()
        if reader.word() != "returns":
            raise InvalidSchema(f"rpc {name} has no returns")
        response_streams, response_type = self._rpc_type()
        rpc = Rpc(name, request_type, response_type, request_streams, response_streams)
        if not reader.take_sign("{"):
            reader.require(";")
            return rpc
        while not reader.take_sign("}"):
            if reader.take_sign(";"):
                continue
            if reader.word() != "option":
                raise InvalidSchema(f"rpc {name} may only have options")
            rpc.options.append(self._option())
        return rpc

    def _rpc_type(self) -> tuple[bool, str]:
        reader = self._reader
        reader.require("(")
        word = reader.word()
        streams = word == "stream" and reader.sign != ")"
        if streams:
            word = reader.word()
        reader.require(")")
        return streams, word
