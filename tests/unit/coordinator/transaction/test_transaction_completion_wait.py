"""A producer's next request, while its former transaction still gets its markers, waits a moment for them."""

from collections.abc import Iterator

import pytest
from transaction_world import World

from moldau.common.protocol.errors import ErrorCode


@pytest.fixture
def world() -> Iterator[World]:
    world = World(completion_wait_ms=100)
    yield world
    world.close()


def test_the_next_partitions_are_added_when_the_last_marker_is_written(world: World) -> None:
    identity = world.begin()
    world.markers.hold = True
    assert world.end(identity, True, version=3).error == ErrorCode.NONE
    waiting = world.add(identity, [("wine", 0)])
    assert waiting.error is None
    world.markers.finish()
    assert waiting.error == ErrorCode.NONE
    assert world.state() == "Ongoing"
    assert world.transaction().partitions == {("wine", 0)}


def test_a_successor_waits_for_its_predecessors_markers(world: World) -> None:
    identity = world.begin()
    world.markers.hold = True
    assert world.end(identity, True, version=3).error == ErrorCode.NONE
    successor = world.init()
    assert successor.error is None
    world.markers.finish()
    assert successor.identity == (identity[0], identity[1] + 1)


def test_the_wait_ends_and_the_client_is_told_to_retry(world: World) -> None:
    identity = world.begin()
    world.markers.hold = True
    assert world.end(identity, True, version=3).error == ErrorCode.NONE
    waiting = world.add(identity, [("wine", 0)])
    world.advance(99)
    assert waiting.error is None
    world.advance(1)
    assert waiting.error == ErrorCode.CONCURRENT_TRANSACTIONS
    world.markers.finish()
    assert world.add(identity, [("wine", 0)]).error == ErrorCode.NONE


def test_who_waits_when_the_shard_is_given_up_is_told_so(world: World) -> None:
    identity = world.begin()
    world.markers.hold = True
    assert world.end(identity, True, version=3).error == ErrorCode.NONE
    waiting = world.add(identity, [("wine", 0)])
    world.run(lambda: world.coordinator.resigned(0))
    world.advance(100)
    assert waiting.error == ErrorCode.NOT_COORDINATOR


def test_who_gives_up_the_next_transaction_at_once_is_not_fenced(world: World) -> None:
    """A Java producer: commit, begin, send, and abort before anything was sent."""
    identity = world.begin()
    world.markers.hold = True
    identity = world.end(identity, True).identity
    waiting = world.end(identity, False)
    assert waiting.error is None
    world.markers.finish()
    assert waiting.identity == (identity[0], identity[1] + 1)
    assert world.state() == "CompleteAbort"


@pytest.mark.parametrize(
    ("committed", "told"), [(True, ErrorCode.NONE), (False, ErrorCode.INVALID_TXN_STATE)]
)
def test_a_repeated_end_waits_for_the_markers(world: World, committed: bool, told: ErrorCode) -> None:
    identity = world.begin()
    world.markers.hold = True
    world.end(identity, True)
    repeat = world.end(identity, committed)
    world.markers.finish()
    assert repeat.error == told
    assert world.state() == "CompleteCommit"


def test_an_end_of_version_1_does_not_wait(world: World) -> None:
    """Its epoch does not say which transaction is meant; by the time it is decided that could be the next."""
    identity = world.begin()
    world.markers.hold = True
    assert world.end(identity, True, version=3).error == ErrorCode.NONE
    assert world.end(identity, True, version=3).error == ErrorCode.CONCURRENT_TRANSACTIONS


def test_verification_alone_does_not_wait(world: World) -> None:
    identity = world.begin()
    world.markers.hold = True
    assert world.end(identity, True, version=3).error == ErrorCode.NONE
    assert world.verify(identity) == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_transaction_that_is_stuck_remembers_nobody_who_has_given_up(world: World) -> None:
    identity = world.begin()
    world.markers.hold = True
    assert world.end(identity, True, version=3).error == ErrorCode.NONE
    for _ in range(20):
        waiting = world.add(identity, [("wine", 0)])
        world.advance(100)
        assert waiting.error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert not any(shard._waiting for _, shard in world.coordinator.runtime.states())
