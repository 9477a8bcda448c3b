"""A coordinator that may have been deposed without knowing it tells nobody anything final before a record is
committed; alone, it answers at once."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from transaction_world import ID, World

from moldau.common.protocol.errors import ErrorCode

NEW = (5000, 0)
"""A producer that nobody here knows."""

FINAL: dict[str, tuple[Callable[[World, Any], Any], ErrorCode]] = {
    "a commit said again": (lambda world, last: world.end(last, True, version=1), ErrorCode.NONE),
    "an abort of what is committed": (
        lambda world, last: world.end(last, False, version=1),
        ErrorCode.INVALID_TXN_STATE,
    ),
    "a fenced end": (
        lambda world, last: world.end((last[0], last[1] + 1), True, version=1),
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
    "a fenced addition": (
        lambda world, last: world.add((last[0], last[1] + 1)),
        ErrorCode.PRODUCER_FENCED,
    ),
    "a fenced InitProducerId": (lambda world, last: world.init(expected=NEW), ErrorCode.PRODUCER_FENCED),
    "an id that is not known": (
        lambda world, last: world.end(NEW, True, transactional_id="other"),
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ),
}


@pytest.fixture
def deposed() -> Iterator[World]:
    world = World(replicas=(0, 1, 2), transaction_version=1)
    yield world
    world.close()


def committed(world: World) -> tuple[int, int]:
    """A producer whose transaction is committed."""
    identity = world.init().identity
    assert world.add(identity).error == ErrorCode.NONE
    assert world.end(identity, True, version=1).error == ErrorCode.NONE
    assert world.state() == "CompleteCommit"
    return identity


@pytest.mark.parametrize("what", FINAL)
def test_a_final_answer_waits_for_a_record(deposed: World, what: str) -> None:
    ask, error = FINAL[what]
    last = committed(deposed)
    before = deposed.transaction()
    deposed.log.hold = True
    told = ask(deposed, last)
    assert told.error is None
    deposed.run(deposed.log.finish)
    assert told.error == error
    assert deposed.transaction() is before
    assert "other" not in deposed.shard.transactions
    deposed.log.hold = False
    deposed.restart()
    assert deposed.transaction() == before, "nothing has changed in the log"


@pytest.mark.parametrize("what", FINAL)
def test_without_the_record_the_producer_looks_for_its_coordinator(deposed: World, what: str) -> None:
    ask, _ = FINAL[what]
    last = committed(deposed)
    deposed.log.fail = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask(deposed, last).error == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("what", FINAL)
def test_a_coordinator_without_rivals_writes_nothing_more(what: str) -> None:
    ask, error = FINAL[what]
    world = World(transaction_version=1)
    last = committed(world)
    world.log.hold = True
    assert ask(world, last).error == error
    world.close()


def test_a_refused_verification_waits_and_a_granted_one_does_not(deposed: World) -> None:
    identity = deposed.begin()
    deposed.log.hold = True
    assert deposed.verify(identity) == ErrorCode.NONE
    assert deposed.verify(identity, [("wine", 0)]) is None
    assert len(deposed.log.in_flight) == 1


def test_what_the_producer_asks_again_is_answered_at_once(deposed: World) -> None:
    identity = deposed.begin()
    deposed.markers.hold = True
    assert deposed.end(identity, True, version=1).error == ErrorCode.NONE
    deposed.log.hold = True
    assert deposed.end(identity, True, version=1).error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert deposed.verify(identity) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert deposed.shard.transactions[ID].state.name == "PREPARE_COMMIT"
