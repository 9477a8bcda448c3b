"""The largest matching of two sides, so that each alternative of one union stands for one of another's at
most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.schemas.effort import step


def largest_matching(edges: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Left -> right, for as many of the left as can have one of their own. `edges`: whom each may have.

    Grows one at a time along alternating paths (Kuhn's algorithm), with a breadth-first search, so that no
    union is a deep recursion. Takes the product of edges and left sides at worst.
    """
    left_of: dict[int, int] = {}
    for start in edges:
        _augment(start, edges, left_of)
    return {left: right for right, left in left_of.items()}


def _augment(start: int, edges: Mapping[int, Sequence[int]], left_of: dict[int, int]) -> None:
    reached_from: dict[int, int] = {}
    """Right -> the left that it was reached from."""
    waiting = [start]
    for left in waiting:
        step()
        for right in edges[left]:
            if right in reached_from:
                continue
            reached_from[right] = left
            if right not in left_of:
                _turn(right, start, reached_from, left_of)
                return
            waiting.append(left_of[right])


def _turn(right: int, start: int, reached_from: Mapping[int, int], left_of: dict[int, int]) -> None:
    """Give `right` to the left that it was reached from, and so on back to the start of the path."""
    while True:
        left = reached_from[right]
        before = next((each for each, owner in left_of.items() if owner == left), None)
        left_of[right] = left
        if left == start or before is None:
            return
        right = before
