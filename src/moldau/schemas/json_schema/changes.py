"""What the parts of a comparison exchange: pairs to be compared, and what was found. See comparing.py."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from moldau.schemas.json_schema.nodes import Node


class Change(NamedTuple):
    """A difference, compatible or not."""

    kind: str
    path: tuple[str, ...]


class Found(NamedTuple):
    """What comparing a pair found."""

    changes: tuple[Change, ...]
    compatible: bool

    def under(self, *steps: str) -> list[Change]:
        return [Change(kind, steps + path) for kind, path in self.changes]


class Pair(NamedTuple):
    """Two nodes to be compared."""

    old: Node
    new: Node


Work = Generator[Pair, Found, list[Change]]
"""The comparison of two nodes: yields the pairs that it needs, returns the changes."""
