"""The rule of Avro that came later than the first schemas: only schemas that are registered now must keep it.

The default of a field is a value of its type; of a union, a value of any branch (the specification since
1.12; Avro 1.11 asks for the first).
"""

from __future__ import annotations

from typing import Any

from moldau.schemas.avro.tree import NO_DEFAULT, AvroType, all_types
from moldau.schemas.effort import step
from moldau.schemas.json_text import write
from moldau.schemas.schema import InvalidSchema, TooComplex

TRIALS_MAX = 500_000
"""More trials of values with types are not made: a second of work."""

_INTEGERS = {"int": 2**31, "long": 2**63}


def check_new(root: AvroType) -> None:
    """InvalidSchema for what only earlier schemas may have."""
    fits = Fits()
    for type_ in all_types(root):
        for field in type_.fields:
            if field.default is not NO_DEFAULT and not fits(field.type, field.default):
                raise InvalidSchema(
                    f"Invalid default for field {field.name} of {type_.full_name}: "
                    f"{write(field.default)[:200]} is no value of its type {field.type.full_name}"
                )


class Fits:
    """Whether JSON is a default of a type: bytes are strings, an object may leave out what has a default.

    Remembers its answers: the branches of a union would otherwise try the same inner values again and again.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}
        """By the identities of type and value, which are parts of the schema and live as long."""
        self._count = 0

    def __call__(self, type_: AvroType, value: Any) -> bool:
        step()
        self._count += 1
        if self._count > TRIALS_MAX:
            raise TooComplex(f"checking the defaults takes more than {TRIALS_MAX} steps")
        if not isinstance(value, (dict, list)):
            return self._fits(type_, value)
        key = (id(type_), id(value))
        if key not in self._known:
            self._known[key] = self._fits(type_, value)
        return self._known[key]

    def _fits(self, type_: AvroType, value: Any) -> bool:
        kind = type_.kind
        if kind == "union":
            return any(self(each, value) for each in type_.branches)
        if isinstance(value, dict):
            return self._fits_object(type_, value)
        if isinstance(value, list):
            items = type_.items
            return kind == "array" and items is not None and all(self(items, each) for each in value)
        if kind in ("string", "bytes", "enum", "fixed"):
            return isinstance(value, str)
        if kind == "null":
            return value is None
        if kind == "boolean" or isinstance(value, bool):
            return kind == "boolean" and isinstance(value, bool)
        if kind in _INTEGERS:
            return isinstance(value, int) and -_INTEGERS[kind] <= value < _INTEGERS[kind]
        return kind in ("float", "double") and isinstance(value, (int, float))

    def _fits_object(self, type_: AvroType, value: dict[str, Any]) -> bool:
        items = type_.items
        if type_.kind == "map" and items is not None:
            return all(self(items, each) for each in value.values())
        # A field that is left out and has a default is right: that default is checked where it is defined.
        return type_.is_record and all(
            self(each.type, value[each.name]) if each.name in value else each.default is not NO_DEFAULT
            for each in type_.fields
        )
