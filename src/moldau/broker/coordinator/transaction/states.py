"""The states of a transactional id, and which may follow which: a table.

    Empty ──> Ongoing ──> PrepareCommit ──> CompleteCommit ──┐
      │          └──────> PrepareAbort ───> CompleteAbort ───┤
      └─────────────────────┘      ^                         │
                                   └─────────────────────────┘ (and to Empty, Ongoing)

A transaction is decided by the record that says Prepare; what follows only carries the decision out. From
Prepare the one way out is the Complete of the same kind, so a transaction cannot be decided twice. That a
transaction without partitions may be aborted (from Empty or Complete) came with transactions version 2
(KIP-890): the producer gets a new epoch from it.

Not here: who asks for a transition, and what it changes (init_producer.py, partitions.py, ending.py).
"""

from enum import IntEnum
from typing import NamedTuple


class TransactionState(IntEnum):
    """The states, numbered as in the records of `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


class StateRow(NamedTuple):
    """What is known of one state: its name in the protocol, and the states that may follow it."""

    state: TransactionState
    name: str
    followers: frozenset[TransactionState]


def _row(state: TransactionState, name: str, *followers: TransactionState) -> StateRow:
    return StateRow(state, name, frozenset(followers))


_AT_REST = (TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT)

STATES: tuple[StateRow, ...] = (
    _row(TransactionState.EMPTY, "Empty", *_AT_REST),
    _row(
        TransactionState.ONGOING,
        "Ongoing",
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    ),
    _row(TransactionState.PREPARE_COMMIT, "PrepareCommit", TransactionState.COMPLETE_COMMIT),
    _row(TransactionState.PREPARE_ABORT, "PrepareAbort", TransactionState.COMPLETE_ABORT),
    _row(TransactionState.COMPLETE_COMMIT, "CompleteCommit", *_AT_REST),
    _row(TransactionState.COMPLETE_ABORT, "CompleteAbort", *_AT_REST),
    # The last two are names that clients may filter by. Kafka passes through them in memory; no record says
    # so, and here an expired id is deleted and a fenced transaction is aborted in one step.
    _row(TransactionState.DEAD, "Dead"),
    _row(TransactionState.PREPARE_EPOCH_FENCE, "PrepareEpochFence"),
)

NAMES: dict[TransactionState, str] = {row.state: row.name for row in STATES}
BY_NAME: dict[str, TransactionState] = {row.name: row.state for row in STATES}
FOLLOWERS: dict[TransactionState, frozenset[TransactionState]] = {row.state: row.followers for row in STATES}

DECIDED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""Decided, and the markers are on their way."""

COMPLETE = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
"""Decided, and every partition has its marker."""

AT_REST = COMPLETE | {TransactionState.EMPTY}
"""No transaction is open: the id may expire."""
