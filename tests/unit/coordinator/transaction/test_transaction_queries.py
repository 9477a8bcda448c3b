"""DescribeTransactions, ListTransactions, and what a monitor sees."""

from collections import deque

import pytest
from transaction_world import World

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from moldau.common.protocol.messages.describe_transactions import DescribeTransactionsRequest


@pytest.fixture
def three(world: World) -> World:
    """Three ids: "a" has committed, "b" is ongoing since five seconds, "c-c" is empty."""
    world.end(world.begin(transactional_id="a"), True, transactional_id="a")
    world.begin(transactional_id="b")
    world.advance(5000)
    world.init("c-c")
    return world


def names(response: object) -> list[str]:
    return sorted(row.transactional_id for row in response.transaction_states)  # type: ignore[attr-defined]


def test_a_transaction_is_described(world: World) -> None:
    start_ms = world.clock.now_ms()
    world.begin()
    request = DescribeTransactionsRequest(transactional_ids=["till", "stranger"])
    till, stranger = world.call(world.coordinator.describe, request).response.transaction_states
    assert (till.error_code, till.transactional_id, till.transaction_state) == (0, "till", "Ongoing")
    assert (till.producer_id, till.producer_epoch, till.transaction_timeout_ms) == (1000, 0, 60_000)
    assert till.transaction_start_time_ms == start_ms
    assert [(topic.topic, topic.partitions) for topic in till.topics] == [("beer", [0, 1])]
    assert stranger.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_a_decided_transaction_is_described_with_the_partitions_that_hang(world: World) -> None:
    identity = world.begin()
    world.markers.refuse["beer", 1] = deque([ErrorCode.NOT_LEADER_OR_FOLLOWER] * 5)
    world.end(identity, True)
    request = DescribeTransactionsRequest(transactional_ids=["till"])
    (row,) = world.call(world.coordinator.describe, request).response.transaction_states
    assert row.transaction_state == "PrepareCommit"
    assert [(topic.topic, topic.partitions) for topic in row.topics] == [("beer", [1])]


def test_without_filters_all_are_listed(three: World) -> None:
    response = three.list()
    assert names(response) == ["a", "b", "c-c"]
    rows = {
        row.transactional_id: (row.producer_id, row.transaction_state) for row in response.transaction_states
    }
    assert rows == {"a": (1000, "CompleteCommit"), "b": (1001, "Ongoing"), "c-c": (1002, "Empty")}


def test_states_filter_and_unknown_ones_are_named(three: World) -> None:
    assert names(three.list(state_filters=["Ongoing", "Empty"])) == ["b", "c-c"]
    response = three.list(state_filters=["Ongoing", "ongoing", "Nonsense"])
    assert (names(response), response.unknown_state_filters) == (["b"], ["ongoing", "Nonsense"])
    response = three.list(state_filters=["Nonsense"])
    assert (names(response), response.unknown_state_filters) == ([], ["Nonsense"])
    response = three.list(state_filters=["Dead", "PrepareEpochFence"])
    assert (names(response), response.unknown_state_filters) == ([], [])


def test_producer_ids_filter(three: World) -> None:
    assert names(three.list(producer_id_filters=[1000, 1002, 4711])) == ["a", "c-c"]
    assert names(three.list(producer_id_filters=[4711])) == []


def test_durations_filter(three: World) -> None:
    running = {"state_filters": ["Ongoing"]}
    assert names(three.list(duration_filter=4999, **running)) == ["b"]
    assert names(three.list(duration_filter=5000, **running)) == []
    assert names(three.list(duration_filter=-1, **running)) == ["b"]


def test_patterns_filter_whole_ids(three: World) -> None:
    assert names(three.list(transactional_id_pattern="c.*")) == ["c-c"]
    assert names(three.list(transactional_id_pattern="c")) == []
    assert names(three.list(transactional_id_pattern="a|b")) == ["a", "b"]
    assert names(three.list(transactional_id_pattern="")) == ["a", "b", "c-c"]
    response = three.list(transactional_id_pattern="(")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_filters_are_combined(three: World) -> None:
    filters = {"state_filters": ["Ongoing", "Empty"], "producer_id_filters": [1000, 1001]}
    assert names(three.list(transactional_id_pattern="[abc].*", **filters)) == ["b"]


def test_the_list_comes_from_all_shards_and_waits_for_those_that_load() -> None:
    world = World(partitions=20)
    try:
        for number in range(10):
            world.init(f"id-{number}")
        assert len(names(world.list())) == 10
        world.run(lambda: world.coordinator.resigned(3))

        def broken(topic: str, index: int) -> object:
            raise OSError("disk")

        world.log.committed_records = broken  # type: ignore[assignment, method-assign]
        world.elect(3, 9)
        assert world.list().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        here = next(name for name in map(str, range(999)) if world.coordinator.partition_for(name) == 3)
        assert world.init(here).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    finally:
        world.close()


def test_a_broker_asks_for_several_producers_at_once(world: World) -> None:
    first = world.begin(transactional_id="a")
    second = world.init("b").identity

    def row(name: str, identity: tuple[int, int], verify_only: bool) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=identity[0],
            producer_epoch=identity[1],
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name="beer", partitions=[0, 2])],
        )

    rows = [row("a", first, True), row("b", second, False), row("c", second, True), row("b", (1, 0), False)]

    def ask() -> list[tuple[str, list[int]]]:
        request = AddPartitionsToTxnRequest(transactions=rows)
        response = world.call(world.coordinator.add_partitions_of_brokers, request).response
        return [
            (result.transactional_id, [each.partition_error_code for each in topic.results_by_partition])
            for result in response.results_by_transaction
            for topic in result.topic_results
        ]

    mapping, abortable = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTION_ABORTABLE
    rest = [("b", [0, 0]), ("c", [mapping] * 2), ("b", [mapping] * 2)]
    assert ask() == [("a", [0, abortable]), *rest]
    assert world.transaction("a").partitions == {("beer", 0), ("beer", 1)}
    assert world.transaction("b").partitions == {("beer", 0), ("beer", 2)}


def test_what_a_monitor_sees(three: World) -> None:
    rows = {row.transactional_id: row for row in three.coordinator.states()}
    assert three.coordinator.state_counts() == {"CompleteCommit": 1, "Ongoing": 1, "Empty": 1}
    ongoing = rows["b"]
    assert (ongoing.state, ongoing.producer_id, ongoing.producer_epoch) == ("Ongoing", 1001, 0)
    assert (ongoing.partition_count, ongoing.age_ms, ongoing.timeout_ms, ongoing.overdue_ms) == (
        2,
        5000,
        60_000,
        0,
    )
    assert (rows["a"].age_ms, rows["c-c"].age_ms) == (5000, 0)
    three.log.fail = ErrorCode.KAFKA_STORAGE_ERROR
    three.advance(56_000)
    (late,) = [row for row in three.coordinator.states() if row.transactional_id == "b"]
    assert (late.state, late.overdue_ms) == ("Ongoing", 1000)
