"""Text of a JSON Schema -> nodes. Refuses keywords whose values are of the wrong type, as Confluent's
registry does; ignores keywords that it does not know, and parts that no $ref reaches ("definitions").

Until draft 7, keywords beside a $ref have no meaning; since 2019-09 they narrow further. What "items" is for
places in an array until 2019-09, "prefixItems" is since 2020-12.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from moldau.schemas.effort import step
from moldau.schemas.json_schema.nodes import (
    NO_DEFAULT,
    AnyNode,
    ArrayNode,
    BooleanNode,
    ConditionalNode,
    ConstNode,
    EnumNode,
    FalseNode,
    Node,
    NotNode,
    NullNode,
    NumberNode,
    ObjectNode,
    ReferenceNode,
    StringNode,
    UnionNode,
)
from moldau.schemas.json_schema.references import Documents, base_within
from moldau.schemas.json_text import frozen, write
from moldau.schemas.schema import InvalidSchema, TooComplex

NODES_MAX = 400_000
LEVELS_MAX = 120
"""Schemas within one another, not counting through references."""

_MODERN = ("/2019-09/", "/2020-12/")
_CRITERIA = ("allOf", "anyOf", "oneOf")
_STRING = frozenset({"minLength", "maxLength", "pattern"})
_NUMBER = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_OBJECT = frozenset(
    {
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
    }
)
_ARRAY = frozenset(
    {
        "items",
        "prefixItems",
        "additionalItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
    }
)
_ABOUT = {"string": _STRING, "number": _NUMBER, "integer": _NUMBER, "object": _OBJECT, "array": _ARRAY}
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


class _Waiting(NamedTuple):
    """A reference whose target is not loaded yet."""

    node: ReferenceNode
    reference: str
    base: str


def load(value: Any, dependencies: Mapping[str, str]) -> Node:
    """The node of a whole schema. InvalidSchema with the place and the reason."""
    if not isinstance(value, (dict, bool)):
        raise InvalidSchema("a JSON Schema is an object, true or false")
    dialect = value.get("$schema") if isinstance(value, dict) else None
    loader = _Loader(Documents(value, dependencies), dialect if isinstance(dialect, str) else "")
    return loader.load_all(value)


class _Loader:
    def __init__(self, documents: Documents, dialect: str) -> None:
        self._documents = documents
        self._modern = any(each in dialect for each in _MODERN)
        self._draft_4 = "draft-04" in dialect
        self._waiting: list[_Waiting] = []
        self._targets: dict[int, Node] = {}
        """What references point at, by the identity of the part (the documents keep the parts)."""
        self._frozen: dict[int, Any] = {}
        self._count = self._level = 0

    def load_all(self, value: Any) -> Node:
        root = self._load(value, self._documents.base)
        self._targets[id(value)] = root
        references = self._waiting
        for each in references:  # grows while it is walked: no recursion through references
            place = self._documents.find(each.reference, each.base)
            target = self._targets.get(id(place.part)) if isinstance(place.part, dict) else None
            if target is None:
                if not isinstance(place.part, (dict, bool)):
                    raise InvalidSchema(f"$ref {each.reference!r} points at what is no schema")
                target = self._load(place.part, place.base)
                self._targets[id(place.part)] = target
            each.node.target = target
        _check_ends(references)
        return root

    def _load(self, part: Any, base: str) -> Node:
        step()
        self._count += 1
        if self._count > NODES_MAX:
            raise TooComplex(f"the schema has more than {NODES_MAX} parts")
        if isinstance(part, bool):
            return AnyNode(same_as=True) if part else FalseNode(same_as=False)
        if not isinstance(part, dict):
            raise InvalidSchema(f"a schema is an object, true or false, not {_shown(part)}")
        if self._level == LEVELS_MAX:
            raise InvalidSchema(f"there are more than {LEVELS_MAX} schemas within one another")
        base = base_within(part, base)
        self._level += 1
        nodes = self._nodes(part, base)
        self._level -= 1
        node = (
            nodes[0] if len(nodes) == 1 else UnionNode("allOf", _unions_first(nodes)) if nodes else AnyNode()
        )
        own = part.get("id" if self._draft_4 else "$id")
        node.id = own if isinstance(own, str) else None
        node.title, node.description = _text(part, "title"), _text(part, "description")
        node.default = part.get("default", NO_DEFAULT)
        node.connect_bytes = part.get("connect.type") == "bytes"
        return node

    def _nodes(self, part: dict[str, Any], base: str) -> list[Node]:
        """One node for each thing that the keywords of an object are about."""
        nodes: list[Node] = []
        if "$ref" in part:
            reference = part["$ref"]
            if not isinstance(reference, str):
                raise InvalidSchema(f"$ref is a string, not {_shown(reference)}")
            node = ReferenceNode()
            self._waiting.append(_Waiting(node, reference, base))
            nodes.append(node)
            if not self._modern:
                return nodes
        if "enum" in part:
            nodes.append(EnumNode(frozenset(map(frozen, _list(part, "enum")))))
        for criterion in _CRITERIA:
            if criterion in part:
                nodes.append(self._union(criterion, part, base))
        if "not" in part:
            nodes.append(NotNode(self._load(part["not"], base)))
        if "const" in part and not self._draft_4:
            nodes.append(ConstNode(frozen(part["const"])))
        about: frozenset[str] = frozenset()
        if "type" in part:
            types = part["type"] if isinstance(part["type"], list) else [part["type"]]
            typed = [self._typed(each, part, base) for each in types]
            nodes.append(typed[0] if not isinstance(part["type"], list) else UnionNode("anyOf", typed))
            about = frozenset().union(*(_ABOUT.get(each, ()) for each in types))
        # Keywords about another type than the one that is named restrict only values of that other type.
        for type_, keywords in (
            ("array", _ARRAY),
            ("object", _OBJECT),
            ("number", _NUMBER),
            ("string", _STRING),
        ):
            if not keywords.isdisjoint(part) and not keywords <= about:
                nodes.append(self._typed(type_, part, base))
        if not self._draft_4 and ("if" in part or "then" in part or "else" in part):
            nodes.append(ConditionalNode())
        return nodes

    def _union(self, criterion: str, part: dict[str, Any], base: str) -> Node:
        parts = []
        for each in _list(part, criterion):
            node = self._load(each, base)
            node.same_as = frozen(each, self._frozen)
            parts.append(node)
        return UnionNode(criterion, _unions_first(parts))

    def _typed(self, type_: Any, part: dict[str, Any], base: str) -> Node:
        if type_ not in _TYPES:
            raise InvalidSchema(f"unknown type: {_shown(type_)}")
        if type_ == "object":
            node = self._object(part, base)
        elif type_ == "array":
            node = self._array(part, base)
        elif type_ == "string":
            node = StringNode(_count(part, "maxLength"), _count(part, "minLength"), _pattern(part))
        elif type_ in ("number", "integer"):
            node = self._number(type_ == "integer", part)
        else:
            node = BooleanNode() if type_ == "boolean" else NullNode()
        node.same_as = type_
        return node

    def _number(self, integer: bool, part: dict[str, Any]) -> Node:
        maximum, minimum = _number(part, "maximum"), _number(part, "minimum")
        if self._draft_4:  # there, exclusive is a mark of the limit
            exclusive_maximum = maximum if part.get("exclusiveMaximum") is True else None
            exclusive_minimum = minimum if part.get("exclusiveMinimum") is True else None
        else:
            exclusive_maximum = _number(part, "exclusiveMaximum")
            exclusive_minimum = _number(part, "exclusiveMinimum")
        multiple = _number(part, "multipleOf")
        if multiple is not None and multiple <= 0:
            raise InvalidSchema("multipleOf is greater than 0")
        return NumberNode(integer, maximum, minimum, exclusive_maximum, exclusive_minimum, multiple)

    def _object(self, part: dict[str, Any], base: str) -> Node:
        node = ObjectNode(
            properties={name: self._load(each, base) for name, each in _object(part, "properties").items()},
            required=frozenset(_names(part, "required")),
            patterns={
                name: self._load(each, base) for name, each in _object(part, "patternProperties").items()
            },
            additional=self._rest(part, "additionalProperties", base),
            max_properties=_count(part, "maxProperties"),
            min_properties=_count(part, "minProperties"),
        )
        if self._modern:
            node.unevaluated = self._rest(part, "unevaluatedProperties", base)
        for name, each in _object(part, "dependencies").items():
            if isinstance(each, list):
                node.needed_names[name] = frozenset(_strings(each, "dependencies"))
            else:
                node.needed_schemas[name] = self._load(each, base)
        for name, each in _object(part, "dependentRequired").items():
            node.needed_names[name] = frozenset(_strings(each, "dependentRequired"))
        for name, each in _object(part, "dependentSchemas").items():
            node.needed_schemas[name] = self._load(each, base)
        return node

    def _array(self, part: dict[str, Any], base: str) -> Node:
        node = ArrayNode(
            max_items=_count(part, "maxItems"),
            min_items=_count(part, "minItems"),
            unique=_flag(part, "uniqueItems"),
        )
        items, rest = part.get("items", True), "additionalItems"
        if isinstance(items, list):
            node.items = [self._load(each, base) for each in items]
        elif self._modern and "prefixItems" in part:
            node.items = [self._load(each, base) for each in _list(part, "prefixItems")]
            rest = "items"
        elif "items" in part:
            node.every = self._load(items, base)
        node.additional = self._rest(part, rest, base)
        if self._modern:
            node.unevaluated = self._rest(part, "unevaluatedItems", base)
            node.max_contains, node.min_contains = _count(part, "maxContains"), _count(part, "minContains")
        return node

    def _rest(self, part: dict[str, Any], keyword: str, base: str) -> Node | bool:
        """Whether what is named nowhere may be there, or the schema that it must have."""
        rest = part.get(keyword, True)
        return rest if isinstance(rest, bool) else self._load(rest, base)


def _check_ends(references: list[_Waiting]) -> None:
    """InvalidSchema if a chain of references is a circle."""
    ends: set[int] = set()
    for each in references:
        chain = set()
        target: Node | None = each.node
        while isinstance(target, ReferenceNode) and id(target) not in ends:
            if id(target) in chain:
                raise InvalidSchema(f"$ref {each.reference!r} leads to itself and to no schema")
            chain.add(id(target))
            target = target.target
        ends |= chain


def _unions_first(nodes: list[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: not isinstance(node, UnionNode))


def _wrong(keyword: str, wanted: str, value: Any) -> InvalidSchema:
    return InvalidSchema(f"{keyword} is {wanted}, not {_shown(value)}")


def _list(part: dict[str, Any], keyword: str) -> list[Any]:
    value = part[keyword]
    if not isinstance(value, list):
        raise _wrong(keyword, "an array", value)
    return value


def _object(part: dict[str, Any], keyword: str) -> dict[str, Any]:
    value = part.get(keyword, {})
    if not isinstance(value, dict):
        raise _wrong(keyword, "an object", value)
    return value


def _names(part: dict[str, Any], keyword: str) -> list[str]:
    return _strings(part.get(keyword, []), keyword)


def _strings(value: Any, keyword: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _wrong(keyword, "an array of strings", value)
    return value


def _number(part: dict[str, Any], keyword: str) -> Any:
    value = part.get(keyword)
    if keyword in part and (isinstance(value, bool) or not isinstance(value, (int, float, Decimal))):
        raise _wrong(keyword, "a number", value)
    return Decimal(str(value)) if isinstance(value, float) else value


def _count(part: dict[str, Any], keyword: str) -> int | None:
    value = _number(part, keyword)
    if value is None:
        return None
    broken = isinstance(value, Decimal) and (value.adjusted() > 30 or value != value.to_integral_value())
    if broken or value < 0:
        raise _wrong(keyword, "a whole number that is not negative", value)
    return int(value)


def _flag(part: dict[str, Any], keyword: str) -> bool:
    value = part.get(keyword, False)
    if not isinstance(value, bool):
        raise _wrong(keyword, "true or false", value)
    return value


def _pattern(part: dict[str, Any]) -> str | None:
    value = part.get("pattern")
    if "pattern" in part and not isinstance(value, str):
        raise _wrong("pattern", "a string", value)
    return value


def _text(part: dict[str, Any], keyword: str) -> str | None:
    value = part.get(keyword)
    if keyword in part and not isinstance(value, str):
        raise _wrong(keyword, "a string", value)
    return value


def _shown(value: Any) -> str:
    text = write(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
