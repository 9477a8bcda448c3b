"""A JSON Schema as nodes.

Keywords of a JSON Schema stand side by side, and each narrows on its own. Confluent's registry compares them
sorted by what they are about, so an object becomes one node if its keywords are about one thing ("type":
"string", "maxLength": 5), and otherwise an allOf of such nodes ("enum" beside "type").

A $ref is a node that names another, so nodes may form cycles. They compare by identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

NO_DEFAULT: Any = object()
"""The default of a schema that has none; None is the default null."""

Number = Any
"""An int or a Decimal."""


@dataclass(eq=False, slots=True)
class Node:
    """What every part of a schema may say about itself, which restricts no value."""

    kind: ClassVar[str] = ""
    id: str | None = field(default=None, kw_only=True)
    title: str | None = field(default=None, kw_only=True)
    description: str | None = field(default=None, kw_only=True)
    default: Any = field(default=NO_DEFAULT, kw_only=True)
    connect_bytes: bool = field(default=False, kw_only=True)
    """Kafka Connect's mark of bytes, whose type in JSON may change."""
    same_as: Any = field(default=None, kw_only=True)
    """Equal for parts with the same text: duplicates in a union count once."""


@dataclass(eq=False, slots=True)
class AnyNode(Node):
    """{} or true: every value."""

    kind: ClassVar[str] = "any"


@dataclass(eq=False, slots=True)
class FalseNode(Node):
    """false: no value."""

    kind: ClassVar[str] = "false"


@dataclass(eq=False, slots=True)
class BooleanNode(Node):
    kind: ClassVar[str] = "boolean"


@dataclass(eq=False, slots=True)
class NullNode(Node):
    kind: ClassVar[str] = "null"


@dataclass(eq=False, slots=True)
class StringNode(Node):
    kind: ClassVar[str] = "string"
    max_length: int | None = None
    min_length: int | None = None
    pattern: str | None = None


@dataclass(eq=False, slots=True)
class NumberNode(Node):
    kind: ClassVar[str] = "number"
    integer: bool = False
    maximum: Number = None
    minimum: Number = None
    exclusive_maximum: Number = None
    exclusive_minimum: Number = None
    multiple_of: Number = None


@dataclass(eq=False, slots=True)
class EnumNode(Node):
    kind: ClassVar[str] = "enum"
    values: frozenset[Any] = frozenset()
    """As `json_text.frozen` makes them."""


@dataclass(eq=False, slots=True)
class ConstNode(Node):
    kind: ClassVar[str] = "const"
    value: Any = None
    """As `json_text.frozen` makes it."""


@dataclass(eq=False, slots=True)
class NotNode(Node):
    kind: ClassVar[str] = "not"
    inner: Node | None = None


@dataclass(eq=False, slots=True)
class ConditionalNode(Node):
    """if, then, else: Confluent's registry compares nothing of them, nor do we."""

    kind: ClassVar[str] = "conditional"


@dataclass(eq=False, slots=True)
class UnionNode(Node):
    """allOf, anyOf, oneOf: `criterion`."""

    kind: ClassVar[str] = "union"
    criterion: str = "allOf"
    parts: list[Node] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class ReferenceNode(Node):
    kind: ClassVar[str] = "reference"
    target: Node | None = None


@dataclass(eq=False, slots=True)
class ObjectNode(Node):
    kind: ClassVar[str] = "object"
    properties: dict[str, Node] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    patterns: dict[str, Node] = field(default_factory=dict)
    additional: Node | bool = True
    unevaluated: Node | bool = True
    max_properties: int | None = None
    min_properties: int | None = None
    needed_names: dict[str, frozenset[str]] = field(default_factory=dict)
    """dependencies, dependentRequired: names that must be there if another is."""
    needed_schemas: dict[str, Node] = field(default_factory=dict)
    """dependencies, dependentSchemas."""
    compiled: list[tuple[Any, Node]] | None = None
    """The patterns, compiled when they are first needed."""

    @property
    def is_open(self) -> bool:
        """Any further property may have any value."""
        return not self.patterns and self.additional is True


@dataclass(eq=False, slots=True)
class ArrayNode(Node):
    kind: ClassVar[str] = "array"
    every: Node | None = None
    """Of all items."""
    items: list[Node] = field(default_factory=list)
    """Of the first ones, by place."""
    additional: Node | bool = True
    """Of those behind `items`."""
    unevaluated: Node | bool = True
    max_items: int | None = None
    min_items: int | None = None
    max_contains: int | None = None
    min_contains: int | None = None
    unique: bool = False
