"""The states of a classic group, as a table.

    Empty ──join──> PreparingRebalance ──all joined──> CompletingRebalance ──leader synced──> Stable
      ^                │    ^    ^                            │                                  │
      └── nobody left ─┘    │    └────── a member changed ────┘                                  │
                            └───────────────── a member changed, joined, left or died ───────────┘

Any state may become Dead: the group is deleted, or this broker no longer coordinates it.
"""

from enum import Enum


class ClassicState(Enum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = ClassicState

TRANSITIONS: dict[ClassicState, frozenset[ClassicState]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    _S.PREPARING_REBALANCE: frozenset({_S.EMPTY, _S.COMPLETING_REBALANCE, _S.DEAD}),
    _S.COMPLETING_REBALANCE: frozenset({_S.STABLE, _S.PREPARING_REBALANCE, _S.DEAD}),
    _S.STABLE: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    _S.DEAD: frozenset({_S.DEAD}),
}
"""From each state, the states that may follow."""
