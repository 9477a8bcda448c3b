"""Types of a comparison: pairs of nodes still to compare, and the differences found. See comparing.py."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from moldau.schemas.json_schema.nodes import Node


class Change(NamedTuple):
    """A difference, compatible or not."""

    kind: str
    path: tuple[str, ...]


class Nested(NamedTuple):
    """What was found for an inner pair, at a place: shared, not copied, however many ways lead to the
    pair."""

    path: tuple[str, ...]
    found: Found


class Found(NamedTuple):
    """What comparing a pair found."""

    changes: tuple[Change | Nested, ...]
    compatible: bool

    def under(self, *steps: str) -> list[Change | Nested]:
        """The changes, seen from the outer pair."""
        return [Nested(steps, self)] if self.changes else []


class Pair(NamedTuple):
    """Two nodes to be compared."""

    old: Node
    new: Node


Changes = list[Change | Nested]
Work = Generator[Pair, Found, Changes]
"""The comparison of two nodes: yields the pairs that it needs, returns the changes."""
