"""Markers: what is tried again, what is dropped, and what a late answer may not touch."""

from collections import deque
from typing import Any

import pytest
from transaction_world import BEER, World

from moldau.common.protocol.errors import ErrorCode

PASSING = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


@pytest.mark.parametrize("error_code", PASSING)
def test_an_error_that_passes_is_tried_again(world: World, error_code: int) -> None:
    identity = world.begin()
    world.markers.refuse["beer", 1] = deque([error_code] * 3)
    assert world.end(identity, True).error == ErrorCode.NONE
    assert world.state() == "PrepareCommit"
    world.advance(10_000)
    assert world.state() == "CompleteCommit"
    assert [world.markers.of(partition) for partition in BEER] == [[(1000, 1, True)]] * 2
    assert [partitions for _, partitions in world.markers.attempts] == [list(BEER), *[[("beer", 1)]] * 3]


def test_attempts_come_slower_and_slower_but_never_end(world: World) -> None:
    identity = world.begin()
    world.markers.refuse["beer", 1] = deque([ErrorCode.KAFKA_STORAGE_ERROR] * 10_000)
    world.end(identity, False)
    world.advance(1000)
    first = len(world.markers.attempts)
    world.advance(600_000)
    later = len(world.markers.attempts) - first
    assert 4 <= first <= 6
    assert 100 <= later <= 130
    pending = world.coordinator.pending_markers()
    assert (pending.transactions, pending.partitions, pending.oldest_ms, pending.stopped) == (
        1,
        1,
        601_000,
        0,
    )
    world.markers.refuse.clear()
    world.advance(5000)
    assert world.state() == "CompleteAbort"


@pytest.mark.parametrize(
    "error_code",
    [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
def test_a_partition_that_can_need_no_marker_is_left(world: World, error_code: int) -> None:
    identity = world.begin()
    world.markers.refuse["beer", 1] = deque([error_code])
    world.end(identity, True)
    assert world.state() == "CompleteCommit"
    assert len(world.markers.attempts) == 1


def test_another_coordinator_has_taken_over(world: World) -> None:
    identity = world.begin()
    world.markers.refuse["beer", 0] = deque([ErrorCode.TRANSACTION_COORDINATOR_FENCED] * 9)
    world.end(identity, True)
    world.advance(3_600_000)
    assert len(world.markers.attempts) == 1
    assert world.coordinator.pending_markers().stopped == 1
    world.markers.refuse.clear()
    world.restart()
    assert world.state() == "CompleteCommit", "whoever is elected next carries it out"


def test_a_topic_deleted_in_the_middle_needs_no_markers(world: World) -> None:
    identity = world.begin()
    assert world.verify(identity, [("wine", 0)], add=True) == ErrorCode.NONE
    world.delete_topic("beer")
    world.end(identity, True)
    assert world.state() == "CompleteCommit"
    assert list(world.markers.written) == [("wine", 0)]


def test_all_topics_gone_is_a_transaction_without_partitions(world: World) -> None:
    identity = world.begin()
    world.delete_topic("beer")
    assert world.end(identity, True).error == ErrorCode.NONE
    assert world.state() == "CompleteCommit"
    assert world.markers.attempts == []


def test_a_topic_deleted_while_its_markers_wait_ends_the_wait_at_once(world: World) -> None:
    identity = world.begin()
    world.markers.refuse[BEER[0]] = deque([ErrorCode.NOT_LEADER_OR_FOLLOWER] * 99)
    world.end(identity, True)
    world.advance(60_000)
    assert world.state() == "PrepareCommit"
    world.delete_topic("beer")
    assert world.state() == "CompleteCommit"


def test_what_fails_while_the_metadata_change_is_tried_again_at_once(world: World) -> None:
    """The leader of a partition has changed while the marker was on its way to the former one."""
    identity = world.begin()
    world.markers.refuse[BEER[0]] = deque([ErrorCode.NOT_LEADER_OR_FOLLOWER] * 7)
    world.end(identity, True)
    world.advance(3000)
    attempts = len(world.markers.attempts)
    world.markers.hold = True
    world.advance(5000)
    assert len(world.markers.attempts) == attempts + 1
    world.delete_topic("wine")
    assert len(world.markers.attempts) == attempts + 1, "one attempt at a time"
    world.markers.hold = False
    world.run(world.markers.finish)
    assert len(world.markers.attempts) == attempts + 2, "and the next without a pause of seconds"
    assert world.state() == "CompleteCommit"


def test_who_gives_its_shard_up_takes_its_markers_back(world: World) -> None:
    """What is queued for a broker that hangs must not arrive after the next coordinator's."""
    identity = world.begin()
    world.markers.hold = True
    futures = []
    write = world.markers.write

    def keeps(marker: Any, partitions: Any) -> Any:
        futures.append(write(marker, partitions))
        return futures[-1]

    world.markers.write = keeps  # type: ignore[method-assign]
    world.end(identity, True)
    (under_way,) = futures
    assert not under_way.done()
    world.run(lambda: world.coordinator.resigned(0))
    assert under_way.cancelled()


def test_a_writer_that_breaks_is_asked_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    identity = world.begin()
    write = world.markers.write
    broken = deque([True, True])

    async def fails() -> dict[tuple[str, int], int]:
        raise RuntimeError("no such luck")

    def breaks(*arguments: object) -> object:
        if not broken:
            return write(*arguments)  # type: ignore[arg-type]
        if broken.popleft() and broken:
            raise RuntimeError("at once")
        return fails()

    world.markers.write = breaks  # type: ignore[assignment, method-assign]
    world.end(identity, True)
    assert world.state() == "PrepareCommit"
    world.advance(1000)
    assert world.state() == "CompleteCommit"
    assert "at once" in caplog.text
    assert "no such luck" in caplog.text


def test_a_partition_that_a_writer_forgets_to_mention_is_asked_again(world: World) -> None:
    identity = world.begin()
    write = world.markers.write

    async def forgetful(marker: object, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return await write(marker, partitions[:1])  # type: ignore[arg-type]

    world.markers.write = forgetful  # type: ignore[assignment, method-assign]
    world.end(identity, True)
    world.advance(100)
    assert world.state() == "CompleteCommit"
    assert [world.markers.of(partition) for partition in BEER] == [[(1000, 1, True)]] * 2


def test_a_restart_writes_the_markers_again(world: World) -> None:
    identity = world.begin()
    world.markers.hold = True
    assert world.end(identity, True).error == ErrorCode.NONE
    world.markers.finish()  # the markers land, and the broker dies before it hears of it
    world.restart()
    world.markers.hold = False
    assert world.state() == "PrepareCommit"
    assert [marker.coordinator_epoch for marker, _ in world.markers.attempts] == [1, 2]
    world.markers.finish()
    world.settle()
    assert world.state() == "CompleteCommit"
    assert world.markers.of(("beer", 0)) == [(1000, 1, True)] * 2


def test_an_answer_that_comes_after_a_reload_touches_nothing(world: World) -> None:
    identity = world.begin()
    world.markers.hold = True
    world.end(identity, True)
    late = world.markers.in_flight.pop()
    world.elect(0, 7)  # the same broker, in a new epoch
    written = len(world.log.records[0])
    late()
    world.settle()
    assert world.state() == "PrepareCommit"
    assert len(world.log.records[0]) == written
    (again,) = world.markers.in_flight
    again()
    world.settle()
    assert world.state() == "CompleteCommit"
    assert [each.coordinator_epoch for each in world.markers.written["beer", 0]] == [1, 7]


def test_an_answer_that_comes_after_a_resignation_touches_nothing(world: World) -> None:
    identity = world.begin()
    world.markers.hold = True
    world.end(identity, True)
    world.run(lambda: world.coordinator.resigned(0))
    written = len(world.log.records[0])
    world.markers.finish()
    world.advance(3_600_000)
    assert len(world.log.records[0]) == written
    assert world.init().error == ErrorCode.NOT_COORDINATOR
    assert world.coordinator.pending_markers().transactions == 0


def test_being_elected_in_the_same_epoch_again_changes_nothing(world: World) -> None:
    identity = world.begin()
    shard = world.shard
    world.elect(0, world.leader_epoch)
    assert world.shard is shard
    assert world.end(identity, True).error == ErrorCode.NONE


def test_a_complete_record_that_cannot_be_written_is_tried_again(world: World) -> None:
    identity = world.begin()
    world.log.hold = True
    world.end(identity, True)
    world.log.hold = False
    world.markers.hold = True
    world.log.finish()
    world.log.fail = ErrorCode.NOT_ENOUGH_REPLICAS
    world.markers.hold = False
    world.markers.finish()
    world.settle()
    assert world.transaction().state.name == "PREPARE_COMMIT"
    world.advance(30_000)
    assert len(world.markers.attempts) == 1, "the markers are there; only the record is missing"
    world.log.fail = 0
    world.advance(5000)
    assert world.state() == "CompleteCommit"
    assert world.coordinator.pending_markers() == (0, 0, 0, 0)


def test_after_a_change_of_the_metadata_the_pauses_are_short_again(world: World) -> None:
    """The new leader is named, but refuses for a moment, because it hears of that later than this broker."""
    identity = world.begin()
    world.markers.refuse["beer", 1] = deque([ErrorCode.NOT_LEADER_OR_FOLLOWER] * 10_000)
    world.end(identity, True)
    world.advance(60_000)
    world.markers.refuse["beer", 1] = deque([ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2)
    world.delete_topic("wine")
    world.advance(1_000)
    assert world.state() == "CompleteCommit"
