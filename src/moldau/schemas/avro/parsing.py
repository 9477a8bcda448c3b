"""Text of an Avro schema -> its tree, accepting and refusing what Avro's Java library does.

Lenient where that library is: comments, unknown members (kept), any namespace, letters of any script in
names, members of the wrong type that are optional (ignored), defaults that do not fit (checked for new
schemas only, see rules_new.py). A name is known after its definition has begun, in the order of the text: no
forward references.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.schemas.avro.tree import NO_DEFAULT, PRIMITIVES, AvroField, AvroType, Name
from moldau.schemas.effort import step
from moldau.schemas.json_text import read, write
from moldau.schemas.schema import InvalidSchema

_FIELD_MEMBERS = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_TYPE_MEMBERS = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
_ENUM_MEMBERS = _TYPE_MEMBERS | {"default"}
_ORDERS = ("ascending", "descending", "ignore")
_FIXED_BYTES_MAX = 2**31 - 9
"""The largest array of Java."""
_SHOWN_CHARACTERS_MAX = 200


def parse_avro(text: str, dependencies: Mapping[str, str]) -> tuple[AvroType, list[AvroType]]:
    """The type that the text defines, and those that its dependencies define. InvalidSchema with the
    reason."""
    parser = _Parser()
    referenced = []
    for name, each in dependencies.items():
        try:
            referenced.append(parser.parse_text(each))
        except InvalidSchema as error:
            raise InvalidSchema(f"in the reference {name}: {error}") from None
    return parser.parse_text(text), referenced


class _Parser:
    """Reads texts that know each other's names."""

    def __init__(self) -> None:
        self._names: dict[str, AvroType] = {}
        self._space: str | None = None
        """The namespace of the definition that is being read."""

    def parse_text(self, text: str) -> AvroType:
        self._space = None
        return self._type(read(text, comments=True))

    def _type(self, node: Any) -> AvroType:
        step()
        if isinstance(node, str):
            return self._named(node)
        if isinstance(node, list):
            return _union([self._type(each) for each in node], node)
        if not isinstance(node, dict):
            raise InvalidSchema(f"{_shown(node)} is no type: a name, an object or a union is expected")
        kind = node.get("type")
        if not isinstance(kind, str):
            raise InvalidSchema(f'No type: the member "type" is not a string in {_shown(node)}')
        space = self._space
        found = self._defined(kind, node)
        if found is None:
            return self._known(kind) or _refuse(f"Type not supported: {kind}")
        members = _ENUM_MEMBERS if kind == "enum" else _TYPE_MEMBERS
        found.properties.update((name, value) for name, value in node.items() if name not in members)
        self._space = space
        if found.name is not None:
            aliases = _aliases(node)
            found.aliases = tuple(dict.fromkeys(Name.of(each, found.name.space) for each in aliases or ()))
        return found

    def _defined(self, kind: str, node: dict[str, Any]) -> AvroType | None:
        if kind in ("record", "error"):
            return self._record(self._new_named(kind, node), node)
        if kind == "enum":
            return self._add(_enum(self._new_named(kind, node), node))
        if kind == "fixed":
            return self._add(_fixed(self._new_named(kind, node), node))
        if kind == "array":
            if "items" not in node:
                raise InvalidSchema(f"Array has no items type: {_shown(node)}")
            return AvroType(kind, items=self._type(node["items"]))
        if kind == "map":
            if "values" not in node:
                raise InvalidSchema(f"Map has no values type: {_shown(node)}")
            return AvroType(kind, items=self._type(node["values"]))
        return AvroType(kind) if kind in PRIMITIVES else None

    def _new_named(self, kind: str, node: dict[str, Any]) -> AvroType:
        space = _text(node, "namespace")
        written = node.get("name")
        if not isinstance(written, str):
            raise InvalidSchema(f"No name in schema: {_shown(node)}")
        name = Name.of(written, self._space if space is None else space)
        check_name(name.simple)
        self._space = name.space
        return AvroType(kind, name=name, doc=_text(node, "doc"))

    def _add(self, found: AvroType) -> AvroType:
        full = found.full_name
        if full in PRIMITIVES:
            raise InvalidSchema(f"Schemas may not be named after primitives: {full}")
        if full in self._names:
            raise InvalidSchema(f"Can't redefine: {full}")
        self._names[full] = found
        return found

    def _record(self, found: AvroType, node: dict[str, Any]) -> AvroType:
        self._add(found)
        nodes = node.get("fields")
        if not isinstance(nodes, list):
            raise InvalidSchema(f"Record has no fields: {_shown(node)}")
        names = set()
        for each in nodes:
            field = self._field(each)
            if field.name in names:
                raise InvalidSchema(f"Duplicate field {field.name} in record {found.full_name}")
            names.add(field.name)
            found.fields.append(field)
        return found

    def _field(self, node: Any) -> AvroField:
        name = node.get("name") if isinstance(node, dict) else None
        if not isinstance(name, str):
            raise InvalidSchema(f"No field name: {_shown(node)}")
        check_name(name)
        type_ = node.get("type")
        if "type" not in node:
            raise InvalidSchema(f"No field type: {_shown(node)}")
        if isinstance(type_, str) and not self._known(type_):
            raise InvalidSchema(
                f'"{type_}" is not a defined name. The type of the "{name}" field must be a defined name or '
                f'a {{"type": ...}} expression.'
            )
        found = self._type(type_)
        order = node.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise InvalidSchema(
                f'the order of field "{name}" is {_shown(order)}, not one of {", ".join(_ORDERS)}'
            )
        aliases = _aliases(node)
        return AvroField(
            name,
            found,
            _text(node, "doc"),
            _default(node, found, name),
            order.lower(),
            None if aliases is None else tuple(dict.fromkeys(aliases)),
            {key: value for key, value in node.items() if key not in _FIELD_MEMBERS},
        )

    def _named(self, text: str) -> AvroType:
        return self._known(text) or _refuse(f'Undefined name: "{text}"')

    def _known(self, text: str) -> AvroType | None:
        if text in PRIMITIVES:
            return AvroType(text)
        # A name without dots is also looked for outside all namespaces.
        name = Name.of(text, self._space)
        return self._names.get(name.full) or self._names.get(name.simple)


def _refuse(message: str) -> AvroType:
    raise InvalidSchema(message)


def _union(branches: list[AvroType], node: list[Any]) -> AvroType:
    names = set()
    for each in branches:
        if each.kind == "union":
            raise InvalidSchema(f"Nested union: {_shown(node)}")
        if each.full_name in names:
            raise InvalidSchema(f"Duplicate in union: {each.full_name}")
        names.add(each.full_name)
    return AvroType("union", branches=tuple(branches))


def _enum(found: AvroType, node: dict[str, Any]) -> AvroType:
    symbols = node.get("symbols")
    if not isinstance(symbols, list):
        raise InvalidSchema(f"Enum has no symbols: {_shown(node)}")
    seen = set()
    for each in symbols:
        if not isinstance(each, str):
            raise InvalidSchema(f"a symbol of the enum {found.full_name} is {_shown(each)}, not a string")
        check_name(each)
        if each in seen:
            raise InvalidSchema(f"Duplicate enum symbol: {each}")
        seen.add(each)
    found.symbols, found.default_symbol = tuple(symbols), _text(node, "default")
    if found.default_symbol is not None and found.default_symbol not in seen:
        raise InvalidSchema(
            f"The Enum Default: {found.default_symbol} is not in the enum symbol set of {found.full_name}"
        )
    return found


def _fixed(found: AvroType, node: dict[str, Any]) -> AvroType:
    size = node.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _FIXED_BYTES_MAX:
        raise InvalidSchema(f"Invalid or no size: {_shown(node)}")
    found.size_bytes = size
    return found


def _default(node: dict[str, Any], found: AvroType, name: str) -> Any:
    default = node.get("default", NO_DEFAULT)
    if found.kind in ("float", "double") and isinstance(default, str):
        try:
            return float(default)
        except ValueError:
            raise InvalidSchema(f'the default of field "{name}" is {_shown(default)}, not a number') from None
    return default


def _text(node: dict[str, Any], member: str) -> str | None:
    value = node.get(member)
    return value if isinstance(value, str) else None


def _aliases(node: dict[str, Any]) -> list[str] | None:
    aliases = node.get("aliases")
    if "aliases" not in node:
        return None
    if not isinstance(aliases, list):
        raise InvalidSchema(f"aliases not an array: {_shown(node)}")
    for each in aliases:
        if not isinstance(each, str):
            raise InvalidSchema(f"alias not a string: {_shown(each)}")
        check_name(each.rpartition(".")[2])
    return aliases


def check_name(name: str) -> None:
    """InvalidSchema for what Avro's Java library takes for no name; letters may be of any script."""
    if not name:
        raise InvalidSchema("Empty name")
    if not (name[0].isalpha() or name[0] == "_"):
        raise InvalidSchema(f"Illegal initial character: {name}")
    if not (name.isascii() and name.isidentifier()) and not all(
        each.isalnum() or each == "_" for each in name
    ):
        raise InvalidSchema(f"Illegal character in: {name}")


def _shown(node: Any) -> str:
    text = write(node)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}..."
