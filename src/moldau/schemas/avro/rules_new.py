"""The rule of Avro that came later than the first schemas: only schemas that are registered now must keep it.

The default of a field is a value of its type; of a union, a value of any branch (the specification since
1.12; Avro 1.11 asks for the first).
"""

from __future__ import annotations

from typing import Any

from moldau.schemas.avro.tree import NO_DEFAULT, AvroType, all_types
from moldau.schemas.json_text import write
from moldau.schemas.schema import InvalidSchema

_INTEGERS = {"int": 2**31, "long": 2**63}


def check_new(root: AvroType) -> None:
    """InvalidSchema for what only earlier schemas may have."""
    for type_ in all_types(root):
        for field in type_.fields:
            if field.default is not NO_DEFAULT and not is_value(field.type, field.default):
                raise InvalidSchema(
                    f"Invalid default for field {field.name} of {type_.full_name}: "
                    f"{write(field.default)[:200]} is no value of its type {field.type.full_name}"
                )


def is_value(type_: AvroType, value: Any) -> bool:
    """Whether JSON is a default of a type: bytes are strings, an object may leave out what has a default."""
    kind = type_.kind
    if kind == "union":
        return any(is_value(each, value) for each in type_.branches)
    if kind in ("string", "bytes", "enum", "fixed"):
        return isinstance(value, str)
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind in _INTEGERS:
        return isinstance(value, int) and -_INTEGERS[kind] <= value < _INTEGERS[kind]
    if kind in ("float", "double"):
        return isinstance(value, (int, float))
    if type_.items is not None:
        inner = type_.items
        if kind == "array":
            return isinstance(value, list) and all(is_value(inner, each) for each in value)
        return isinstance(value, dict) and all(is_value(inner, each) for each in value.values())
    # A field that is left out and has a default is right: that default is checked where it is defined.
    return isinstance(value, dict) and all(
        is_value(each.type, value[each.name]) if each.name in value else each.default is not NO_DEFAULT
        for each in type_.fields
    )
