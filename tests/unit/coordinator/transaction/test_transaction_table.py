"""Every state and every request: what each pair comes to.

A row names the state, and for each request the answer and the state after it. `CURRENT` requests come with
the producer's present epoch, `LAST` ones with the one before; "the same answer" to a repeat is checked here
too. Kafka 4.3 has the same table, save where init_producer.py says that it differs.
"""

from collections.abc import Callable

import pytest
from transaction_world import ID, World

from moldau.coordinator.transaction.states import FOLLOWERS, STATES, TransactionState
from moldau.protocol.errors import ErrorCode

Identity = tuple[int, int]


def _none(world: World) -> Identity:
    return (1000, 3)


def _empty(world: World) -> Identity:
    for _ in range(4):
        identity = world.init().identity
    return identity


def _ongoing(world: World) -> Identity:
    identity = _empty(world)
    assert world.verify(identity, add=True) == ErrorCode.NONE
    return identity


def _prepared(committed: bool) -> Callable[[World], Identity]:
    def arrange(world: World) -> Identity:
        world.markers.hold = True
        return world.end(_ongoing(world), committed).identity

    return arrange


def _complete(committed: bool) -> Callable[[World], Identity]:
    return lambda world: world.end(_ongoing(world), committed).identity


def _prepared_v1(committed: bool) -> Callable[[World], Identity]:
    def arrange(world: World) -> Identity:
        world.markers.hold = True
        return _complete_v1(committed)(world)

    return arrange


def _complete_v1(committed: bool) -> Callable[[World], Identity]:
    def arrange(world: World) -> Identity:
        identity = _empty(world)
        assert world.add(identity).error == ErrorCode.NONE
        assert world.end(identity, committed, version=4).error == ErrorCode.NONE
        return identity

    return arrange


ARRANGE: dict[str, Callable[[World], Identity]] = {
    "no such id": _none,
    "Empty": _empty,
    "Ongoing": _ongoing,
    "PrepareCommit": _prepared(True),
    "PrepareAbort": _prepared(False),
    "CompleteCommit": _complete(True),
    "CompleteAbort": _complete(False),
    "PrepareCommit, version 1": _prepared_v1(True),
    "PrepareAbort, version 1": _prepared_v1(False),
    "CompleteCommit, version 1": _complete_v1(True),
    "CompleteAbort, version 1": _complete_v1(False),
}


def _before(identity: Identity) -> Identity:
    return (identity[0], identity[1] - 1)


def _after(identity: Identity) -> Identity:
    return (identity[0], identity[1] + 1)


REQUESTS: dict[str, Callable[[World, Identity], ErrorCode | None]] = {
    "init": lambda world, identity: world.init().error,
    "init current": lambda world, identity: world.init(expected=identity).error,
    "init last": lambda world, identity: world.init(expected=_before(identity)).error,
    "init foreign": lambda world, identity: world.init(expected=(4711, 0)).error,
    "add current": lambda world, identity: world.add(identity, [("wine", 1)]).error,
    "add last": lambda world, identity: world.add(_before(identity), [("wine", 1)]).error,
    "offsets current": lambda world, identity: world.offsets(identity, "crew").error,
    "verify current": lambda world, identity: world.verify(identity),
    "verify last": lambda world, identity: world.verify(_before(identity)),
    "verify and add": lambda world, identity: world.verify(identity, [("wine", 1)], add=True),
    "v4 commit current": lambda world, identity: world.end(identity, True, version=4).error,
    "v4 abort current": lambda world, identity: world.end(identity, False, version=4).error,
    "v4 commit last": lambda world, identity: world.end(_before(identity), True, version=4).error,
    "v5 commit current": lambda world, identity: world.end(identity, True).error,
    "v5 abort current": lambda world, identity: world.end(identity, False).error,
    "v5 commit last": lambda world, identity: world.end(_before(identity), True).error,
    "v5 abort last": lambda world, identity: world.end(_before(identity), False).error,
    "v5 commit next": lambda world, identity: world.end(_after(identity), True).error,
    "v5 abort foreign": lambda world, identity: world.end((4711, 3), False).error,
}

OK = "NONE"
MAPPING = "INVALID_PRODUCER_ID_MAPPING"
FENCED = "PRODUCER_FENCED"
OLD = "INVALID_PRODUCER_EPOCH"
BUSY = "CONCURRENT_TRANSACTIONS"
STATE = "INVALID_TXN_STATE"
ABORTABLE = "TRANSACTION_ABORTABLE"

_STRANGER = dict.fromkeys(REQUESTS, (MAPPING, "no such id"))

TABLE: dict[str, dict[str, tuple[str, str]]] = {
    "no such id": {
        **_STRANGER,
        "init": (OK, "Empty"),
        "init current": (OK, "Empty"),
        "init last": (OK, "Empty"),
        "init foreign": (OK, "Empty"),
    },
    "Empty": {
        "init": (OK, "Empty"),
        "init current": (OK, "Empty"),
        "init last": (FENCED, "Empty"),
        "init foreign": (FENCED, "Empty"),
        "add current": (OK, "Ongoing"),
        "add last": (FENCED, "Empty"),
        "offsets current": (OK, "Ongoing"),
        "verify current": (ABORTABLE, "Empty"),
        "verify last": (OLD, "Empty"),
        "verify and add": (OK, "Ongoing"),
        "v4 commit current": (STATE, "Empty"),
        "v4 abort current": (STATE, "Empty"),
        "v4 commit last": (FENCED, "Empty"),
        "v5 commit current": (STATE, "Empty"),
        "v5 abort current": (OK, "CompleteAbort"),
        "v5 commit last": (FENCED, "Empty"),
        "v5 abort last": (FENCED, "Empty"),
        "v5 commit next": (FENCED, "Empty"),
        "v5 abort foreign": (MAPPING, "Empty"),
    },
    "Ongoing": {
        "init": (BUSY, "CompleteAbort"),
        "init current": (BUSY, "CompleteAbort"),
        "init last": (FENCED, "Ongoing"),
        "init foreign": (FENCED, "Ongoing"),
        "add current": (OK, "Ongoing"),
        "add last": (FENCED, "Ongoing"),
        "offsets current": (OK, "Ongoing"),
        "verify current": (OK, "Ongoing"),
        "verify last": (OLD, "Ongoing"),
        "verify and add": (OK, "Ongoing"),
        "v4 commit current": (OK, "CompleteCommit"),
        "v4 abort current": (OK, "CompleteAbort"),
        "v4 commit last": (FENCED, "Ongoing"),
        "v5 commit current": (OK, "CompleteCommit"),
        "v5 abort current": (OK, "CompleteAbort"),
        "v5 commit last": (FENCED, "Ongoing"),
        "v5 abort last": (FENCED, "Ongoing"),
        "v5 commit next": (FENCED, "Ongoing"),
        "v5 abort foreign": (MAPPING, "Ongoing"),
    },
}


def _decided(state: str, committed: bool, version: int) -> dict[str, tuple[str, str]]:
    """Prepare: everything has to wait, save what cannot be meant."""
    repeat = (BUSY, state)
    invalid = (STATE, state)
    fenced = (FENCED, state)
    as_v1 = version == 1
    return {
        "init": (BUSY, state),
        "init current": (BUSY, state),
        "init last": (BUSY, state),
        "init foreign": fenced,
        "add current": (BUSY, state),
        "add last": fenced,
        "offsets current": (BUSY, state),
        "verify current": (BUSY, state),
        "verify last": (OLD, state),
        "verify and add": (BUSY, state),
        "v4 commit current": repeat if committed else invalid,
        "v4 abort current": invalid if committed else repeat,
        "v4 commit last": fenced,
        "v5 commit current": fenced,
        "v5 abort current": fenced,
        "v5 commit last": fenced if as_v1 else repeat if committed else invalid,
        "v5 abort last": fenced if as_v1 else invalid if committed else repeat,
        "v5 commit next": fenced,
        "v5 abort foreign": (MAPPING, state),
    }


def _at_rest(state: str, committed: bool, version: int) -> dict[str, tuple[str, str]]:
    """Complete: a repeat gets the same answer, and the next transaction may begin."""
    repeat = (OK, state)
    invalid = (STATE, state)
    fenced = (FENCED, state)
    as_v1 = version == 1
    return {
        **TABLE["Empty"],
        "init last": fenced if as_v1 else (OK, "Empty"),
        "init foreign": fenced,
        "add last": fenced,
        "verify current": (ABORTABLE, state),
        "verify last": (OLD, state),
        "v4 commit current": repeat if committed else invalid,
        "v4 abort current": invalid if committed else repeat,
        "v4 commit last": fenced,
        "v5 commit current": invalid,
        "v5 commit last": fenced if as_v1 else repeat if committed else invalid,
        "v5 abort last": fenced if as_v1 else invalid if committed else repeat,
        "v5 commit next": fenced,
        "v5 abort foreign": (MAPPING, state),
    }


for _version, _suffix in ((2, ""), (1, ", version 1")):
    for _name, _committed in (("Commit", True), ("Abort", False)):
        TABLE[f"Prepare{_name}{_suffix}"] = _decided(f"Prepare{_name}", _committed, _version)
        TABLE[f"Complete{_name}{_suffix}"] = _at_rest(f"Complete{_name}", _committed, _version)


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("state", ARRANGE)
def test_every_pair(world: World, state: str, request_name: str) -> None:
    identity = ARRANGE[state](world)
    before = world.shard.transactions.get(ID)
    error = REQUESTS[request_name](world, identity)
    after = world.shard.transactions.get(ID)
    expected_error, expected_state = TABLE[state][request_name]
    name = "no such id" if after is None else world.state()
    assert ((error and error.name) or "NONE", name) == (expected_error, expected_state)
    if error not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS):
        assert after is before, "a refused request changes nothing"


@pytest.mark.parametrize("state", [state for state in ARRANGE if state != "no such id"])
@pytest.mark.parametrize("which", ["nobody", "current", "last"])
@pytest.mark.parametrize("kind", ["init", "commit", "abort"])
def test_an_identity_in_an_answer_is_the_one_that_is_believed_next(
    world: World, kind: str, which: str, state: str
) -> None:
    current = ARRANGE[state](world)
    before = world.transaction()
    identity = {"nobody": (-1, -1), "current": current, "last": _before(current)}[which]
    call = world.init(expected=identity) if kind == "init" else world.end(identity, kind == "commit")
    if call.error != ErrorCode.NONE:
        assert call.response.producer_id == call.response.producer_epoch == -1
        return
    after = world.transaction()
    assert call.identity == (after.producer_id, after.producer_epoch)
    assert call.identity >= (before.producer_id, before.producer_epoch), "epochs never go back"


def test_the_table_of_states_is_whole() -> None:
    assert [row.state for row in STATES] == list(TransactionState)
    assert set(TABLE) == set(ARRANGE)
    assert all(set(row) == set(REQUESTS) for row in TABLE.values())
    prepare = {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
    for state in prepare:
        assert len(FOLLOWERS[state]) == 1, "one way out of a decision"
