"""client/admin over a cluster that is a function: who is asked, again or not, and what a failure says."""

from __future__ import annotations

from typing import Any

import pytest
from fake_layout import FakeTime, Retriable, fake_layout

from moldau.client.admin import transactions
from moldau.client.admin.elections import PREFERRED, elect_leaders
from moldau.client.admin.layout import Layout
from moldau.client.admin.log_dirs import log_directories, log_directories_if_told
from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.quotas import ANY_NAME, find_quotas
from moldau.client.admin.routing import ask_broker
from moldau.client.errors import ClusterTimeout, UnknownTopic
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import describe_client_quotas as quotas
from moldau.common.protocol.messages import describe_log_dirs as dirs
from moldau.common.protocol.messages import elect_leaders as elections
from moldau.common.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from moldau.common.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.tools.shared.errors import error_name, explain_kafka_failure

PLACES = {("orders", 0): (1, 2), ("orders", 1): (2, 1)}


class Moving:
    """Two brokers: the coordinator of every transactional id moves from the first to the second."""

    def __init__(self, error_code: int) -> None:
        self.error_code = error_code
        self.asked: list[int] = []
        self.looked_up = 0
        self.time = FakeTime()
        self.layout: Layout = fake_layout([1, 2], PLACES, self.answer, self.time)

    def answer(self, broker: int, request: Any) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            self.looked_up += 1
            node = 1 if self.looked_up == 1 else 2
            row = Coordinator(key=request.coordinator_keys[0], node_id=node, host="host", port=node)
            return FindCoordinatorResponse(coordinators=[row])
        assert isinstance(request, DescribeTransactionsRequest)
        self.asked.append(broker)
        return DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(
                    transactional_id=name,
                    error_code=self.error_code if broker == 1 else 0,
                    transaction_state="Empty",
                )
                for name in request.transactional_ids
            ]
        )


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_up_anew(code: ErrorCode) -> None:
    world = Moving(code)
    (found,), refused = transactions.describe_transactions(world.layout.cluster, ["t"])
    assert (found.coordinator, found.state, refused) == (2, "Empty", {})
    assert (world.asked, world.looked_up, world.time.naps) == ([1, 2], 2, 1)


def test_an_id_that_is_refused_is_not_asked_for_again() -> None:
    world = Moving(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    described, refused = transactions.describe_transactions(world.layout.cluster, ["t"])
    assert (described, refused) == ([], {"t": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
    assert (world.asked, world.time.naps) == ([1], 0)


def test_a_listed_coordinator_needs_no_look_up() -> None:
    world = Moving(ErrorCode.NONE)
    listed = [transactions.Listing("t", 2, 7, "Empty")]
    transactions.describe_transactions(world.layout.cluster, ["t"], listed)
    assert (world.asked, world.looked_up) == ([2], 0)


def electing(code: int) -> tuple[Layout, list[int]]:
    asked: list[int] = []

    def answer(broker: int, request: Any) -> Any:
        asked.append(broker)
        rows = [
            elections.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    elections.PartitionResult(
                        partition_id=index, error_code=ErrorCode.ELECTION_NOT_NEEDED, error_message=None
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions
        ]
        return elections.ElectLeadersResponse(error_code=code, replica_election_results=rows)

    return fake_layout([1, 2], PLACES, answer), asked


def test_the_controller_elects_and_says_what_came_of_it() -> None:
    layout, asked = electing(0)
    found = elect_leaders(layout.cluster, PREFERRED, layout.partitions, 1.0)
    assert [(each.place, each.is_needless) for each in found] == [
        (("orders", 0), True),
        (("orders", 1), True),
    ]
    assert asked == [1]


def test_a_timeout_has_the_code_that_was_answered_last() -> None:
    layout, asked = electing(ErrorCode.NOT_CONTROLLER)
    with pytest.raises(ClusterTimeout) as late:
        elect_leaders(layout.cluster, PREFERRED, layout.partitions, 1.0)
    assert len(asked) > 3
    assert error_name(late.value) == "NOT_CONTROLLER"


def test_a_broker_that_does_not_answer_is_waited_for_or_not() -> None:
    asked: list[int] = []

    def answer(broker: int, request: Any) -> Any:
        asked.append(broker)
        if len(asked) < 3:
            raise Retriable("the connection broke")
        row = dirs.DescribeLogDirsPartition(partition_index=0, partition_size=5)
        topic = dirs.DescribeLogDirsTopic(name="orders", partitions=[row])
        return dirs.DescribeLogDirsResponse(
            results=[dirs.DescribeLogDirsResult(log_dir="/d", topics=[topic])]
        )

    cluster = fake_layout([1, 2], PLACES, answer).cluster
    assert log_directories_if_told(cluster, 2) == []
    (found,) = log_directories(cluster, 2)
    assert (found.path, found.used_bytes, asked) == ("/d", 5, [2, 2, 2])


def test_an_old_broker_is_not_asked_what_it_would_misunderstand() -> None:
    layout = fake_layout([1], {}, lambda broker, request: pytest.fail("it was asked"))
    with pytest.raises(KafkaProblem, match="too old") as refused:
        ask_broker(layout.cluster, 1, dirs.DescribeLogDirsRequest(), at_least=99)
    assert refused.value.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_filter_of_quotas_says_which_names_are_meant() -> None:
    seen: list[tuple[str, int, str | None]] = []

    def answer(_: int, request: quotas.DescribeClientQuotasRequest) -> Any:
        seen.extend((each.entity_type, each.match_type, each.match) for each in request.components)
        return quotas.DescribeClientQuotasResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None, entries=None
        )

    cluster = fake_layout([1], {}, answer).cluster
    with pytest.raises(KafkaProblem) as refused:
        find_quotas(cluster, {"user": "alice", "client-id": None, "ip": ANY_NAME}, strict=False)
    assert seen == [("user", 0, "alice"), ("client-id", 1, None), ("ip", 2, None)]
    told = explain_kafka_failure(refused.value) or ""
    assert "(CLUSTER_AUTHORIZATION_FAILED): log in as somebody who may" in told


def test_a_topic_that_is_not_there_is_told_with_what_to_type() -> None:
    layout = fake_layout([1, 2], PLACES, lambda broker, request: None)
    with pytest.raises(UnknownTopic) as missing:
        layout.leader(("nowhere", 0))
    assert missing.value.topic == "nowhere"
    assert "`moldau topics list`" in (explain_kafka_failure(missing.value) or "")
    with pytest.raises(UnknownTopic, match="orders has no partition 7") as partition:
        layout.leader(("orders", 7))
    assert not partition.value.topic
