"""Emptying a broker of a cluster that is a dictionary: portions, a throttle, interruption, cancelling."""

from __future__ import annotations

from typing import Any

import pytest
from fake_layout import fake_layout

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from moldau.common.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.common.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from moldau.tools.commands.brokers.draining import Drain, cancel
from moldau.tools.commands.brokers.overview import IN_SERVICE, BrokerRow, Overview
from moldau.tools.shared.errors import CommandError

Place = tuple[str, int]


class FakeCluster:
    """Partitions and moves; each look at the moves finishes the oldest one, if `moves_end`."""

    def __init__(self, replicas: dict[Place, list[int]]) -> None:
        self.replicas = replicas
        self.targets: dict[Place, list[int]] = {}
        self.moves_end = True
        self.most_at_once = 0
        self.settings: dict[tuple[int, str], dict[str, str]] = {}
        self.throttled_while_moving: list[dict[str, str]] = []
        self.refuse: ErrorCode | None = None
        self.layout = fake_layout([1, 2, 3, 4], {}, self.ask)

    def ask(self, _broker: int, request: Any) -> Any:
        if isinstance(request, ListPartitionReassignmentsRequest):
            return self.list()
        if isinstance(request, IncrementalAlterConfigsRequest):
            return self.configure(request)
        assert isinstance(request, AlterPartitionReassignmentsRequest)
        return self.move(request)

    def list(self) -> ListPartitionReassignmentsResponse:
        answer = ListPartitionReassignmentsResponse(
            topics=[
                OngoingTopicReassignment(
                    name=name,
                    partitions=[
                        OngoingPartitionReassignment(
                            partition_index=index,
                            adding_replicas=[one for one in target if one not in self.replicas[name, index]],
                            removing_replicas=[
                                one for one in self.replicas[name, index] if one not in target
                            ],
                        )
                    ],
                )
                for (name, index), target in self.targets.items()
            ]
        )
        if self.targets and self.moves_end:
            place = next(iter(self.targets))
            self.replicas[place] = self.targets.pop(place)
        return answer

    def move(self, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        results = []
        for topic in request.topics:
            for each in topic.partitions:
                code = self.refuse or ErrorCode.NONE
                if code == ErrorCode.NONE and each.replicas is None:
                    del self.targets[topic.name, each.partition_index]
                elif code == ErrorCode.NONE:
                    self.targets[topic.name, each.partition_index] = each.replicas
                row = ReassignablePartitionResponse(
                    partition_index=each.partition_index, error_code=code, error_message=None
                )
                results.append(ReassignableTopicResponse(name=topic.name, partitions=[row]))
        self.most_at_once = max(self.most_at_once, len(self.targets))
        self.throttled_while_moving.append(
            {
                f"{kind}/{name}/{key}": value
                for (kind, name), each in self.settings.items()
                for key, value in each.items()
            }
        )
        return AlterPartitionReassignmentsResponse(error_message=None, responses=results)

    def configure(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        for resource in request.resources:
            own = self.settings.setdefault((resource.resource_type, resource.resource_name), {})
            for each in resource.configs:
                if each.config_operation == 1:
                    own.pop(each.name, None)
                else:
                    own[each.name] = each.value or ""
        return IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(error_message=None)])

    def look(self) -> Overview:
        rows = {number: BrokerRow(number, state=IN_SERVICE) for number in self.layout.brokers}
        return Overview("c", rows, {place: tuple(each) for place, each in self.replicas.items()})


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({("t", index): [1 + index % 3, 1 + (index + 1) % 3] for index in range(12)})


def drain(cluster: FakeCluster, **more: Any) -> tuple[int, list[int]]:
    shown: list[int] = []
    work = Drain(cluster.layout, 1, cluster.look, shown.append, sleep=lambda seconds: None, **more)
    return work.run(), shown


def test_everything_leaves_in_portions(cluster: FakeCluster) -> None:
    moved, shown = drain(cluster, at_once=3)
    assert moved == 8
    assert cluster.most_at_once == 3
    assert shown[0] == 8
    assert shown == sorted(shown, reverse=True)
    assert not [each for each in cluster.replicas.values() if 1 in each]
    assert not any(cluster.settings.values())


def test_moves_that_an_interrupted_drain_left_are_waited_for_and_not_asked_again(
    cluster: FakeCluster,
) -> None:
    cluster.targets[("t", 0)] = [4, 2]
    moved, _ = drain(cluster)
    assert moved == 7
    assert cluster.replicas[("t", 0)] == [4, 2]


def test_the_throttle_covers_the_moves_and_is_gone_afterwards(cluster: FakeCluster) -> None:
    drain(cluster, at_once=100, rate_bytes_per_second=5000)
    during = cluster.throttled_while_moving[0]
    assert during["4/4/follower.replication.throttled.rate"] == "5000"
    assert during["4/1/leader.replication.throttled.rate"] == "5000"
    assert "0:1,0:2" in during["2/t/leader.replication.throttled.replicas"]
    assert "0:3" in during["2/t/follower.replication.throttled.replicas"] or (
        "0:4" in during["2/t/follower.replication.throttled.replicas"]
    )
    assert not any(cluster.settings.values())


def test_a_refusal_is_said_and_takes_the_throttle_away(cluster: FakeCluster) -> None:
    cluster.refuse = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    with pytest.raises(CommandError, match=r"t-0: .*INVALID_REPLICA_ASSIGNMENT.*\(and 5 more\)"):
        drain(cluster, rate_bytes_per_second=5000)
    assert not any(cluster.settings.values())


def test_a_topic_deleted_meanwhile_is_no_failure(cluster: FakeCluster) -> None:
    asked = cluster.move

    def move(request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        cluster.replicas = {("other", 0): [2, 3]}
        cluster.refuse = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return asked(request)

    cluster.move = move  # type: ignore[method-assign]
    drain(cluster)


def test_cancelling_ends_the_moves_away_from_it_and_no_others(cluster: FakeCluster) -> None:
    cluster.moves_end = False
    cluster.targets = {("t", 0): [4, 2], ("t", 1): [2, 4]}
    assert cancel(cluster.layout, 1) == 1
    assert cluster.targets == {("t", 1): [2, 4]}
    assert cancel(cluster.layout, 1) == 0
