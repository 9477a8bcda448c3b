"""Which operations may be committed together.

An operation reads the state, decides on records and answers. Those of one transaction all read the state from
before it, so they must not depend on each other: an operation names what it depends on (`keys`: a subject, a
schema), and of two that share a key the later one waits for the next round. One that depends on everything
(deletions, settings) has no keys and goes alone. Order is kept between operations that share a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from moldau.services.registry.state.records import Record

OPERATIONS_MAX = 500


class Decision(NamedTuple):
    """What an operation wants written, and its answer once that is done."""

    records: list[Record]
    answer: Any


@dataclass(eq=False, slots=True)
class Operation:
    """A write that waits for its turn."""

    decide: Callable[[], Decision]
    """Called on the writer's thread, perhaps several times. RegistryProblem refuses."""
    keys: frozenset[str] | None
    """What it depends on; None: everything."""
    deadline: float
    """By time.monotonic, when nobody waits any more."""
    repeatable: bool = True
    """Whether to decide again is right although the first decision may have been committed."""
    result: Future[Any] = field(default_factory=Future)


def next_round(waiting: Iterable[Operation]) -> list[Operation]:
    """The operations, of those that wait in this order, that go together next."""
    chosen: list[Operation] = []
    taken: set[str] = set()
    for operation in waiting:
        if operation.keys is None:
            return chosen or [operation]
        if taken.isdisjoint(operation.keys):
            chosen.append(operation)
            if len(chosen) == OPERATIONS_MAX:
                return chosen
        taken |= operation.keys
    return chosen
