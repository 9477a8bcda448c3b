"""A producer's next request, while its former transaction still gets its markers, waits a moment for them."""

from collections.abc import Iterator

import pytest
from transaction_world import World

from moldau.protocol.errors import ErrorCode


@pytest.fixture
def world() -> Iterator[World]:
    world = World(patience_ms=100)
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


def test_patience_ends_and_the_client_is_told_to_come_back(world: World) -> None:
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
