"""Options of a file, message, field and so on: `name = value` with all forms of values.

option java_package = "a.b";                 [deprecated = true, (my.option).field = { a: 1, b: ["x"] }]
"""

from __future__ import annotations

from typing import Any

from moldau.schemas.protobuf.elements import Kind, Option, Primitive
from moldau.schemas.protobuf.reader import Reader

DEPTH_MAX = 64
_UNQUOTED = (Kind.BOOLEAN, Kind.ENUM, Kind.NUMBER)


def read_options(reader: Reader) -> list[Option]:
    """Read `[a = 1, b = 2]`, or nothing."""
    options: list[Option] = []
    if not reader.take_sign("["):
        return options
    while True:
        options.append(read_option(reader))
        if reader.take_sign("]"):
            return options
        reader.require(",")


def read_option(reader: Reader, separator: str = "=", depth: int = 0) -> Option:
    """Read `name = value`."""
    if depth > DEPTH_MAX:
        raise reader.unexpected(f"options are nested deeper than {DEPTH_MAX}")
    parenthesized = reader.sign == "("
    name = _name(reader)
    inner: list[str] = []
    if (parenthesized or name.startswith("[")) and reader.peek_word().startswith("."):
        inner = reader.word()[1:].split(".")
    while reader.sign == "(" or (inner and reader.peek_word().startswith(".")):
        # (a).b.(c).d: parts in parentheses within an option.
        inner.append(f"({_name(reader)})" if reader.sign == "(" else reader.word()[1:])
    if len(inner) > DEPTH_MAX:
        raise reader.unexpected(f"options are nested deeper than {DEPTH_MAX}")
    if not (separator == ":" and reader.sign in ("{", "<")):
        reader.require(separator)
    kind, value = _value(reader, depth)
    for each in reversed([part for part in inner if part]):
        value = Option(each, kind, value)
        kind = Kind.OPTION
    return Option(name, kind, value, parenthesized)


def _name(reader: Reader) -> str:
    if reader.take_sign("("):
        name = reader.word()
        reader.require(")")
        return name
    if reader.take_sign("["):
        name = reader.word()
        while reader.take_sign("/"):  # [type.googleapis.com/a.B], the name of an Any.
            name += "/" + reader.word()
        reader.require("]")
        return f"[{name}]"
    return reader.word()


def _value(reader: Reader, depth: int) -> tuple[Kind, Any]:
    sign = reader.sign
    if sign and sign in "{<":
        return Kind.MAP, _map(reader, "}" if sign == "{" else ">", depth + 1)
    if sign == "[":
        return Kind.LIST, _list(reader, depth + 1)
    if sign and sign in "\"'":
        return Kind.STRING, reader.string()
    if reader.take_sign("+"):
        return Kind.NUMBER, reader.word()
    word = reader.word()
    if word[0].isdigit() or word[0] == "-":
        return Kind.NUMBER, word
    return (Kind.BOOLEAN if word in ("true", "false") else Kind.ENUM), word


def _map(reader: Reader, closing: str, depth: int) -> dict[str, Any]:
    reader.require("{" if closing == "}" else "<")
    found: dict[str, Any] = {}
    while not reader.take_sign(closing):
        option = read_option(reader, ":", depth)
        value = _stored(option.kind, option.value)
        if isinstance(value, Option):
            nested = found.setdefault(option.name, {})
            if isinstance(nested, dict):
                nested[value.name] = _stored(value.kind, value.value)
        elif option.name not in found:
            found[option.name] = value
        else:
            before = found[option.name]
            if not isinstance(before, list):
                before = found[option.name] = [before]
            before.extend(value if isinstance(value, list) else [value])
        if not reader.take_sign(","):
            reader.take_sign(";")
    return found


def _list(reader: Reader, depth: int) -> list[Any]:
    if depth > DEPTH_MAX:
        raise reader.unexpected(f"options are nested deeper than {DEPTH_MAX}")
    reader.require("[")
    found: list[Any] = []
    while not reader.take_sign("]"):
        found.append(_stored(*_value(reader, depth)))
        if not reader.take_sign(",") and reader.sign != "]":
            raise reader.unexpected("',' or ']' is expected")
    return found


def _stored(kind: Kind, value: Any) -> Any:
    return Primitive(kind, value) if kind in _UNQUOTED else value
