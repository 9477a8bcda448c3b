"""The differences of two objects, and of two arrays. See comparing.py.

A content model is open if it allows what it does not name; closed if it does not; partially open if what is
not named has a schema ("additionalProperties": {...}, patterns). A property that an open model gains narrows
it: earlier values may have it with any value. So only closed and partially open models gain properties
compatibly, and only open and partially open ones lose them.

Patterns of names are run on names of properties, by RE2, in linear time. A pattern that RE2 does not know
(look-ahead) is taken for one that matches nothing.
"""

from __future__ import annotations

from moldau.common.core.patterns import Pattern, PatternError, compile_pattern
from moldau.schemas.json_schema.changes import Change, Changes, Found, Pair, Work
from moldau.schemas.json_schema.nodes import NO_DEFAULT, AnyNode, ArrayNode, FalseNode, Node, ObjectNode
from moldau.schemas.json_schema.parts import limit_changes
from moldau.schemas.schema import TooComplex

_PATTERN_BYTES_MAX = 1 << 20
"""Memory of one pattern: RE2 refuses those that take more."""
_PATTERN_RUNS_MAX = 100_000
"""Of the patterns of one object on the properties of another."""


def object_changes(old: ObjectNode, new: ObjectNode) -> Work:
    if (
        max(len(old.patterns) * len(new.properties), len(new.patterns) * len(old.properties))
        > _PATTERN_RUNS_MAX
    ):
        raise TooComplex(
            "comparing properties with patterns of properties takes too long: there are too many"
        )
    changes = _required_changes(old, new)
    for name in dict.fromkeys([*old.properties, *new.properties]):
        changes += yield from _property_changes(name, old, new)
    changes += yield from _dependency_changes(old, new)
    changes += yield from _rest_changes(
        "additionalProperties", "ADDITIONAL_PROPERTIES", old.additional, new.additional
    )
    changes += yield from _rest_changes(
        "unevaluatedProperties", "UNEVALUATED_PROPERTIES", old.unevaluated, new.unevaluated
    )
    changes += limit_changes("maxProperties", "MAX_PROPERTIES", old.max_properties, new.max_properties)
    changes += limit_changes("minProperties", "MIN_PROPERTIES", old.min_properties, new.min_properties)
    return changes


def _required_changes(old: ObjectNode, new: ObjectNode) -> Changes:
    changes: Changes = []
    for name in old.properties:
        if name not in new.properties or (name in old.required) == (name in new.required):
            continue
        if name in old.required:
            kind = "REQUIRED_ATTRIBUTE_REMOVED"
        elif new.properties[name].default is not NO_DEFAULT:
            kind = "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED"
        else:
            kind = "REQUIRED_ATTRIBUTE_ADDED"
        changes.append(Change(kind, ("required", name)))
    return changes


def _property_changes(name: str, old: ObjectNode, new: ObjectNode) -> Work:
    place = ("properties", name)
    earlier, later = old.properties.get(name), new.properties.get(name)
    if earlier is not None and later is not None:
        found = yield Pair(earlier, later)
        return found.under(*place)
    if earlier is not None:
        if new.is_open:
            return [Change("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", place)]
        covering = _covering(new, name)
        if covering is not None:
            return _covered((yield Pair(earlier, covering)), "PROPERTY_REMOVED", place)
        if isinstance(earlier, FalseNode):
            return [Change("PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", place)]
        return [Change("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", place)]
    assert later is not None
    changes: Changes = []
    if old.is_open:
        if isinstance(later, AnyNode):
            return [Change("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", place)]
    else:
        covering = _covering(old, name)
        if covering is not None:
            changes += _covered((yield Pair(covering, later)), "PROPERTY_ADDED", place)
    model = "OPEN" if old.is_open else "UNOPEN"
    if name not in new.required:
        needed = "OPTIONAL_PROPERTY"
    elif later.default is not NO_DEFAULT:
        needed = "REQUIRED_PROPERTY_WITH_DEFAULT"
    else:
        needed = "REQUIRED_PROPERTY"
    return [*changes, Change(f"{needed}_ADDED_TO_{model}_CONTENT_MODEL", place)]


def _covered(found: Found, name: str, place: tuple[str, ...]) -> Changes:
    """Of what only one of the two names, and the other has a schema for."""
    how = "IS" if found.compatible else "NOT"
    return [*found.under(*place), Change(f"{name}_{how}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", place)]


def _covering(node: ObjectNode, name: str) -> Node | None:
    """The schema of a property that is not named."""
    if node.patterns and node.compiled is None:
        compiled = ((_compiled(pattern), schema) for pattern, schema in node.patterns.items())
        node.compiled = [(pattern, schema) for pattern, schema in compiled if pattern is not None]
    for pattern, schema in node.compiled or ():
        if pattern.search(name) is not None:
            return schema
    return None if isinstance(node.additional, bool) else node.additional


def _compiled(pattern: str) -> Pattern | None:
    try:
        return compile_pattern(pattern, program_bytes_max=_PATTERN_BYTES_MAX)
    except PatternError:
        return None


def _dependency_changes(old: ObjectNode, new: ObjectNode) -> Work:
    changes: Changes = []
    for name in dict.fromkeys([*old.needed_names, *new.needed_names]):
        kind = _names_change(old.needed_names.get(name), new.needed_names.get(name))
        if kind:
            changes.append(Change(f"DEPENDENCY_ARRAY_{kind}", ("dependencies", name)))
    for name in dict.fromkeys([*old.needed_schemas, *new.needed_schemas]):
        place = ("dependencies", name)
        earlier, later = old.needed_schemas.get(name), new.needed_schemas.get(name)
        if later is None:
            changes.append(Change("DEPENDENCY_SCHEMA_REMOVED", place))
        elif earlier is None:
            changes.append(Change("DEPENDENCY_SCHEMA_ADDED", place))
        else:
            found = yield Pair(earlier, later)
            changes += found.under(*place)
    return changes


def _names_change(old: frozenset[str] | None, new: frozenset[str] | None) -> str:
    if new is None:
        return "REMOVED"
    if old is None:
        return "ADDED"
    if old == new:
        return ""
    if new > old:
        return "EXTENDED"
    return "NARROWED" if new < old else "CHANGED"


def _rest_changes(keyword: str, name: str, old: Node | bool, new: Node | bool) -> Work:
    """Of what is said about all that is not named."""
    if (old is False) != (new is False):
        return [Change(f"{name}_ADDED" if old is False else f"{name}_REMOVED", (keyword,))]
    if isinstance(old, Node) and isinstance(new, Node):
        found = yield Pair(old, new)
        return found.under(keyword)
    if isinstance(new, Node):
        return [Change(f"{name}_NARROWED", (keyword,))]
    return [Change(f"{name}_EXTENDED", (keyword,))] if isinstance(old, Node) else []


def array_changes(old: ArrayNode, new: ArrayNode) -> Work:
    changes: Changes = []
    if old.every is not None and new.every is not None:
        found = yield Pair(old.every, new.every)
        changes += found.under("items")
    elif old.every is not None:
        changes.append(Change("SCHEMA_REMOVED", ("items",)))
    elif new.every is not None:
        changes.append(Change("SCHEMA_ADDED", ("items",)))
    for index in range(max(len(old.items), len(new.items))):
        changes += yield from _item_changes(index, old, new)
    changes += yield from _rest_changes("additionalItems", "ADDITIONAL_ITEMS", old.additional, new.additional)
    changes += yield from _rest_changes(
        "unevaluatedItems", "UNEVALUATED_ITEMS", old.unevaluated, new.unevaluated
    )
    changes += limit_changes("maxItems", "MAX_ITEMS", old.max_items, new.max_items)
    changes += limit_changes("minItems", "MIN_ITEMS", old.min_items, new.min_items)
    changes += limit_changes("maxContains", "MAX_CONTAINS", old.max_contains, new.max_contains)
    changes += limit_changes("minContains", "MIN_CONTAINS", old.min_contains, new.min_contains)
    if old.unique != new.unique:
        changes.append(
            Change("UNIQUE_ITEMS_REMOVED" if old.unique else "UNIQUE_ITEMS_ADDED", ("uniqueItems",))
        )
    return changes


def _item_changes(index: int, old: ArrayNode, new: ArrayNode) -> Work:
    place = (f"items/{index}",)
    earlier = old.items[index] if index < len(old.items) else None
    later = new.items[index] if index < len(new.items) else None
    if earlier is not None and later is not None:
        found = yield Pair(earlier, later)
        return found.under(*place)
    if earlier is not None:
        if new.additional is True:
            return [Change("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", place)]
        if isinstance(new.additional, Node):
            return _covered((yield Pair(earlier, new.additional)), "ITEM_REMOVED", place)
        if isinstance(earlier, FalseNode):
            return [Change("ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", place)]
        return [Change("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", place)]
    assert later is not None
    if old.additional is True:
        if isinstance(later, AnyNode):
            return [Change("ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", place)]
        return [Change("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", place)]
    if isinstance(old.additional, Node):
        return _covered((yield Pair(old.additional, later)), "ITEM_ADDED", place)
    return [Change("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", place)]
