"""Tags of JSON Schema's objects and properties.

    object.item                        the property `item`
    object.items.array.object.price    of the objects in the array `items`
    object.definitions.Name.object.x   of a definition; $defs likewise
    object.note.anyof.0.object.x       "type": ["null", "object"]: the number has no meaning there

A name may have dots. Not here: numbers of parts of anyOf, allOf and oneOf, which Confluent's registry counts
in an order of its Java classes; a path through these is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from moldau.schemas.json_text import read, write
from moldau.schemas.schema import InvalidSchema
from moldau.schemas.tags import TagChange, change_member, no_such_path

_COMPOSITIONS = {"anyof": "anyOf", "allof": "allOf", "oneof": "oneOf"}
_DEFINITIONS = ("definitions", "$defs")


def with_tags(canonical: str, changes: Sequence[TagChange]) -> str:
    """See moldau.schemas.tags."""
    root = read(canonical, number=Decimal)
    for change in changes:
        change_member(_entity(root, change), change)
    return write(root)


def _entity(root: Any, change: TagChange) -> dict[str, Any]:
    node, steps = root, change.steps
    while isinstance(node, dict):
        kind, *steps = steps or [""]
        if kind == "object":
            if not steps and not change.is_field:
                return node
            node, steps = _member(node, steps)
            if not steps:
                break
        elif kind in ("array", "not"):
            node = node.get("items" if kind == "array" else "not")
        elif kind in _COMPOSITIONS:
            node, steps = _part(node, kind, steps)
        else:
            node = None
    if not isinstance(node, dict):
        raise no_such_path(change)
    return node


def _member(node: dict[str, Any], steps: list[str]) -> tuple[Any, list[str]]:
    """The property or definition that the next steps name, and the steps behind it."""
    group = "properties"
    if steps and steps[0] in _DEFINITIONS:
        group, *steps = steps
    named = node.get(group)
    if isinstance(named, dict):
        for count in range(1, len(steps) + 1):
            if (name := ".".join(steps[:count])) in named:
                return named[name], steps[count:]
    return None, []


def _part(node: dict[str, Any], kind: str, steps: list[str]) -> tuple[Any, list[str]]:
    member = _COMPOSITIONS[kind]
    if member in node:
        raise InvalidSchema(f"A path through {member} is not understood here: tag what it refers to instead")
    steps = steps[1:]
    if kind == "allof" and steps[:1] == ["conditional"]:
        return node.get(steps[1]) if len(steps) > 1 else None, steps[2:]
    return (None if kind == "oneof" else node), steps
