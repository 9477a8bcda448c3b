"""Tree of an Avro schema -> text, as Avro's Java library prints it: Confluent's canonical text.

A named type is printed where it is met first, and by its name from then on, without the namespace that is in
force there. Members come in a fixed order; properties that Avro does not know come last, in the order of the
text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from moldau.schemas.avro.tree import NAMED, NO_DEFAULT, AvroField, AvroType, Name
from moldau.schemas.effort import step
from moldau.schemas.json_text import quoted, write


def print_avro(root: AvroType, known: Iterable[AvroType] = ()) -> str:
    """The text of a schema; the types in `known` (references) are printed by name only."""
    printer = _Printer({each.full_name for each in known if each.name})
    printer.add_type(root)
    return "".join(printer.pieces)


class _Printer:
    def __init__(self, known: set[str]) -> None:
        self.pieces: list[str] = []
        self._add: Callable[[str], None] = self.pieces.append
        self._known = known
        self._space: str | None = None

    def add_type(self, type_: AvroType) -> None:
        step()
        if type_.kind == "union":
            self._list(type_.branches)
        elif type_.kind in NAMED:
            self._named(type_)
        elif type_.items is not None:
            member = "items" if type_.kind == "array" else "values"
            self._add(f'{{"type":"{type_.kind}","{member}":')
            self.add_type(type_.items)
            self._properties(type_.properties)
            self._add("}")
        elif type_.properties:
            self._add(f'{{"type":"{type_.kind}"')
            self._properties(type_.properties)
            self._add("}")
        else:
            self._add(f'"{type_.kind}"')

    def _list(self, types: tuple[AvroType, ...]) -> None:
        self._add("[")
        for index, each in enumerate(types):
            if index:
                self._add(",")
            self.add_type(each)
        self._add("]")

    def _named(self, type_: AvroType) -> None:
        name = type_.name
        assert name is not None
        if name.full in self._known:
            self._add(quoted(_in_space(name, self._space)))
            return
        self._known.add(name.full)
        outer = self._space
        self._add(f'{{"type":"{type_.kind}","name":{quoted(name.simple)}')
        if name.space != outer:
            self._member("namespace", name.space or "")
        self._space = name.space
        if type_.doc is not None:
            self._member("doc", type_.doc)
        self._body(type_)
        self._properties(type_.properties)
        if type_.aliases:
            self._member("aliases", [_in_space(each, name.space) for each in type_.aliases])
        self._add("}")
        self._space = outer

    def _body(self, type_: AvroType) -> None:
        if type_.kind == "enum":
            self._member("symbols", list(type_.symbols))
            if type_.default_symbol is not None:
                self._member("default", type_.default_symbol)
        elif type_.kind == "fixed":
            self._member("size", type_.size_bytes)
        else:
            self._add(',"fields":[')
            for index, each in enumerate(type_.fields):
                self._field(each, "," if index else "")
            self._add("]")

    def _field(self, field: AvroField, before: str) -> None:
        self._add(f'{before}{{"name":{quoted(field.name)},"type":')
        self.add_type(field.type)
        if field.doc is not None:
            self._member("doc", field.doc)
        if field.default is not NO_DEFAULT:
            self._member("default", field.default)
        if field.order != "ascending":
            self._member("order", field.order)
        if field.aliases:
            self._member("aliases", list(field.aliases))
        self._properties(field.properties)
        self._add("}")

    def _member(self, name: str, value: Any) -> None:
        self._add(f',"{name}":{write(value)}')

    def _properties(self, properties: dict[str, Any]) -> None:
        for name, value in properties.items():
            self._add(f",{quoted(name)}:{write(value)}")


def _in_space(name: Name, space: str | None) -> str:
    return name.simple if name.space is None or name.space == space else name.full
