"""A transaction from beginning to end, as its client sees it, and what must be in between."""

import asyncio

import pytest
from transaction_world import BEER, ID, TIMEOUT_MS, World

from moldau.common.protocol.errors import ErrorCode


def test_a_commit_reaches_exactly_its_partitions(world: World) -> None:
    producer_id, epoch = world.init().identity
    assert (producer_id, epoch) == (1000, 0)
    assert world.state() == "Empty"
    assert world.verify((producer_id, epoch), add=True) == ErrorCode.NONE
    assert world.state() == "Ongoing"
    assert world.end((producer_id, epoch), True).identity == (producer_id, 1)
    assert world.state() == "CompleteCommit"
    assert {partition: world.markers.of(partition) for partition in world.markers.written} == {
        partition: [(producer_id, 1, True)] for partition in BEER
    }
    marker = world.markers.written["beer", 0][0]
    assert (marker.coordinator_epoch, marker.transaction_version) == (world.leader_epoch, 2)


def test_an_abort_says_so(world: World) -> None:
    identity = world.begin()
    assert world.end(identity, False).error == ErrorCode.NONE
    assert world.state() == "CompleteAbort"
    assert [world.markers.of(partition) for partition in BEER] == [[(1000, 1, False)]] * 2


def test_version_1_keeps_the_epoch(world: World) -> None:
    identity = world.init().identity
    assert world.add(identity).error == ErrorCode.NONE
    response = world.end(identity, True, version=4).response
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, -1, -1)
    assert world.markers.of(("beer", 0)) == [(1000, 0, True)]
    assert world.markers.written["beer", 0][0].transaction_version == 0
    assert world.add(identity, [("wine", 2)]).error == ErrorCode.NONE
    assert world.transaction().partitions == {("wine", 2)}
    assert world.end(identity, False, version=4).error == ErrorCode.NONE
    assert world.markers.of(("wine", 2)) == [(1000, 0, False)]
    assert world.markers.of(("beer", 0)) == [(1000, 0, True)], "the former transaction's partitions are done"


def test_the_answer_to_an_end_waits_for_the_decision_and_not_for_the_markers(world: World) -> None:
    identity = world.begin()
    world.log.hold = True
    world.markers.hold = True
    end = world.end(identity, True)
    assert end.response is None
    assert world.markers.attempts == [], "no marker before the decision is committed"
    world.log.finish()
    assert end.error == ErrorCode.NONE
    assert world.state() == "PrepareCommit"
    world.markers.finish()
    world.settle()
    assert world.transaction().state.name == "COMPLETE_COMMIT"
    assert world.coordinator.pending_markers().transactions == 1, "not complete before that is committed"
    world.log.finish()
    assert world.coordinator.pending_markers() == (0, 0, 0, 0)
    assert world.state() == "CompleteCommit"


def test_the_next_transaction_waits_for_the_markers_of_the_last(world: World) -> None:
    identity = world.begin()
    world.markers.hold = True
    successor = world.end(identity, True).identity
    assert world.verify(successor, add=True) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.add(successor, version=3).error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.init(expected=successor).error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    world.markers.finish()
    assert world.verify(successor, add=True) == ErrorCode.NONE


def test_partitions_may_come_one_by_one(world: World) -> None:
    identity = world.init().identity
    start_ms = world.clock.now_ms()
    for index in range(3):
        assert world.verify(identity, [("beer", index)], add=True) == ErrorCode.NONE
        world.advance(1000)
    written = len(world.log.records[0])
    assert world.verify(identity, [("beer", 1)], add=True) == ErrorCode.NONE
    assert len(world.log.records[0]) == written, "nothing new, nothing written"
    transaction = world.transaction()
    assert transaction.partitions == {("beer", 0), ("beer", 1), ("beer", 2)}
    assert transaction.start_ms == start_ms, "the first partition begins the transaction"


def test_a_transaction_may_begin_with_nothing(world: World) -> None:
    identity = world.init().identity
    assert world.add(identity, []).error == ErrorCode.NONE
    assert (world.state(), world.transaction().partitions) == ("Ongoing", frozenset())
    assert world.end(identity, True, version=4).error == ErrorCode.NONE
    assert (world.state(), world.markers.attempts) == ("CompleteCommit", [])


def test_ends_are_counted_by_how_they_came_about(world: World) -> None:
    world.end(world.begin(transactional_id="a"), True, transactional_id="a")
    world.end(world.begin(transactional_id="b"), False, transactional_id="b")
    world.begin(transactional_id="c")
    world.init("c")
    world.begin(transactional_id="d")
    world.advance(TIMEOUT_MS)
    empty = world.init("e").identity
    world.end(empty, False, transactional_id="e")
    expected = {"committed": 1, "aborted": 1, "fenced": 1, "timed-out": 1}
    assert dict(world.coordinator.ended) == expected, "an abort of nothing is the end of nothing"
    assert list(world.coordinator.undecided()) == []


def test_offsets_are_one_more_partition(world: World) -> None:
    identity = world.init().identity
    assert world.offsets(identity, "crew").error == ErrorCode.NONE
    (partition,) = world.transaction().partitions
    assert partition == ("__consumer_offsets", 3), 'abs("crew".hashCode()) % 5 in Java'
    assert world.end(identity, True, version=3).error == ErrorCode.NONE
    assert world.markers.of(partition) == [(1000, 0, True)]


def test_two_first_requests_for_one_id_get_one_producer_id(world: World) -> None:
    world.producer_ids.gate = asyncio.Event()
    first, second = world.init(), world.init()
    assert first.response is second.response is None
    world.run(world.producer_ids.gate.set)
    assert first.identity == (1000, 0)
    assert second.identity == (1000, 1), "the later one fences the former"


def test_many_ids_live_side_by_side(world: World) -> None:
    identities = {name: world.begin(transactional_id=name) for name in ("a", "b", "c")}
    assert len({producer_id for producer_id, _ in identities.values()}) == 3
    assert world.end(identities["a"], True, transactional_id="a").error == ErrorCode.NONE
    assert world.end(identities["b"], False, transactional_id="b").error == ErrorCode.NONE
    assert [world.state(name) for name in "abc"] == ["CompleteCommit", "CompleteAbort", "Ongoing"]
    assert world.coordinator.state_counts() == {"CompleteCommit": 1, "CompleteAbort": 1, "Ongoing": 1}


def test_ids_are_spread_over_the_partitions_as_in_kafka() -> None:
    world = World(partitions=50)
    try:
        assert world.coordinator.partition_for("till") == 17, "abs(hashCode()) % 50 in Java"
        assert world.init("till").identity == (1000, 0)
        assert world.init("other").identity == (1001, 0)
        partitions = [world.coordinator.partition_for(name) for name in ("till", "other")]
        assert {index for index, records in world.log.records.items() if records} == set(partitions)
    finally:
        world.close()


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_that_is_not_allowed(world: World, timeout_ms: int) -> None:
    response = world.init(timeout_ms=timeout_ms).response
    assert response.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (response.producer_id, response.producer_epoch) == (-1, -1)
    assert world.log.records == {}


def test_requests_that_make_no_sense(world: World) -> None:
    assert world.init("").error == ErrorCode.INVALID_REQUEST
    assert world.init(expected=(-1, 3)).error == ErrorCode.INVALID_REQUEST
    assert world.init(expected=(7, -1)).error == ErrorCode.INVALID_REQUEST
    assert world.end((1, 0), True, transactional_id="").error == ErrorCode.INVALID_REQUEST
    assert world.add((1, 0), transactional_id="").error == ErrorCode.INVALID_REQUEST
    assert world.verify((1, 0), transactional_id="") == ErrorCode.INVALID_REQUEST
    assert world.state("") == "INVALID_REQUEST"
    assert world.log.records == {}


def test_nothing_is_known_of_a_stranger(world: World) -> None:
    world.init()
    for error in (
        world.add((1000, 0), transactional_id="stranger").error,
        world.verify((1000, 0), transactional_id="stranger"),
        world.verify((1000, 0), add=True, transactional_id="stranger"),
        world.end((1000, 0), True, transactional_id="stranger").error,
        world.end((1000, 0), True, transactional_id="stranger", version=4).error,
        world.add((4711, 0)).error,
        world.verify((4711, 0)),
        world.end((4711, 0), True).error,
        world.end((4711, 0), True, version=4).error,
    ):
        assert error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.state("stranger") == "TRANSACTIONAL_ID_NOT_FOUND"
    assert world.transaction().timeout_ms == TIMEOUT_MS
    assert list(world.shard.transactions) == [ID]


def test_an_outdated_epoch_is_called_what_the_version_knows(world: World) -> None:
    identity = world.init().identity
    world.init()
    fenced, old_word = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    assert [world.add(identity, version=version).error for version in (0, 1, 2, 3)] == [
        old_word,
        old_word,
        fenced,
        fenced,
    ]
    assert [world.offsets(identity, "crew", version=version).error for version in (1, 2)] == [
        old_word,
        fenced,
    ]
    assert [world.end(identity, True, version=version).error for version in (1, 2, 5)] == [
        old_word,
        fenced,
        fenced,
    ]
    errors = [world.init(expected=identity, version=version).error for version in (3, 4)]
    assert errors == [old_word, fenced]
    assert world.verify(identity) == old_word, "a producer learns it from the partition's leader"


def test_verification_of_a_partition_that_was_not_added(world: World) -> None:
    identity = world.init().identity
    assert world.verify(identity, [("wine", 0)]) == ErrorCode.TRANSACTION_ABORTABLE
    assert world.add(identity).error == ErrorCode.NONE
    assert world.verify(identity) == ErrorCode.NONE
    assert world.verify(identity, [("beer", 0), ("wine", 0)]) == {
        ("beer", 0): ErrorCode.NONE,
        ("wine", 0): ErrorCode.TRANSACTION_ABORTABLE,
    }
    assert world.verify(identity, [("wine", 0)], supports_abortable=False) == ErrorCode.INVALID_TXN_STATE
    assert world.transaction().partitions == set(BEER), "asking adds nothing"
