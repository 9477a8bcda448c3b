"""Elements as text, in the one form in which Confluent's registry stores and compares them.

Messages come before enums, fields before oneofs, groups and extensions; comments are gone; every line is
indented by two blanks a level, also those between sections of a message.

`Normalizing` (normalizing.py) changes what is printed; where forms differ between versions of Confluent's
registry, the newest counts (groups, extensions and reserved numbers of enums are printed in order, and `max`
is written out since 7.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from moldau.schemas.effort import step
from moldau.schemas.protobuf.elements import (
    SCALARS,
    TAG_MAX,
    Enum,
    Extend,
    Field,
    File,
    Group,
    Kind,
    Message,
    OneOf,
    Option,
    Primitive,
    Range,
    Reserved,
    Rpc,
    Service,
    map_types,
)

_ESCAPES = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        "'": "\\'",
        '"': '\\"',
    }
)
_NUMBERS = SCALARS - {"bool", "string"}
_WORD_SIGNS = frozenset("_.-")


class Printer:
    """Prints one file; subclasses change what is printed where."""

    with_extensions = True
    """Whether ranges for extensions are printed."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indent = ""

    # What subclasses change.

    def options(self, options: Sequence[Option]) -> Sequence[Option]:
        """The options to print."""
        return options

    def enter(self, name: str) -> None:
        """The types within a message follow."""

    def leave(self) -> None:
        """They are printed."""

    def field_type(self, field: Field) -> tuple[str | None, str]:
        """The label and type of a field."""
        return field.label, field.type

    def type_name(self, name: str) -> str:
        """The type of a request or response, or the message that is extended."""
        return name

    def ordered(self, elements: Sequence[Any]) -> Sequence[Any]:
        """Fields, groups or constants in the order in which they are printed."""
        return elements

    def one_ofs(self, one_ofs: Sequence[OneOf]) -> Sequence[OneOf]:
        """The oneofs to print."""
        return one_ofs

    def types(self, types: Sequence[Message | Enum]) -> Sequence[Message | Enum]:
        """The types to print."""
        return types

    def extends(self, extends: Sequence[Extend]) -> Sequence[Extend]:
        """The extensions to print."""
        return extends

    def ranges(self, ranges: Sequence[Sequence[Reserved]]) -> Sequence[Sequence[Reserved]]:
        """The reserved or extended numbers to print, a declaration each."""
        return ranges

    def imports(self, imports: Sequence[str]) -> Sequence[str]:
        """The imports to print."""
        return imports

    def number(self, text: str) -> str:
        """A number of an option."""
        return text

    def entries(self, values: dict[str, Any]) -> Iterable[tuple[str, Any]]:
        """The entries of an option's map."""
        return values.items()

    def single(self, values: list[Any]) -> bool:
        """Whether a list in a map is printed as its only value."""
        return False

    def heading(self, file: File) -> list[str]:
        """Syntax or edition."""
        if file.edition is not None:
            return [f'edition = "{file.edition}";']
        return [f'syntax = "{file.syntax}";'] if file.syntax is not None else []

    def print_file(self, file: File) -> str:
        """The text of a file; ends with a line break."""
        lines = self._lines
        lines.extend(self.heading(file))
        if file.package is not None:
            lines.append(f"package {file.package};")
        if file.imports or file.public_imports:
            lines.append("")
            lines.extend(f'import "{each}";' for each in self.imports(file.imports))
            lines.extend(f'import public "{each}";' for each in self.imports(file.public_imports))
        if options := self.options(file.options):
            lines.append("")
            self._option_lines(options)
        if types := self.types(file.types):
            lines.append("")
            self._types(types)
        if extends := self.extends(file.extends):
            lines.append("")
            for extend in extends:
                self._extend(extend)
        if file.services:
            lines.append("")
            for service in file.services:
                self._service(service)
        return "\n".join(lines) + "\n" if lines else ""

    def _line(self, text: str) -> None:
        for part in text.split("\n"):
            self._lines.append(self._indent + part)

    def _open(self, heading: str) -> None:
        """Begin a block; its first section ends the heading's line."""
        self._line(heading)
        self._indent += "  "

    def _section(self, sections: int) -> int:
        """Begin a section behind so many; a blank line stands between two, as far indented as the block."""
        if sections:
            self._lines.append(self._indent[:-2])
        return sections + 1

    def _close(self, sections: int, closing: str = "}") -> None:
        self._indent = self._indent[:-2]
        if sections:
            self._line(closing)
        else:
            self._lines[-1] += closing

    def _option_lines(self, options: Sequence[Option]) -> None:
        for option in options:
            self._line(f"option {self.option_text(option)};")

    def _types(self, types: Sequence[Message | Enum]) -> None:
        for element in types:
            if isinstance(element, Message):
                self._message(element)
        for element in types:
            if isinstance(element, Enum):
                self._enum(element)

    def _message(self, message: Message) -> None:
        step()
        self.enter(message.name)
        self._open(f"message {message.name} {{")
        sections = 0
        if message.reserved:
            sections = self._section(sections)
            self._reserved("reserved", message.reserved)
        if options := self.options(message.options):
            sections = self._section(sections)
            self._option_lines(options)
        if message.fields:
            sections = self._section(sections)
            self._fields(self.ordered(message.fields))
        if one_ofs := self.one_ofs(message.one_ofs):
            sections = self._section(sections)
            for one_of in one_ofs:
                self._one_of(one_of)
        if message.groups:
            sections = self._section(sections)
            self._groups(message.groups)
        if message.extensions and self.with_extensions:
            sections = self._section(sections)
            self._reserved("extensions", message.extensions)
        if extends := self.extends(message.extends):
            sections = self._section(sections)
            for extend in extends:
                self._extend(extend)
        if types := self.types(message.types):
            sections = self._section(sections)
            self._types(types)
        self._close(sections)
        self.leave()

    def _reserved(self, word: str, ranges: Sequence[Sequence[Reserved]]) -> None:
        for values in self.ranges(ranges):
            self._line(f"{word} {', '.join(map(self.range_text, values))};")

    def range_text(self, value: Reserved) -> str:
        """A reserved number, range or name."""
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, Range):
            return f"{value.start} to {value.end if value.end < TAG_MAX else 'max'}"
        return str(value)

    def _fields(self, fields: Sequence[Field]) -> None:
        for field in fields:
            label, type_name = self.field_type(field)
            text = f"{label + ' ' if label else ''}{type_name} {field.name} = {field.tag}"
            options = list(field.options)
            if field.default is not None:
                kind = _default_kind(type_name, field.default)
                options.append(Option("default", kind, field.default))
            if field.json_name is not None:
                options.append(Option("json_name", Kind.STRING, field.json_name))
            if shown := self.options(options):
                text += " " + self._bracketed([self.option_text(each) for each in shown])
            self._line(text + ";")

    def _one_of(self, one_of: OneOf) -> None:
        self._open(f"oneof {one_of.name} {{")
        sections = 0
        if options := self.options(one_of.options):
            sections = self._section(sections)
            self._option_lines(options)
        if one_of.fields:
            sections = self._section(sections)
            self._fields(self.ordered(one_of.fields))
        if one_of.groups:
            sections = self._section(sections)
            self._groups(one_of.groups)
        self._close(sections)

    def _groups(self, groups: Sequence[Group]) -> None:
        for group in self.ordered(groups):
            label = f"{group.label} " if group.label else ""
            self._open(f"{label}group {group.name} = {group.tag} {{")
            self._fields(self.ordered(group.fields))
            self._close(len(group.fields))

    def _extend(self, extend: Extend) -> None:
        self._open(f"extend {extend.name} {{")
        self._fields(self.ordered(extend.fields))
        self._close(len(extend.fields))

    def _enum(self, enum: Enum) -> None:
        self.enter(enum.name)
        self._open(f"enum {enum.name} {{")
        self._reserved("reserved", enum.reserved)
        self._option_lines(self.options(enum.options))
        for constant in self.ordered(enum.constants):
            text = f"{constant.name} = {constant.tag}"
            if options := self.options(constant.options):
                text += " " + self._bracketed([self.option_text(each) for each in options])
            self._line(text + ";")
        self._close(len(enum.reserved) + len(enum.options) + len(enum.constants))
        self.leave()

    def _service(self, service: Service) -> None:
        self._open(f"service {service.name} {{")
        sections = 0
        if options := self.options(service.options):
            sections = self._section(sections)
            self._option_lines(options)
        if service.rpcs:
            sections = self._section(sections)
            for rpc in service.rpcs:
                self._rpc(rpc)
        self._close(sections)

    def _rpc(self, rpc: Rpc) -> None:
        request = f"{'stream ' if rpc.request_streams else ''}{self.type_name(rpc.request_type)}"
        response = f"{'stream ' if rpc.response_streams else ''}{self.type_name(rpc.response_type)}"
        text = f"rpc {rpc.name} ({request}) returns ({response})"
        options = self.options(rpc.options)
        if not options:
            self._line(text + ";")
            return
        self._open(text + " {")
        self._option_lines(options)
        self._close(len(options), "};")

    def option_text(self, option: Option) -> str:
        """`name = value`; of several lines where the value is a map or a list."""
        name = f"({option.name})" if option.parenthesized else option.name
        if option.kind is Kind.OPTION:
            return f"{name}.{self.option_text(option.value)}"
        if option.kind is Kind.MAP:
            return f"{name} = {self._map_text(option.value)}"
        if option.kind is Kind.LIST:
            return f"{name} = {self._bracketed([self._value_text(each) for each in option.value])}"
        if option.kind is Kind.STRING:
            return f'{name} = "{escaped(option.value)}"'
        text = self.number(str(option.value)) if option.kind is Kind.NUMBER else option.value
        return f"{name} = {text}"

    def _map_text(self, values: dict[str, Any]) -> str:
        shown = [f"{name}: {self._value_text(value)}" for name, value in self.entries(values)]
        return "{\n" + _indented(shown) + "}"

    def _value_text(self, value: Any) -> str:
        if isinstance(value, str):
            return f'"{escaped(value)}"'
        if isinstance(value, dict):
            return self._map_text(value)
        if isinstance(value, list):
            if self.single(value):
                return self._value_text(value[0])
            return "[\n" + _indented([self._value_text(each) for each in value]) + "]"
        if isinstance(value, Primitive):
            return self.number(value.text) if value.kind is Kind.NUMBER else value.text
        return self.option_text(value)

    def _bracketed(self, texts: Sequence[str]) -> str:
        if len(texts) == 1:
            return f"[{texts[0]}]"
        return "[\n" + _indented(texts) + "]"


def _indented(texts: Sequence[str]) -> str:
    lines = [
        "  " + line
        for index, text in enumerate(texts)
        for line in (text + ("," if index + 1 < len(texts) else "")).split("\n")
    ]
    return "".join(f"{line}\n" for line in lines)


def escaped(text: str) -> str:
    """Text as it stands between quotes."""
    return text.translate(_ESCAPES)


def _default_kind(type_name: str, default: str) -> Kind:
    if type_name == "bool":
        return Kind.BOOLEAN
    if type_name == "string":
        return Kind.STRING
    if type_name == "bytes" and not (
        default and all((c.isalnum() and c.isascii()) or c in _WORD_SIGNS for c in default)
    ):
        # Confluent's registry writes bytes without quotes: text that it cannot read again, if it is no word.
        return Kind.STRING
    return Kind.NUMBER if type_name in _NUMBERS and map_types(type_name) is None else Kind.ENUM


def canonical_text(file: File) -> str:
    """The canonical text."""
    return Printer().print_file(file)
