"""Every state and every request: what each pair comes to.

A row names the state, and for each request and each producer that it may name (WHO) the answer and the state
after it. Nothing waits here. Kafka 4.3.1 has the same table, save for what
docs/decisions/transaction-coordinator.md tells; tests/clients/test_transactions_refused.py asks a live one.
"""

from collections.abc import Callable

import pytest
from transaction_world import ID, World

from moldau.broker.coordinator.transaction.states import FOLLOWERS, STATES, TransactionState
from moldau.common.protocol.errors import ErrorCode

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


def _ended(committed: bool) -> Callable[[World], Identity]:
    return lambda world: world.end(_ongoing(world), committed).identity


def _prepared_v1(committed: bool) -> Callable[[World], Identity]:
    def arrange(world: World) -> Identity:
        world.markers.hold = True
        return _ended_v1(committed)(world)

    return arrange


def _ended_v1(committed: bool) -> Callable[[World], Identity]:
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
    "CompleteCommit": _ended(True),
    "CompleteAbort": _ended(False),
    "PrepareCommit, version 1": _prepared_v1(True),
    "PrepareAbort, version 1": _prepared_v1(False),
    "CompleteCommit, version 1": _ended_v1(True),
    "CompleteAbort, version 1": _ended_v1(False),
}


def _before(identity: Identity) -> Identity:
    return (identity[0], identity[1] - 1)


WHO: dict[str, Callable[[Identity], Identity]] = {
    "nobody": lambda present: (-1, -1),
    "present": lambda present: present,
    "last": _before,
    "older": lambda present: (present[0], present[1] - 2),
    "next": lambda present: (present[0], present[1] + 1),
    "newer": lambda present: (present[0], present[1] + 7),
    "foreign": lambda present: (4711, present[1]),
}
"""Which producer id and epoch a request names; `nobody` is InitProducerId's alone."""

REQUESTS: dict[str, Callable[[World, Identity], ErrorCode | None]] = {
    "init": lambda world, identity: world.init(expected=identity).error,
    "add": lambda world, identity: world.add(identity, [("wine", 1)]).error,
    "offsets": lambda world, identity: world.offsets(identity, "crew").error,
    "verify": lambda world, identity: world.verify(identity),
    "verify and add": lambda world, identity: world.verify(identity, [("wine", 1)], add=True),
    "v4 commit": lambda world, identity: world.end(identity, True, version=4).error,
    "v4 abort": lambda world, identity: world.end(identity, False, version=4).error,
    "v5 commit": lambda world, identity: world.end(identity, True).error,
    "v5 abort": lambda world, identity: world.end(identity, False).error,
}
PAIRS = [(name, who) for name in REQUESTS for who in WHO if who != "nobody" or name == "init"]

OK = "NONE"
MAPPING = "INVALID_PRODUCER_ID_MAPPING"
FENCED = "PRODUCER_FENCED"
OLD = "INVALID_PRODUCER_EPOCH"
BUSY = "CONCURRENT_TRANSACTIONS"
STATE = "INVALID_TXN_STATE"
ABORTABLE = "TRANSACTION_ABORTABLE"

OTHERS: dict[str, dict[str, str]] = {
    "init": dict.fromkeys(("last", "older", "next", "newer", "foreign"), FENCED),
    **{
        name: {**dict.fromkeys(("last", "older", "next", "newer"), FENCED), "foreign": MAPPING}
        for name in REQUESTS
        if name != "init"
    },
    # The leader that asks tells its producer the code that a producer knows.
    **{
        name: {**dict.fromkeys(("last", "older", "next", "newer"), OLD), "foreign": MAPPING}
        for name in ("verify", "verify and add")
    },
}
"""Who is not the present producer, unless the tables below say otherwise."""

Row = dict[tuple[str, str], tuple[str, str]]
"""(request, who) -> the answer, and the state after it."""


def _row(state: str, present: dict[str, tuple[str, str]], special: Row) -> Row:
    others = {(name, who): (error, state) for name, row in OTHERS.items() for who, error in row.items()}
    return {**others, **{(name, "present"): answer for name, answer in present.items()}, **special}


def _begins(state: str) -> dict[str, tuple[str, str]]:
    """The present producer's requests to an id at rest."""
    return {
        "init": (OK, "Empty"),
        "add": (OK, "Ongoing"),
        "offsets": (OK, "Ongoing"),
        "verify": (ABORTABLE, state),
        "verify and add": (OK, "Ongoing"),
        "v4 commit": (STATE, state),
        "v4 abort": (STATE, state),
        "v5 commit": (STATE, state),
        "v5 abort": (OK, "CompleteAbort"),
    }


TABLE: dict[str, Row] = {
    "no such id": {
        (name, who): (OK, "Empty") if name == "init" else (MAPPING, "no such id") for name, who in PAIRS
    },
    "Empty": _row("Empty", _begins("Empty"), {("init", "nobody"): (OK, "Empty")}),
    "Ongoing": _row(
        "Ongoing",
        {
            "init": (BUSY, "CompleteAbort"),
            "add": (OK, "Ongoing"),
            "offsets": (OK, "Ongoing"),
            "verify": (OK, "Ongoing"),
            "verify and add": (OK, "Ongoing"),
            "v4 commit": (OK, "CompleteCommit"),
            "v4 abort": (OK, "CompleteAbort"),
            "v5 commit": (OK, "CompleteCommit"),
            "v5 abort": (OK, "CompleteAbort"),
        },
        {("init", "nobody"): (BUSY, "CompleteAbort")},
    ),
}


def _decided(state: str) -> Row:
    """Prepare: whoever may be the next producer has to wait; who names the wrong one with an end of version 1
    or asks for verification is told so."""
    told_at_once = ("verify", "v4 commit", "v4 abort")
    return {
        (name, who): (
            OTHERS[name][who] if name in told_at_once and who in OTHERS[name] else BUSY,
            state,
        )
        for name, who in PAIRS
    }


def _complete(state: str, *, new_epoch: bool) -> Row:
    """A repeat gets the same answer, and the next transaction may begin."""
    committed = state == "CompleteCommit"
    repeated = {"commit": OK if committed else STATE, "abort": STATE if committed else OK}
    special: Row = {("init", "nobody"): (OK, "Empty")}
    special |= {(f"v4 {kind}", "present"): (error, state) for kind, error in repeated.items()}
    if new_epoch:
        special[("init", "last")] = (OK, "Empty")
        special |= {(f"v5 {kind}", "last"): (error, state) for kind, error in repeated.items()}
        if not committed:
            special[("v5 commit", "last")] = (FENCED, state)  # KAFKA-20785; Kafka 4.3 says INVALID_TXN_STATE
    return _row(state, _begins(state), special)


for _suffix, _new_epoch in (("", True), (", version 1", False)):
    for _name in ("Commit", "Abort"):
        TABLE[f"Prepare{_name}{_suffix}"] = _decided(f"Prepare{_name}")
        TABLE[f"Complete{_name}{_suffix}"] = _complete(f"Complete{_name}", new_epoch=_new_epoch)


@pytest.mark.parametrize(("request_name", "who"), PAIRS)
@pytest.mark.parametrize("state", ARRANGE)
def test_every_pair(world: World, state: str, request_name: str, who: str) -> None:
    present = ARRANGE[state](world)
    before = world.shard.transactions.get(ID)
    error = REQUESTS[request_name](world, WHO[who](present))
    after = world.shard.transactions.get(ID)
    expected_error, expected_state = TABLE[state][request_name, who]
    name = "no such id" if after is None else world.state()
    assert ((error and error.name) or "NONE", name) == (expected_error, expected_state)
    if error not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS) or state.startswith("Prepare"):
        assert after is before, "a refused request changes nothing"


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", [name for name in ARRANGE if name.startswith("Prepare")])
def test_the_present_producer_is_never_fenced_by_its_last_end(
    world: World, state: str, committed: bool, version: int
) -> None:
    """franz-go, which ends the next transaction at once, and a repeat that has crossed its answer."""
    present = ARRANGE[state](world)
    ended = world.transaction().client_version >= 2
    assert world.end(present, committed, version=version).error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.add(present, version=3).error == ErrorCode.CONCURRENT_TRANSACTIONS
    world.markers.hold = False
    world.markers.finish()
    world.settle()
    assert world.state().startswith("Complete")
    if ended:
        assert world.end(present, False).identity == (present[0], present[1] + 1)
    assert world.init().error == ErrorCode.NONE


def test_a_commit_after_the_coordinators_own_abort_is_fenced(world: World) -> None:
    """KAFKA-20785: a transaction that has timed out; its producer's commit was on its way."""
    identity = _ongoing(world)
    world.advance(world.transaction().timeout_ms)
    assert world.state() == "CompleteAbort"
    assert world.end(identity, True).error == ErrorCode.PRODUCER_FENCED
    assert world.end(identity, False).identity == (identity[0], identity[1] + 1), "an abort is what happened"


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
    assert all(set(row) == set(PAIRS) for row in TABLE.values())
    prepare = {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
    for state in prepare:
        assert len(FOLLOWERS[state]) == 1, "one way out of a decision"
