"""The differences of two nodes of one kind: strings, numbers, enums, not, unions. See comparing.py."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from moldau.schemas.json_schema.changes import Change, Changes, Pair, Work
from moldau.schemas.json_schema.matching import largest_matching
from moldau.schemas.json_schema.nodes import (
    ConstNode,
    EnumNode,
    Node,
    NotNode,
    NumberNode,
    StringNode,
    UnionNode,
)
from moldau.schemas.schema import TooComplex

ALTERNATIVES_MAX = 40_000
"""The product of the alternatives of two unions; those that are equal do not count."""
_ZEROS_MAX = 5_000


def no_changes(old: Node, new: Node) -> Work:
    """Of kinds that have nothing to compare."""
    return []
    yield


def limit_changes(keyword: str, name: str, old: Any, new: Any) -> Iterator[Change]:
    """The change of a limit: `name`_ADDED, _REMOVED, _INCREASED or _DECREASED."""
    if old is None and new is not None:
        yield Change(f"{name}_ADDED", (keyword,))
    elif old is not None and new is None:
        yield Change(f"{name}_REMOVED", (keyword,))
    elif old is not None and new > old:
        yield Change(f"{name}_INCREASED", (keyword,))
    elif old is not None and new < old:
        yield Change(f"{name}_DECREASED", (keyword,))


def string_changes(old: StringNode, new: StringNode) -> Work:
    changes: Changes = [*limit_changes("maxLength", "MAX_LENGTH", old.max_length, new.max_length)]
    changes += limit_changes("minLength", "MIN_LENGTH", old.min_length, new.min_length)
    # Patterns are compared as texts: what one matches and the other does not is not decided.
    if old.pattern is None and new.pattern is not None:
        changes.append(Change("PATTERN_ADDED", ("pattern",)))
    elif old.pattern is not None and new.pattern is None:
        changes.append(Change("PATTERN_REMOVED", ("pattern",)))
    elif old.pattern != new.pattern:
        changes.append(Change("PATTERN_CHANGED", ("pattern",)))
    return changes
    yield


def number_changes(old: NumberNode, new: NumberNode) -> Work:
    changes: Changes = [*limit_changes("maximum", "MAXIMUM", old.maximum, new.maximum)]
    changes += limit_changes("minimum", "MINIMUM", old.minimum, new.minimum)
    changes += limit_changes(
        "exclusiveMaximum", "EXCLUSIVE_MAXIMUM", old.exclusive_maximum, new.exclusive_maximum
    )
    changes += limit_changes(
        "exclusiveMinimum", "EXCLUSIVE_MINIMUM", old.exclusive_minimum, new.exclusive_minimum
    )
    if old.multiple_of != new.multiple_of:
        changes.append(Change(_multiple_change(old.multiple_of, new.multiple_of), ("multipleOf",)))
    if old.integer != new.integer:
        changes.append(Change("TYPE_EXTENDED" if old.integer else "TYPE_NARROWED", ()))
    return changes
    yield


def _multiple_change(old: Any, new: Any) -> str:
    if old is None:
        return "MULTIPLE_OF_ADDED"
    if new is None:
        return "MULTIPLE_OF_REMOVED"
    if _is_multiple(new, old):
        return "MULTIPLE_OF_EXPANDED"
    return "MULTIPLE_OF_REDUCED" if _is_multiple(old, new) else "MULTIPLE_OF_CHANGED"


def _is_multiple(value: Any, of: Any) -> bool:
    (_, digits, exponent), (_, of_digits, of_exponent) = Decimal(value).as_tuple(), Decimal(of).as_tuple()
    assert isinstance(exponent, int)
    assert isinstance(of_exponent, int)
    lowest = min(exponent, of_exponent)
    if max(exponent, of_exponent) - lowest > _ZEROS_MAX:
        return False  # not decided: the numbers would be written out
    whole, of_whole = int("".join(map(str, digits))), int("".join(map(str, of_digits)))
    dividend: int = whole * 10 ** (exponent - lowest)
    divisor: int = of_whole * 10 ** (of_exponent - lowest)
    return dividend % divisor == 0


def value_changes(old: EnumNode | ConstNode, new: EnumNode | ConstNode) -> Work:
    if isinstance(old, ConstNode) and isinstance(new, ConstNode):
        return [] if old.value == new.value else [Change("ENUM_ARRAY_CHANGED", ("const",))]
    assert isinstance(old, EnumNode)
    assert isinstance(new, EnumNode)
    if old.values == new.values:
        return []
    if new.values >= old.values:
        return [Change("ENUM_ARRAY_EXTENDED", ("enum",))]
    if new.values <= old.values:
        return [Change("ENUM_ARRAY_NARROWED", ("enum",))]
    return [Change("ENUM_ARRAY_CHANGED", ("enum",))]
    yield


def not_changes(old: NotNode, new: NotNode) -> Work:
    assert old.inner is not None
    assert new.inner is not None
    # What must not match may become less: compared the other way round.
    found = yield Pair(new.inner, old.inner)
    return [Change("NOT_TYPE_NARROWED" if found.compatible else "NOT_TYPE_EXTENDED", ("not",))]


def union_changes(old: UnionNode, new: UnionNode) -> Work:
    changes: Changes = []
    if old.criterion != new.criterion:
        if not _criterion_extended(old, new):
            return [Change("COMBINED_TYPE_CHANGED", ())]
        changes.append(Change("COMBINED_TYPE_EXTENDED", ()))
    olds, news = _distinct(old.parts), _distinct(new.parts)
    if len(olds) < len(news):
        changes.append(
            Change("PRODUCT_TYPE_EXTENDED" if new.criterion == "allOf" else "SUM_TYPE_EXTENDED", ())
        )
    elif len(olds) > len(news):
        changes.append(
            Change("PRODUCT_TYPE_NARROWED" if old.criterion == "allOf" else "SUM_TYPE_NARROWED", ())
        )
    matched, count = yield from _matched(old.criterion, olds, news)
    changes += matched
    if count < min(len(olds), len(news)):
        changes.append(Change("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ()))
    return changes


def _criterion_extended(old: UnionNode, new: UnionNode) -> bool:
    old_single, new_single = len(old.parts) == 1, len(new.parts) == 1
    return (
        new.criterion == "anyOf"
        or (old_single and (new_single or new.criterion == "oneOf"))
        or (new_single and old.criterion == "allOf")
    )


def _distinct(parts: list[Node]) -> list[Node]:
    """Parts without those whose text is another's."""
    found: dict[Any, Node] = {}
    for each in parts:
        found.setdefault(id(each) if each.same_as is None else ("same", each.kind, each.same_as), each)
    return list(found.values())


def _matched(criterion: str, olds: list[Node], news: list[Node]) -> Any:
    """What changed in the alternatives that stand for one another, and how many those are.

    Those with the same text are taken for one another first, if they are compatible: a union of hundreds of
    which few changed takes hundreds of comparisons, not their square.
    """
    changes: Changes = []
    by_text = {(each.kind, each.same_as): index for index, each in enumerate(news)}
    left, right, count = [], set(range(len(news))), 0
    for index, each in enumerate(olds):
        twin = by_text.get((each.kind, each.same_as)) if each.same_as is not None else None
        if twin is not None:
            found = yield Pair(each, news[twin])
            if found.compatible:
                changes += found.under(f"{criterion}/{index}")
                right.discard(twin)
                count += 1
                continue
        left.append(index)
    if len(left) * len(right) > ALTERNATIVES_MAX:
        raise TooComplex(
            f"comparing unions of {len(left)} and {len(right)} changed alternatives takes too long"
        )
    edges: dict[int, list[int]] = {}
    tried: dict[tuple[int, int], Changes] = {}
    for index in left:
        edges[index] = []
        for other in sorted(right):
            found = yield Pair(olds[index], news[other])
            if found.compatible:
                edges[index].append(other)
                tried[index, other] = found.under(f"{criterion}/{index}")
    for pair in largest_matching(edges).items():
        changes += tried[pair]
        count += 1
    return changes, count
