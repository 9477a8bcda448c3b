"""Handlers whose work grows with the request or the cluster do it in steps, and what is named twice costs no
more than once where Kafka lets us choose.

What is counted are the places where a handler hands the loop back, not time.
"""

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from data_plane_world import on_a_node, partition_of

from moldau.broker.handlers.apis.configs import describe_configs
from moldau.broker.handlers.apis.topics.delete_records import delete_all
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.node import Node
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.common.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.common.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from moldau.common.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.common.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from moldau.common.protocol.messages.describe_topic_partitions import (
    TopicRequest as DescribedTopic,
)
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.common.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

ROWS = 300


def begun(node: Node, request: Any, version: int | None = None) -> Any:
    entry = TABLE[type(request).KEY]
    return entry.handler(node.broker, context_of(request, version), request)


def context_of(request: Any, version: int | None = None) -> RequestContext:
    version = TABLE[type(request).KEY].max_version if version is None else version
    return RequestContext(version, 1, Session("PLAINTEXT", client_host="127.0.0.1", client_id="test"))


def counted(steps: Generator[None, None, Any]) -> tuple[Any, int]:
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value, count
        count += 1


MANY = [
    MetadataRequest(
        topics=[MetadataRequestTopic(name=f"t{i}") for i in range(ROWS)], allow_auto_topic_creation=False
    ),
    OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="a", partitions=[OffsetForLeaderPartition()] * ROWS)]
    ),
    DescribeProducersRequest(topics=[TopicRequest(name="a", partition_indexes=list(range(ROWS)))]),
    DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="a", partitions=list(range(ROWS)))]),
    DescribeTopicPartitionsRequest(topics=[DescribedTopic(name=f"t{i}") for i in range(ROWS)]),
    DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=2, resource_name=f"t{i}") for i in range(ROWS)]
    ),
]


@pytest.mark.parametrize("request_", MANY, ids=lambda request: type(request).__name__)
def test_many_rows_are_answered_in_as_many_steps(request_: Any, tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        _, steps = counted(begun(node, request_))
        assert steps >= ROWS

    on_a_node(scene, tmp_path)


def test_records_of_many_partitions_are_deleted_in_steps(tmp_path: Path) -> None:
    rows = [DeleteRecordsPartition(partition_index=i) for i in range(ROWS)]

    async def scene(node: Node) -> None:
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="a", partitions=rows)])
        (answer, pending), steps = counted(delete_all(node.broker, context_of(request), request, []))
        assert steps >= ROWS
        assert len(answer.topics[0].partitions) == ROWS
        assert pending == []

    on_a_node(scene, tmp_path)


def test_a_small_request_about_a_large_cluster_is_answered_in_steps(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        await node.controller.auto_create_topics([f"many{i}" for i in range(ROWS)])
        for request in (MetadataRequest(topics=None), DescribeLogDirsRequest(topics=None)):
            _, steps = counted(begun(node, request))
            assert steps >= 2 * ROWS
        _, again = counted(begun(node, MetadataRequest(topics=None)))
        assert again == 0  # kept until the metadata change

    on_a_node(scene, tmp_path)


def test_an_answer_about_all_topics_is_not_kept_for_an_image_that_came_meanwhile(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        steps = begun(node, MetadataRequest(topics=None), 9)
        next(steps)
        await node.controller.auto_create_topics(["later"])
        old, _ = counted(steps)
        assert b"later" not in old.encode(9)
        new, _ = counted(begun(node, MetadataRequest(topics=None), 9))
        assert b"later" in new.encode(9)

    on_a_node(scene, tmp_path)


def test_a_resource_that_is_named_often_is_described_once(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        resources = [DescribeConfigsResource(resource_type=4, resource_name="1")] * 20_000
        answer, _ = counted(begun(node, DescribeConfigsRequest(resources=resources)))
        assert len(answer.results) == 1
        assert len(answer.encode(4)) < 200_000

    on_a_node(scene, tmp_path)


def test_more_resources_than_one_answer_may_hold_are_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_configs, "RESOURCES_MAX", 3)

    async def scene(node: Node) -> None:
        resources = [DescribeConfigsResource(resource_type=32, resource_name=f"g{i}") for i in range(5)]
        answer, _ = counted(begun(node, DescribeConfigsRequest(resources=resources)))
        codes = [result.error_code for result in answer.results]
        assert codes == [0, 0, 0, ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION]
        assert not answer.results[-1].configs
        assert answer.results[0].configs

    on_a_node(scene, tmp_path)


def test_a_partition_that_is_named_often_is_answered_once(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        partition_of(node, "a")
        asked = [TopicRequest(name="a", partition_indexes=[0] * 50)] * 3
        answer, _ = counted(begun(node, DescribeProducersRequest(topics=asked)))
        assert sum(len(topic.partitions) for topic in answer.topics) == 1
        rows = [DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (7, 9, 0)]
        deletes = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="a", partitions=rows)])
        (deleted, _), _ = counted(delete_all(node.broker, context_of(deletes), deletes, []))
        (row,) = deleted.topics[0].partitions
        assert row.error_code == 0  # the last row counts: 7 and 9 would be out of range

    on_a_node(scene, tmp_path)


def test_more_missing_topics_than_may_be_created_at_once_are_unknown(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        asked = [MetadataRequestTopic(name=f"many{i}") for i in range(5_001)]
        answer = await asyncio.wait_for(begun(node, MetadataRequest(topics=asked), 9), 60)
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert set(node.metadata.image.topics) == {"a", "b"}

    on_a_node(scene, tmp_path)
