"""moldau transactions: who is asked what, what is hanging, what is refused.

The brokers are fakes that answer with the protocol's own messages.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from typing import Any

import pytest

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
from moldau.common.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
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
from moldau.tools.commands.transactions.description import (
    describe_producers,
    describe_transactions,
    list_transactions,
    require_description,
)
from moldau.tools.commands.transactions.ending import fence, write_abort_marker
from moldau.tools.commands.transactions.hanging import abort_hanging, choose_places, find_hanging, producer_at
from moldau.tools.commands.transactions.routing import Address, Copies, Routing
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.raw_request import ask_message

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000
BROKERS: dict[int, Address] = {1: ("one", 9092), 2: ("two", 9092)}
PARTITIONS = {
    ("orders", 0): Copies(1, (1, 2)),
    ("orders", 1): Copies(2, (2, 1)),
    ("lost", 0): Copies(-1, (3,)),
}


class Cluster:
    """Two brokers: which transactions each coordinates, and which producers each partition knows."""

    def __init__(self) -> None:
        self.coordinated: dict[int, list[Described]] = {1: [], 2: []}
        self.producers: dict[tuple[str, int], list[ProducerState]] = {}
        self.asked: list[tuple[int, Message, int]] = []
        self.init_answers: deque[int] = deque()
        self.marker_error = 0
        self.list_errors: deque[int] = deque()
        self.slept = 0
        self.routing = Routing(BROKERS, PARTITIONS, 1.0, self.ask, self.sleep)

    def sleep(self, _seconds: float) -> None:
        self.slept += 1

    def ask(self, address: Address, request: Message, version: int, _timeout_seconds: float) -> Any:
        request.encode(version)  # what the version cannot say would be lost silently
        broker_id = next(node for node, each in BROKERS.items() if each == address)
        self.asked.append((broker_id, request, version))
        return getattr(self, f"_{type(request).__name__}")(broker_id, request)

    def of(self, kind: type[Message]) -> list[tuple[int, Any, int]]:
        return [each for each in self.asked if isinstance(each[1], kind)]

    def _FindCoordinatorRequest(self, _: int, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        assert request.key_type == 1
        node = next(
            (
                node
                for node, rows in self.coordinated.items()
                for row in rows
                if row.transactional_id == request.key
            ),
            1,
        )
        return FindCoordinatorResponse(node_id=node, host=BROKERS[node][0], port=BROKERS[node][1])

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
    rows = [(each.transactional_id, each.coordinator) for each in list_transactions(cluster.routing)]
    assert rows == [("a", 2), ("b", 1)]
    assert [version for _, _, version in cluster.asked] == [0, 0]


@pytest.mark.parametrize(
    ("filters", "version"),
    [({"states": ["Ongoing"]}, 0), ({"duration_ms": 0}, 1), ({"pattern": "a.*", "duration_ms": 5}, 2)],
)
def test_the_lowest_version_that_can_say_it_is_spoken(
    cluster: Cluster, filters: dict[str, Any], version: int
) -> None:
    list_transactions(cluster.routing, **filters)
    assert {spoken for _, _, spoken in cluster.asked} == {version}


def test_a_list_that_is_being_loaded_is_waited_for_but_not_for_ever(cluster: Cluster) -> None:
    cluster.list_errors.extend([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3)
    assert list_transactions(cluster.routing) == []
    assert cluster.slept == 3
    cluster.list_errors.extend([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100)
    with pytest.raises(CommandError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        list_transactions(cluster.routing)


def test_an_unknown_state_and_a_wrong_pattern_are_misuse(cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="Asleep is not a state"):
        list_transactions(cluster.routing, states=["Asleep"])
    cluster.list_errors.append(ErrorCode.INVALID_REGULAR_EXPRESSION)
    with pytest.raises(UsageError, match="not a regular expression"):
        list_transactions(cluster.routing, pattern="[")


def test_each_coordinator_describes_its_own(cluster: Cluster) -> None:
    cluster.coordinated = {1: [transaction("b", 1, "Ongoing", 1, 0)], 2: [transaction("a", 2, "Empty")]}
    cluster.coordinated[2][0].transaction_start_time_ms = -1
    described, refused = describe_transactions(cluster.routing, ["a", "b", "c"])
    assert [(each.coordinator, each.transactional_id) for each in described] == [(1, "b"), (2, "a")]
    assert described[0].partitions == (("orders", 0), ("orders", 1))
    assert described[1].start_ms is None
    assert refused == {"c": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
    with pytest.raises(CommandError, match="there is no transactional id 'c'"):
        require_description(cluster.routing, "c")


def test_leaders_are_asked_for_their_producers_or_the_replica_that_was_named(cluster: Cluster) -> None:
    cluster.producers = {("orders", 1): [open_at(5), open_at(-1, 8)]}
    found = describe_producers(cluster.routing, [("orders", 0), ("orders", 1)])
    assert [each.start_offset for each in found[("orders", 1)]] == [5, None]
    assert [node for node, _, _ in cluster.asked] == [1, 2]
    describe_producers(cluster.routing, [("orders", 0)], broker_id=2)
    assert cluster.asked[-1][0] == 2
    for place, words in (
        (("orders", 9), "no partition 9"),
        (("x", 0), "there is no topic"),
        (("lost", 0), "no leader"),
    ):
        with pytest.raises(CommandError, match=words):
            describe_producers(cluster.routing, [place])
    with pytest.raises(CommandError, match="there is no broker 5: there are 1, 2"):
        describe_producers(cluster.routing, [("orders", 0)], broker_id=5)


def test_the_places_to_look_at(cluster: Cluster) -> None:
    everything = [("orders", 0), ("orders", 1)]  # without the partition that has no leader
    assert choose_places(cluster.routing, None, None, None) == everything
    assert choose_places(cluster.routing, "orders", 1, None) == [("orders", 1)]
    assert choose_places(cluster.routing, None, None, 3) == [("lost", 0)]
    with pytest.raises(CommandError, match="there is no topic"):
        choose_places(cluster.routing, "x", None, None)


def hanging(cluster: Cluster, older_than_ms: int = 15 * MINUTE_MS) -> list[tuple[str, int]]:
    places = choose_places(cluster.routing, None, None, None)
    return [each.place for each in find_hanging(cluster.routing, places, older_than_ms, NOW_MS)]


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
    found = producer_at(cluster.routing, ("orders", 1), 5)
    numbers = (found.producer_id, found.producer_epoch, found.coordinator_epoch)
    abort_hanging(cluster.routing, ("orders", 1), *numbers, force=False)
    ((node, request, _),) = cluster.of(WriteTxnMarkersRequest)
    (marker,) = request.markers
    assert node == 2
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 6)
    assert marker.transaction_result is False
    with pytest.raises(CommandError, match="no transaction that begins at offset 6"):
        producer_at(cluster.routing, ("orders", 1), 6)


def test_an_unknown_coordinator_epoch_is_written_as_zero_and_a_refusal_is_told(cluster: Cluster) -> None:
    cluster.marker_error = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    with pytest.raises(CommandError, match=r"orders-0: .*TRANSACTION_COORDINATOR_FENCED"):
        write_abort_marker(cluster.routing, ("orders", 0), 7, 3, -1)
    ((_, request, _),) = cluster.of(WriteTxnMarkersRequest)
    assert request.markers[0].coordinator_epoch == 0


def test_a_known_transaction_is_not_torn_unless_forced(cluster: Cluster) -> None:
    cluster.coordinated[1] = [transaction("billing", 7, "Ongoing", 0, 1)]
    with pytest.raises(CommandError, match="moldau transactions terminate billing"):
        abort_hanging(cluster.routing, ("orders", 0), 7, 3, -1, force=False)
    assert cluster.of(WriteTxnMarkersRequest) == []
    abort_hanging(cluster.routing, ("orders", 0), 7, 3, -1, force=True)
    assert len(cluster.of(WriteTxnMarkersRequest)) == 1


def test_fencing_waits_until_everything_is_aborted(cluster: Cluster) -> None:
    cluster.coordinated[2] = [transaction("billing", 7, "Ongoing", 0)]
    cluster.init_answers.extend([ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS, 0])
    assert fence(cluster.routing, "billing", 50_000) == (9, 4)
    requests = cluster.of(InitProducerIdRequest)
    assert [node for node, _, _ in requests] == [2, 2, 2]
    assert {(each.transactional_id, each.producer_id) for _, each, _ in requests} == {("billing", -1)}
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
        fence(cluster.routing, "billing", 50_000)


@pytest.mark.parametrize(
    ("request_", "version", "head"),
    [
        (FindCoordinatorRequest(key="t", key_type=1), 2, b"\0\x0a\0\2\0\0\0\0\0\x0amoldau-cli\0\1t"),
        (ListTransactionsRequest(), 0, b"\0\x42\0\0\0\0\0\0\0\x0amoldau-cli\0"),
    ],
)
def test_a_request_has_the_header_of_its_version_and_so_has_the_answer(
    request_: Message, version: int, head: bytes
) -> None:
    answer = type(request_).RESPONSE()
    tags = b"\0" if request_.is_flexible(version) else b""
    received, server = _one_answer(b"\0\0\0\0" + tags + answer.encode(version))
    address = server.getsockname()[:2]
    assert type(ask_message(address, request_, version, 5.0)) is type(answer)
    assert bytes(received)[4:].startswith(head)


def test_an_answer_without_sense_is_told(cluster: Cluster) -> None:
    _, server = _one_answer(b"\0\0\0\0\0\0\0\0")
    with pytest.raises(CommandError, match="does not know ListTransactions version 0"):
        ask_message(server.getsockname()[:2], ListTransactionsRequest(), 0, 5.0)


def _one_answer(body: bytes) -> tuple[bytearray, socket.socket]:
    """A listener that answers its first connection's first request with `body`."""
    server = socket.create_server(("127.0.0.1", 0))
    received = bytearray()

    def serve() -> None:
        connection, _ = server.accept()
        with connection, server:
            received.extend(connection.recv(65536))
            connection.sendall(len(body).to_bytes(4, "big") + body)

    threading.Thread(target=serve, daemon=True).start()
    return received, server
