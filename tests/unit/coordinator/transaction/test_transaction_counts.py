"""What monitoring is told: how transactions ended, which are undecided, and whether anybody else may know."""

from transaction_world import ID, World

from moldau.common.protocol.errors import ErrorCode


def test_every_end_is_counted_once_by_how_it_came_about(world: World) -> None:
    identity = world.begin()
    identity = world.end(identity, True).identity
    world.verify(identity, add=True)
    world.end(identity, False)
    assert world.coordinator.ended == {"committed": 1, "aborted": 1}
    world.begin()
    world.advance(60_000)
    assert world.coordinator.ended["timed-out"] == 1
    world.begin()
    assert world.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.coordinator.ended == {"committed": 1, "aborted": 1, "timed-out": 1, "fenced": 1}


def test_an_end_that_was_not_written_down_is_not_counted(world: World) -> None:
    identity = world.begin()
    world.log.fail = ErrorCode.NOT_ENOUGH_REPLICAS
    world.end(identity, True)
    assert world.coordinator.ended == {}


def test_an_abort_of_nothing_ends_no_transaction(world: World) -> None:
    identity = world.init().identity
    assert world.end(identity, False).error == ErrorCode.NONE
    assert world.coordinator.ended == {}


def test_a_transaction_is_undecided_until_every_partition_knows_its_end(world: World) -> None:
    identity = world.begin()
    assert [each.transactional_id for each in world.coordinator.undecided()] == [ID]
    world.markers.hold = True
    world.end(identity, True)
    world.settle()
    assert [each.transactional_id for each in world.coordinator.undecided()] == [ID]
    world.markers.finish()
    world.settle()
    assert list(world.coordinator.undecided()) == []


def test_all_is_known_only_while_every_shard_serves(world: World) -> None:
    assert world.coordinator.knows_all()
    world.coordinator.resigned(0)
    assert not world.coordinator.knows_all()
