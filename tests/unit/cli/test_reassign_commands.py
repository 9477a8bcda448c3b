"""`moldau topics reassign` and `elect`, `moldau brokers rebalance`: plans, and what the brokers are asked."""

import json
from typing import Any

import pytest
from fake_layout import Retriable, fake_layout

from moldau.client.admin.log_dirs import prefer_directories
from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.reassignments import throttled_topics
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import alter_replica_log_dirs as log_dirs
from moldau.common.protocol.messages import describe_configs, describe_log_dirs
from moldau.common.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from moldau.common.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.common.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from moldau.tools.commands.brokers.rebalance import partition_sizes
from moldau.tools.commands.topics.reassign_plan import parse_plan, plan_json, spread
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.moving import Moving

RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}


class Brokers:
    """Answers as brokers would; each move takes two looks."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Any]] = []
        self.under_way: dict[tuple[str, int], int] = {}
        self.refused: dict[tuple[str, int], int] = {}
        self.most_at_once = 0
        self.directory_error = 0
        self.layout = fake_layout(list(RACKS), {("t", index): (1, 2) for index in range(5)}, self._ask)

    def _ask(self, broker: int, request: Any) -> Any:
        self.asked.append((broker, request))
        if isinstance(request, AlterPartitionReassignmentsRequest):
            return self._submitted(request)
        if isinstance(request, ListPartitionReassignmentsRequest):
            self.under_way = {place: left - 1 for place, left in self.under_way.items() if left}
            rows = [
                OngoingTopicReassignment(
                    name=name, partitions=[OngoingPartitionReassignment(partition_index=index)]
                )
                for name, index in self.under_way
            ]
            return ListPartitionReassignmentsResponse(topics=rows)
        if isinstance(request, IncrementalAlterConfigsRequest):
            return IncrementalAlterConfigsResponse()
        if isinstance(request, log_dirs.AlterReplicaLogDirsRequest):
            row = log_dirs.AlterReplicaLogDirPartitionResult(error_code=self.directory_error)
            return log_dirs.AlterReplicaLogDirsResponse(
                results=[log_dirs.AlterReplicaLogDirTopicResult(partitions=[row])]
            )
        raise AssertionError(request)

    def _submitted(self, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        rows = []
        for topic in request.topics:
            answers = []
            for each in topic.partitions:
                code = self.refused.get((topic.name, each.partition_index), 0)
                answers.append(
                    ReassignablePartitionResponse(partition_index=each.partition_index, error_code=code)
                )
                if not code:
                    self.under_way[topic.name, each.partition_index] = 2
            rows.append(ReassignableTopicResponse(name=topic.name, partitions=answers))
        self.most_at_once = max(self.most_at_once, len(self.under_way))
        return AlterPartitionReassignmentsResponse(responses=rows)

    def settings(self) -> list[tuple[str, str, str | None]]:
        """Resource, setting and value of every change, in order."""
        return [
            (resource.resource_name, config.name, config.value)
            for _, request in self.asked
            if isinstance(request, IncrementalAlterConfigsRequest)
            for resource in request.resources
            for config in resource.configs
        ]


def test_moves_are_made_some_at_a_time_and_the_throttle_is_removed() -> None:
    brokers, left = Brokers(), []
    targets = {("t", index): [3, 4] for index in range(5)}
    Moving(
        brokers.layout, targets, report=left.append, rate_bytes_per_second=7, at_once=2, sleep=lambda s: None
    ).run()
    assert brokers.most_at_once == 2
    assert left[0] == 5
    assert left[-1] == 0
    assert left == sorted(left, reverse=True)
    settings = brokers.settings()
    assert ("1", "leader.replication.throttled.rate", "7") in settings
    assert ("t", "leader.replication.throttled.replicas", "0:1,0:2,1:1,1:2") in settings
    assert ("t", "follower.replication.throttled.replicas", "0:3,0:4,1:3,1:4") in settings
    assert ("t", "leader.replication.throttled.replicas", None) in settings[-2:]
    assert not brokers.under_way


def test_what_is_refused_is_told() -> None:
    brokers = Brokers()
    brokers.refused = {("t", 3): ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    with pytest.raises(CommandError, match="t-3"):
        Moving(brokers.layout, {("t", index): [3, 4] for index in range(5)}).start()


def test_a_plan_of_kafkas_tool_is_read_and_written() -> None:
    rows = [
        {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/b"]},
        {"topic": "u", "partition": 3, "replicas": [3]},
    ]
    plan = parse_plan(json.dumps({"version": 1, "partitions": rows}))
    assert plan.targets == {("t", 0): [1, 2], ("u", 3): [3]}
    assert plan.directories == {(("t", 0), 2): "/b"}
    again = parse_plan(json.dumps(plan_json(plan.targets)))
    assert again.targets == plan.targets


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"partitions": []}',
        '{"version": 2, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": []}]}',
        '{"partitions": [{"topic": "t", "replicas": [1]}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]},'
        ' {"topic": "t", "partition": 0, "replicas": [2]}]}',
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="plan"):
        parse_plan(text)


def test_more_replicas_go_where_there_are_fewest_and_to_other_racks() -> None:
    replicas = {("t", 0): (1,), ("t", 1): (2,), ("u", 0): (4, 2)}
    targets = spread(replicas, [("t", 0), ("t", 1)], RACKS, 2)
    assert targets == {("t", 0): [1, 4], ("t", 1): [2, 3]}


def test_fewer_replicas_keep_the_leader_and_the_racks() -> None:
    assert spread({("t", 0): (1, 3, 2)}, [("t", 0)], RACKS, 2) == {("t", 0): [1, 2]}


def test_other_brokers_take_over_what_must_go() -> None:
    replicas = {("t", 0): (1, 2), ("t", 1): (3, 4)}
    assert spread(replicas, list(replicas), {3: "a", 4: "b"}) == {("t", 0): [4, 3]}
    with pytest.raises(CommandError, match="t-0 cannot have 2 replicas on 1 brokers"):
        spread(replicas, list(replicas), {3: "a"})


def test_directories_are_asked_for_at_their_brokers() -> None:
    brokers = Brokers()
    brokers.directory_error = ErrorCode.REPLICA_NOT_AVAILABLE
    prefer_directories(brokers.layout.cluster, {(("t", 0), 3): "/b"})
    ((broker, request),) = brokers.asked
    assert (broker, request.dirs[0].path, request.dirs[0].topics[0].name) == (3, "/b", "t")
    brokers.directory_error = ErrorCode.LOG_DIR_NOT_FOUND
    with pytest.raises(KafkaProblem, match="t-0 on broker 3"):
        prefer_directories(brokers.layout.cluster, {(("t", 0), 3): "/b"})


def test_sizes_and_throttles_are_read_from_the_cluster() -> None:
    def ask(broker: int, request: Any) -> Any:
        if isinstance(request, describe_configs.DescribeConfigsRequest):
            configs = [describe_configs.DescribeConfigsResourceResult(name="x", value="0:1")]
            rows = [
                describe_configs.DescribeConfigsResult(
                    resource_name=each.resource_name, configs=configs if each.resource_name == "u" else []
                )
                for each in request.resources
            ]
            return describe_configs.DescribeConfigsResponse(results=rows)
        if broker == 3:
            raise Retriable("away")
        part = describe_log_dirs.DescribeLogDirsPartition(partition_index=1, partition_size=10 * broker)
        topic = describe_log_dirs.DescribeLogDirsTopic(name="t", partitions=[part])
        return describe_log_dirs.DescribeLogDirsResponse(
            results=[describe_log_dirs.DescribeLogDirsResult(topics=[topic])]
        )

    layout = fake_layout([1, 2, 3], {("t", 1): (1,), ("u", 0): (1,)}, ask)
    assert partition_sizes(layout) == {("t", 1): 20}
    assert throttled_topics(layout) == ["u"]
