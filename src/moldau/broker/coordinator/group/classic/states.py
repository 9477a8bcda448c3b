"""The states of a classic group and the transitions between them.

    Empty ──join──> PreparingRebalance ──all joined──> CompletingRebalance ──leader synced──> Stable
      ^                │    ^    ^                            │                                  │
      └── nobody left ─┘    │    └────── a member changed ────┘                                  │
                            └───────────────── a member changed, joined, left or died ───────────┘

`TRANSITIONS` is the one table of them: `Membership.enter` refuses any other, docs/classic-groups.md lists its
rows, and the tests see each of them happen. What a state means for a request stands with the request
(requests.py, join.py), what happens on the way in rebalance.py.
"""

from enum import Enum
from typing import NamedTuple


class ClassicState(Enum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Transition(NamedTuple):
    """One row: from which state to which, and upon what."""

    source: ClassicState
    target: ClassicState
    cause: str


_S = ClassicState

TRANSITIONS: tuple[Transition, ...] = (
    Transition(_S.EMPTY, _S.PREPARING_REBALANCE, "the first member joins"),
    Transition(_S.PREPARING_REBALANCE, _S.COMPLETING_REBALANCE, "all members have joined, or time is up"),
    Transition(_S.PREPARING_REBALANCE, _S.EMPTY, "no member is left"),
    Transition(_S.COMPLETING_REBALANCE, _S.STABLE, "the leader has sent the assignment"),
    Transition(_S.COMPLETING_REBALANCE, _S.PREPARING_REBALANCE, "a member joins, changes, leaves or expires"),
    Transition(_S.STABLE, _S.PREPARING_REBALANCE, "a member joins, changes, leaves or expires"),
    Transition(_S.EMPTY, _S.DEAD, "the broker no longer coordinates the group"),
    Transition(_S.PREPARING_REBALANCE, _S.DEAD, "the broker no longer coordinates the group"),
    Transition(_S.COMPLETING_REBALANCE, _S.DEAD, "the broker no longer coordinates the group"),
    Transition(_S.STABLE, _S.DEAD, "the broker no longer coordinates the group"),
)

FOLLOWERS: dict[ClassicState, frozenset[ClassicState]] = {
    state: frozenset(row.target for row in TRANSITIONS if row.source is state) for state in ClassicState
}
"""From each state, the states that may follow."""
