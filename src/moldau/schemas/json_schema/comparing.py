"""How two JSON Schemas differ, as Confluent's registry sees it: kind by kind, each difference with its place.

The rules are asymmetric: `old` is what was written with, `new` is what is to be read with. A union's
alternatives are compared on trial: only trials that find nothing incompatible count.

The walk is a stack of generators. Each yields pairs of nodes that it needs to have compared and is sent what
was found, with places relative to the pair. So each pair is compared once, however many ways lead to it, and
the depth of the schemas is no recursion. A pair that is met again while it is compared is taken for
compatible. If that turns out wrong and the whole looks compatible, all is compared again, knowing that pair.

Confluent's registry stops at an earlier node that is met again, whatever it is compared with; here a
recursive schema that changes into another is noticed. It has no limit of work; here there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from moldau.schemas.effort import step
from moldau.schemas.json_schema.changes import Change, Changes, Found, Nested, Pair, Work
from moldau.schemas.json_schema.nodes import (
    AnyNode,
    ArrayNode,
    ConstNode,
    EnumNode,
    FalseNode,
    Node,
    NotNode,
    NumberNode,
    ObjectNode,
    ReferenceNode,
    StringNode,
    UnionNode,
)
from moldau.schemas.json_schema.objects import array_changes, object_changes
from moldau.schemas.json_schema.parts import (
    no_changes,
    not_changes,
    number_changes,
    string_changes,
    union_changes,
    value_changes,
)
from moldau.schemas.json_text import same
from moldau.schemas.schema import TooComplex

PAIRS_MAX = 200_000
"""More comparisons of two nodes are not made: a second of work or two. Schemas of people take thousands."""
CHANGES_MAX = 1_000
"""Of a part of a schema. Parts that are used in many ways would otherwise multiply what is told about
them."""

_NOTHING = Found((), True)
_REFUTED = Found((), False)
_Key = tuple[int, int]


def compare(old: Node, new: Node, compatible: frozenset[str]) -> Found:
    """The changes from `old` to `new`. TooComplex beyond the limit of work.

    `compatible`: the kinds that do not count as incompatible where alternatives are tried.
    """
    comparison = _Comparison(compatible)
    while True:
        found = comparison.run(Pair(old, new))
        if not found.compatible or not comparison.learned():
            return found


def flat(found: Found, only: Callable[[Change | Nested], bool] = lambda _: True) -> list[Change]:
    """The changes in order, the first CHANGES_MAX of them; `only`: parts of which nothing is wanted are
    left out."""
    changes: list[Change] = []
    waiting: list[Change | Nested] = [Nested((), found)]
    while waiting and len(changes) < CHANGES_MAX:
        each = waiting.pop()
        if not only(each):
            continue
        if isinstance(each, Change):
            changes.append(each)
        else:
            path = each.path
            waiting.extend(inner._replace(path=path + inner.path) for inner in reversed(each.found.changes))
    return changes


class _Comparison:
    def __init__(self, compatible: frozenset[str]) -> None:
        self._compatible = compatible
        self._count = 0
        self._known: dict[_Key, Found] = {}
        self._assumed: set[_Key] = set()
        """Pairs that were taken for compatible while they were compared."""
        self._refuted: set[_Key] = set()
        """Pairs that are known to be incompatible from an earlier run."""
        self._open: set[_Key] = set()

    def learned(self) -> bool:
        """Whether the last run took a pair for compatible that is not; then it has to be repeated."""
        wrong = {key for key in self._assumed if not self._known[key].compatible} - self._refuted
        self._refuted |= wrong
        self._known.clear()
        self._assumed.clear()
        return bool(wrong)

    def run(self, pair: Pair) -> Found:
        stack: list[tuple[_Key, Work]] = []
        answer = self._begin(pair, stack)
        while stack:
            key, work = stack[-1]
            try:
                wanted = next(work) if answer is None else work.send(answer)
            except StopIteration as done:
                stack.pop()
                self._open.discard(key)
                answer = self._known[key] = self._found(done.value)
            else:
                answer = self._begin(wanted, stack)
        assert answer is not None
        return answer

    def _found(self, changes: Changes) -> Found:
        compatible = all(
            each.kind in self._compatible if isinstance(each, Change) else each.found.compatible
            for each in changes
        )
        return Found(tuple(changes), compatible)

    def _begin(self, pair: Pair, stack: list[tuple[_Key, Work]]) -> Found | None:
        """What is known of a pair; else None, and its comparison is on the stack."""
        step()
        old, new = _target(pair.old), _target(pair.new)
        # Identities are keys: the nodes stay alive as long as their schemas.
        key = (id(old), id(new))
        if key in self._open:
            self._assumed.add(key)
            return _REFUTED if key in self._refuted else _NOTHING
        if key in self._known:
            return self._known[key]
        self._count += 1
        if self._count > PAIRS_MAX:
            raise TooComplex(f"comparing the two schemas takes more than {PAIRS_MAX} steps")
        self._open.add(key)
        stack.append((key, _changes(old, new)))
        return None


def _target(node: Node) -> Node:
    while isinstance(node, ReferenceNode):
        assert node.target is not None  # loaded, and no circle of references: `loading` has checked
        node = node.target
    return node


def _changes(old: Node, new: Node) -> Work:
    if isinstance(new, UnionNode) and not isinstance(old, UnionNode):
        found = yield from _into_union(old, new)
        if found is not None:
            return found
    elif isinstance(old, UnionNode) and not isinstance(new, UnionNode):
        found = yield from _out_of_union(old, new)
        if found is not None:
            return found
    if old.kind != new.kind:
        if (
            isinstance(old, FalseNode)
            or isinstance(new, AnyNode)
            or (old.connect_bytes and new.connect_bytes)
        ):
            return []
        return [Change("TYPE_CHANGED", ())]
    changes = _said(old, new)
    changes += yield from _rules(old)(old, new)
    return changes


def _said(old: Node, new: Node) -> Changes:
    changes: Changes = []
    if old.id != new.id:
        changes.append(Change("ID_CHANGED", ()))
    if old.title != new.title:
        changes.append(Change("TITLE_CHANGED", ()))
    if old.description != new.description:
        changes.append(Change("DESCRIPTION_CHANGED", ()))
    if not same(old.default, new.default):
        changes.append(Change("DEFAULT_CHANGED", ()))
    return changes


def _into_union(old: Node, new: UnionNode) -> Generator[Pair, Found, Changes | None]:
    """One of the alternatives takes what was written; None if none does."""
    if len(new.parts) == 1:
        found = yield Pair(old, new.parts[0])
        return found.under() if found.compatible else None
    if new.criterion != "allOf":
        for each in new.parts:
            found = yield Pair(old, each)
            if found.compatible:
                return [*found.under(), Change("SUM_TYPE_EXTENDED", ())]
    return None


def _out_of_union(old: UnionNode, new: Node) -> Generator[Pair, Found, Changes | None]:
    if len(old.parts) == 1:
        found = yield Pair(old.parts[0], new)
        return found.under() if found.compatible else None
    if old.criterion == "allOf":
        for each in old.parts:
            found = yield Pair(each, new)
            if found.compatible:
                return [*found.under(), Change("PRODUCT_TYPE_NARROWED", ())]
    return None


def _rules(node: Node) -> Callable[..., Work]:
    if isinstance(node, StringNode):
        return string_changes
    if isinstance(node, NumberNode):
        return number_changes
    if isinstance(node, (EnumNode, ConstNode)):
        return value_changes
    if isinstance(node, NotNode):
        return not_changes
    if isinstance(node, UnionNode):
        return union_changes
    if isinstance(node, ObjectNode):
        return object_changes
    return array_changes if isinstance(node, ArrayNode) else no_changes
