"""Transactions that last too long, and ids that nobody uses."""

from transaction_world import ID, World

from moldau.common.core.clock import ManualClock
from moldau.common.protocol.errors import ErrorCode

DAY_MS = 86_400_000


def test_an_overdue_transaction_is_aborted_to_the_millisecond(world: World) -> None:
    identity = world.begin()
    world.advance(59_999)
    assert world.state() == "Ongoing"
    world.advance(1)
    assert world.state() == "CompleteAbort"
    assert world.markers.of(("beer", 0)) == [(1000, 1, False)]
    assert world.verify(identity, add=True) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_clock_of_a_transaction_does_not_begin_anew(world: World) -> None:
    identity = world.begin()
    world.advance(30_000)
    world.verify(identity, [("wine", 0)], add=True)
    world.advance(29_999)
    assert world.state() == "Ongoing"
    world.advance(1)
    assert world.state() == "CompleteAbort"


def test_each_transaction_has_its_own_clock(world: World) -> None:
    identity = world.begin()
    world.advance(50_000)
    identity = world.end(identity, True).identity
    world.verify(identity, add=True)
    world.advance(59_999)
    assert world.state() == "Ongoing"
    world.advance(1)
    assert world.state() == "CompleteAbort"


def test_a_deadline_survives_kill_9(world: World) -> None:
    world.begin()
    world.advance(40_000)
    world.restart()
    world.advance(19_999)
    assert world.state() == "Ongoing"
    world.advance(1)
    assert world.state() == "CompleteAbort"


def test_a_deadline_that_passed_while_the_broker_was_down(world: World) -> None:
    world.begin()
    world.clock.advance(DAY_MS)
    world.restart()
    assert world.state() == "CompleteAbort"


def test_a_transaction_that_a_clock_an_hour_ahead_began_lasts_no_longer_than_its_timeout(
    world: World,
) -> None:
    world.begin()
    world.clock = ManualClock(world.clock.now_ms() - 3_600_000)  # of the next coordinator
    world.restart()
    world.advance(59_999)
    assert world.state() == "Ongoing"
    world.advance(1)
    assert world.state() == "CompleteAbort"


def test_an_abort_that_cannot_be_written_is_tried_again_without_haste(world: World) -> None:
    world.begin()
    world.log.fail = ErrorCode.KAFKA_STORAGE_ERROR
    appends: list[int] = []
    append = world.log.append_records
    world.log.append_records = lambda *a, **k: (appends.append(1), append(*a, **k))[1]  # type: ignore[method-assign]
    world.advance(60_000 + 10_000)
    assert world.state() == "Ongoing"
    assert 8 <= len(appends) <= 12
    world.log.fail = 0
    world.advance(1000)
    assert world.state() == "CompleteAbort"
    assert world.transaction().producer_epoch == 1, "and the epoch was taken once"


def test_a_deadline_that_passes_while_a_decision_fails(world: World) -> None:
    identity = world.begin()
    world.advance(59_000)
    world.log.hold = True
    end = world.end(identity, True)
    world.advance(4000)  # the deadline passes unheard: the transaction is decided, it seems
    world.log.hold = False
    world.run(lambda: world.log.finish(ErrorCode.KAFKA_STORAGE_ERROR))
    assert end.error == ErrorCode.NOT_COORDINATOR
    world.advance(1000)
    assert world.state() == "CompleteAbort"
    assert world.markers.of(("beer", 0)) == [(1000, 1, False)]


def test_a_commit_in_time_is_not_overdue(world: World) -> None:
    identity = world.begin()
    world.advance(59_999)
    world.markers.hold = True
    assert world.end(identity, True).error == ErrorCode.NONE
    world.advance(600_000)
    assert world.state() == "PrepareCommit", "what is decided is never taken back"
    world.markers.finish()
    assert world.state() == "CompleteCommit"


def test_an_id_at_rest_expires() -> None:
    world = World(transactional_id_expiration_ms=DAY_MS)
    try:
        world.init("empty")
        done = world.begin(transactional_id="done")
        world.end(done, True, transactional_id="done")
        world.advance(DAY_MS - 3_600_000)
        world.init("young")
        world.advance(2 * 3_600_000)
        assert sorted(world.shard.transactions) == ["young"]
        world.restart()
        assert sorted(world.shard.transactions) == ["young"], "the tombstones are in the log"
        assert world.verify(done, transactional_id="done") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert world.init("done").identity == (1003, 0)
    finally:
        world.close()


def test_what_is_open_or_being_carried_out_does_not_expire() -> None:
    world = World(transactional_id_expiration_ms=60_000, transaction_max_timeout_ms=DAY_MS)
    try:
        ongoing = world.init("ongoing", timeout_ms=DAY_MS).identity
        world.verify(ongoing, add=True, transactional_id="ongoing")
        world.markers.hold = True
        decided = world.begin(transactional_id="decided")
        world.end(decided, True, transactional_id="decided")
        world.advance(DAY_MS // 2)
        assert sorted(world.shard.transactions) == ["decided", "ongoing"]
    finally:
        world.close()


def test_many_ids_expire_bit_by_bit() -> None:
    world = World(
        transactional_id_expiration_ms=1000,
        transaction_remove_expired_transaction_cleanup_interval_ms=10_000,
    )
    try:
        for number in range(700):
            world.init(f"id-{number}")
        world.advance(10_100)
        assert world.shard.transactions == {}
    finally:
        world.close()


def test_a_tombstone_that_cannot_be_written_leaves_the_id() -> None:
    world = World(transactional_id_expiration_ms=DAY_MS)
    try:
        world.init()
        world.log.fail = ErrorCode.KAFKA_STORAGE_ERROR
        world.advance(2 * DAY_MS)
        assert list(world.shard.transactions) == [ID]
        world.log.fail = 0
        world.advance(3_600_000)
        assert list(world.shard.transactions) == []
    finally:
        world.close()


def test_an_overdue_transaction_is_aborted_at_the_next_look_and_may_be_committed_until_then() -> None:
    """As in Kafka, where clients' tests with timeouts of 100 ms rely on it."""
    world = World(transaction_abort_timed_out_transaction_cleanup_interval_ms=10_000)
    world.advance(3_000)  # between two looks
    identity = world.begin()
    start_ms = world.clock.now_ms()
    look_ms = -(-(start_ms + 60_000) // 10_000) * 10_000
    world.advance(look_ms - start_ms - 1)
    assert world.state() == "Ongoing"
    assert world.verify(identity, [("wine", 0)], add=True) == ErrorCode.NONE
    world.advance(1)
    assert world.state() == "CompleteAbort"
    world.close()
