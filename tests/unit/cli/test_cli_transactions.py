"""moldau transactions: who is asked what, what is hanging, what is refused.

The brokers are fakes that answer with the protocol's own messages.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from fake_layout import FakeTime, fake_layout

from moldau.client.admin.transactions import (
    describe_producers,
    describe_transactions,
    list_transactions,
    write_abort_marker,
)
from moldau.client.errors import ClientError, ClusterTimeout, OptionError
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from moldau.common.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from moldau.common.protocol.messages.describe_transactions import TransactionState as Described
from moldau.common.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.common.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from moldau.common.protocol.messages.list_transactions import TransactionState as Listed
from moldau.common.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.tools.commands.transactions.description import end_by_fencing, require_description
from moldau.tools.commands.transactions.hanging import abort_hanging, choose_places, find_hanging, producer_at
from moldau.tools.shared.errors import CommandError

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000
PARTITIONS = {("orders", 0): (1, 2), ("orders", 1): (2, 1), ("lost", 0): (-1, 3)}


class Cluster:
    """Two brokers: which transactions each coordinates, and which producers each partition knows."""

    def __init__(self) -> None:
        self.coordinated: dict[int, list[Described]] = {1: [], 2: []}
        self.producers: dict[tuple[str, int], list[ProducerState]] = {}
        self.asked: list[tuple[int, Message]] = []
        self.init_answers: deque[int] = deque()
        self.marker_error = 0
        self.list_errors: deque[int] = deque()
        self.time = FakeTime()
        self.layout = fake_layout([1, 2], PARTITIONS, self.ask, self.time)
        self.asked.clear()

    @property
    def slept(self) -> int:
        return self.time.naps

    def ask(self, broker_id: int, request: Message) -> Any:
        self.asked.append((broker_id, request))
        return getattr(self, f"_{type(request).__name__}")(broker_id, request)

    def of(self, kind: type[Message]) -> list[tuple[int, Any]]:
        return [each for each in self.asked if isinstance(each[1], kind)]

    def _FindCoordinatorRequest(self, _: int, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        assert request.key_type == 1
        node = next(
            (
                node
                for node, rows in self.coordinated.items()
                for row in rows
                if row.transactional_id in request.coordinator_keys
            ),
            1,
        )
        row = Coordinator(key=request.coordinator_keys[0], node_id=node, host="host", port=node)
        return FindCoordinatorResponse(coordinators=[row])

    def _ListTransactionsRequest(
        self, node: int, request: ListTransactionsRequest
    ) -> ListTransactionsResponse:
        if self.list_errors:
            return ListTransactionsResponse(error_code=self.list_errors.popleft())
        return ListTransactionsResponse(
            unknown_state_filters=[name for name in request.state_filters if name == "Asleep"],
            transaction_states=[
                Listed(
                    transactional_id=row.transactional_id,
                    producer_id=row.producer_id,
                    transaction_state=row.transaction_state,
                )
                for row in self.coordinated[node]
                if not request.producer_id_filters or row.producer_id in request.producer_id_filters
            ],
        )

    def _DescribeTransactionsRequest(
        self, node: int, request: DescribeTransactionsRequest
    ) -> DescribeTransactionsResponse:
        known = {row.transactional_id: row for row in self.coordinated[node]}
        missing = int(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return DescribeTransactionsResponse(
            transaction_states=[
                known.get(name, Described(error_code=missing, transactional_id=name))
                for name in request.transactional_ids
            ]
        )

    def _DescribeProducersRequest(
        self, _: int, request: DescribeProducersRequest
    ) -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[
                        PartitionResponse(
                            partition_index=index,
                            active_producers=self.producers.get((topic.name, index), []),
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )

    def _WriteTxnMarkersRequest(self, _: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        (marker,) = request.markers
        (topic,) = marker.topics
        result = WritableTxnMarkerPartitionResult(
            partition_index=topic.partition_indexes[0], error_code=self.marker_error
        )
        of_topic = WritableTxnMarkerTopicResult(name=topic.name, partitions=[result])
        of_marker = WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[of_topic])
        return WriteTxnMarkersResponse(markers=[of_marker])

    def _InitProducerIdRequest(self, _: int, request: InitProducerIdRequest) -> InitProducerIdResponse:
        error_code = self.init_answers.popleft()
        return InitProducerIdResponse(error_code=error_code, producer_id=9, producer_epoch=4)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def transaction(name: str, producer_id: int, state: str = "Ongoing", *places: int) -> Described:
    topics = [TopicData(topic="orders", partitions=list(places))] if places else []
    return Described(
        transactional_id=name,
        producer_id=producer_id,
        producer_epoch=3,
        transaction_state=state,
        transaction_timeout_ms=50_000,
        transaction_start_time_ms=NOW_MS,
        topics=topics,
    )


def open_at(offset: int, producer_id: int = 7, silent_ms: int = 20 * MINUTE_MS, **more: int) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=3,
        last_timestamp=NOW_MS - silent_ms,
        coordinator_epoch=more.get("coordinator_epoch", -1),
        current_txn_start_offset=offset,
    )


def test_all_coordinators_are_asked_and_their_lists_put_together(cluster: Cluster) -> None:
    cluster.coordinated = {1: [transaction("b", 1)], 2: [transaction("a", 2, "Empty")]}
    rows = [(each.transactional_id, each.coordinator) for each in list_transactions(cluster.layout)]
    assert rows == [("a", 2), ("b", 1)]


def test_a_list_that_is_being_loaded_is_waited_for_but_not_for_ever(cluster: Cluster) -> None:
    cluster.list_errors.extend([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3)
    assert list_transactions(cluster.layout) == []
    assert cluster.slept == 3
    cluster.list_errors.extend([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100)
    with pytest.raises(ClusterTimeout, match="COORDINATOR_LOAD_IN_PROGRESS"):
        list_transactions(cluster.layout)


def test_an_unknown_state_and_a_wrong_pattern_are_misuse(cluster: Cluster) -> None:
    with pytest.raises(OptionError, match="Asleep is not a state"):
        list_transactions(cluster.layout, states=["Asleep"])
    cluster.list_errors.append(ErrorCode.INVALID_REGULAR_EXPRESSION)
    with pytest.raises(OptionError, match="not a regular expression"):
        list_transactions(cluster.layout, pattern="[")


def test_each_coordinator_describes_its_own(cluster: Cluster) -> None:
    cluster.coordinated = {1: [transaction("b", 1, "Ongoing", 1, 0)], 2: [transaction("a", 2, "Empty")]}
    cluster.coordinated[2][0].transaction_start_time_ms = -1
    described, refused = describe_transactions(cluster.layout.cluster, ["a", "b", "c"])
    assert [(each.coordinator, each.transactional_id) for each in described] == [(1, "b"), (2, "a")]
    assert described[0].partitions == (("orders", 0), ("orders", 1))
    assert described[1].start_ms is None
    assert refused == {"c": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
    with pytest.raises(CommandError, match="there is no transactional id 'c'"):
        require_description(cluster.layout.cluster, "c")


def test_leaders_are_asked_for_their_producers_or_the_replica_that_was_named(cluster: Cluster) -> None:
    cluster.producers = {("orders", 1): [open_at(5), open_at(-1, 8)]}
    found = describe_producers(cluster.layout, [("orders", 0), ("orders", 1)])
    assert [each.start_offset for each in found[("orders", 1)]] == [5, None]
    assert [node for node, _ in cluster.asked] == [1, 2]
    describe_producers(cluster.layout, [("orders", 0)], broker_id=2)
    assert cluster.asked[-1][0] == 2
    for place, words in (
        (("orders", 9), "no partition 9"),
        (("x", 0), "there is no topic"),
        (("lost", 0), "no leader"),
    ):
        with pytest.raises(ClientError, match=words):
            describe_producers(cluster.layout, [place])
    with pytest.raises(ClientError, match="there is no broker 5: there are 1, 2"):
        describe_producers(cluster.layout, [("orders", 0)], broker_id=5)


def test_the_places_to_look_at(cluster: Cluster) -> None:
    everything = [("orders", 0), ("orders", 1)]  # without the partition that has no leader
    assert choose_places(cluster.layout, None, None, None) == everything
    assert choose_places(cluster.layout, "orders", 1, None) == [("orders", 1)]
    assert choose_places(cluster.layout, None, None, 3) == [("lost", 0)]
    with pytest.raises(ClientError, match="there is no topic"):
        choose_places(cluster.layout, "x", None, None)


def hanging(cluster: Cluster, older_than_ms: int = 15 * MINUTE_MS) -> list[tuple[str, int]]:
    places = choose_places(cluster.layout, None, None, None)
    return [each.place for each in find_hanging(cluster.layout, places, older_than_ms, NOW_MS)]


def test_open_in_a_log_and_nowhere_else_is_hanging(cluster: Cluster) -> None:
    cluster.producers = {("orders", 0): [open_at(5), open_at(-1, 8)]}
    assert hanging(cluster) == [("orders", 0)]
    assert hanging(cluster, 20 * MINUTE_MS) == []


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "PrepareAbort"])
def test_what_its_coordinator_will_end_is_not_hanging(cluster: Cluster, state: str) -> None:
    cluster.producers = {("orders", 0): [open_at(5)], ("orders", 1): [open_at(5)]}
    cluster.coordinated[2] = [transaction("billing", 7, state, 1)]
    assert hanging(cluster) == [("orders", 0)]


def test_the_coordinators_are_not_asked_when_nothing_is_open(cluster: Cluster) -> None:
    cluster.producers = {("orders", 0): [open_at(-1)]}
    assert hanging(cluster) == []
    assert cluster.of(ListTransactionsRequest) == []


def test_a_hanging_one_is_aborted_at_the_leader_with_its_own_numbers(cluster: Cluster) -> None:
    cluster.producers = {("orders", 1): [open_at(5, coordinator_epoch=6)]}
    found = producer_at(cluster.layout, ("orders", 1), 5)
    numbers = (found.producer_id, found.producer_epoch, found.coordinator_epoch)
    abort_hanging(cluster.layout, ("orders", 1), *numbers, force=False)
    ((node, request),) = cluster.of(WriteTxnMarkersRequest)
    (marker,) = request.markers
    assert node == 2
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 6)
    assert marker.transaction_result is False
    with pytest.raises(CommandError, match="no transaction that begins at offset 6"):
        producer_at(cluster.layout, ("orders", 1), 6)


def test_an_unknown_coordinator_epoch_is_written_as_zero_and_a_refusal_is_told(cluster: Cluster) -> None:
    cluster.marker_error = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    with pytest.raises(ClientError, match=r"orders-0: .*TRANSACTION_COORDINATOR_FENCED"):
        write_abort_marker(cluster.layout, ("orders", 0), 7, 3, -1)
    ((_, request),) = cluster.of(WriteTxnMarkersRequest)
    assert request.markers[0].coordinator_epoch == 0


def test_a_known_transaction_is_not_torn_unless_forced(cluster: Cluster) -> None:
    cluster.coordinated[1] = [transaction("billing", 7, "Ongoing", 0, 1)]
    with pytest.raises(CommandError, match="moldau transactions terminate billing"):
        abort_hanging(cluster.layout, ("orders", 0), 7, 3, -1, force=False)
    assert cluster.of(WriteTxnMarkersRequest) == []
    abort_hanging(cluster.layout, ("orders", 0), 7, 3, -1, force=True)
    assert len(cluster.of(WriteTxnMarkersRequest)) == 1


def test_fencing_waits_until_everything_is_aborted(cluster: Cluster) -> None:
    cluster.coordinated[2] = [transaction("billing", 7, "Ongoing", 0)]
    cluster.init_answers.extend([ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS, 0])
    assert end_by_fencing(cluster.layout.cluster, "billing", 50_000) == (9, 4)
    requests = cluster.of(InitProducerIdRequest)
    assert [node for node, _ in requests] == [2, 2, 2]
    assert {(each.transactional_id, each.producer_id) for _, each in requests} == {("billing", -1)}
    assert cluster.slept == 2


@pytest.mark.parametrize(
    ("error_code", "words"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, "is being aborted, but not yet in every partition"),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ],
)
def test_fencing_that_does_not_succeed_is_told(cluster: Cluster, error_code: int, words: str) -> None:
    cluster.init_answers.extend([error_code] * 100)
    with pytest.raises(CommandError, match=words):
        end_by_fencing(cluster.layout.cluster, "billing", 50_000)
