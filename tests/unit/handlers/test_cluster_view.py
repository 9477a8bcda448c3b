"""What clients and administrators see of three brokers, whichever of them they ask."""

import asyncio
from pathlib import Path

import pytest
from brokers_world import Brokers, ask, until, with_brokers

from moldau.broker.controller.configs import AlterResource
from moldau.broker.metadata.changes import BrokerFenced, BrokerUnregistered, PartitionChanged, ReplicasOffline
from moldau.broker.metadata.image import ResourceType
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.common.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.common.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.common.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.common.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.common.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from moldau.common.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.common.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

ALL = (1, 2, 3)


@pytest.mark.parametrize("version", [1, 5, 7, 13])
def test_metadata_is_the_same_on_every_broker(tmp_path: Path, version: int) -> None:
    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (1, 2, 3), (2, 3, 1))
        for listener, at in (("PLAINTEXT", 0), ("OTHER", 1)):
            ports = {node_id: node.listeners.all[at].port for node_id, node in brokers.nodes.items()}
            for node in brokers.nodes.values():
                answer = await ask(node, MetadataRequest(topics=None), version, listener)
                assert {one.node_id: (one.port, one.rack) for one in answer.brokers} == {
                    node_id: (port, f"rack-{node_id}") for node_id, port in ports.items()
                }
                assert answer.controller_id == node.metadata.image.controller_id
                (topic,) = answer.topics
                rows = [(row.leader_id, row.replica_nodes, row.isr_nodes) for row in topic.partitions]
                assert rows == [(1, [1, 2, 3], [1, 2, 3]), (2, [2, 3, 1], [2, 3, 1])]

    with_brokers(tmp_path, ALL, scene)


def test_a_broker_that_is_gone_and_a_log_directory_that_is_lost(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (1, 2, 3), (2, 3, 1))
        node = brokers.nodes[3]
        topic_id = node.metadata.image.topics["t"].topic_id
        await brokers.decided(ReplicasOffline(2, ((topic_id, (1,)),)))

        async def seen() -> tuple[list[tuple[int, int, list[int]]], list[int]]:
            metadata = await ask(node, MetadataRequest(topics=None))
            described = await ask(node, DescribeTopicPartitionsRequest(response_partition_limit=10))
            rows = [
                [(row.error_code, row.leader_id, row.offline_replicas) for row in partitions]
                for partitions in (metadata.topics[0].partitions, described.topics[0].partitions)
            ]
            assert rows[0] == rows[1]
            return rows[0], [one.node_id for one in metadata.brokers]

        assert await seen() == ([(0, 1, []), (0, 2, [2])], [1, 2, 3])
        await brokers.decided(BrokerFenced(2, True))
        gone = int(ErrorCode.LEADER_NOT_AVAILABLE)
        assert await seen() == ([(0, 1, [2]), (gone, -1, [2])], [1, 3])
        cluster = await ask(node, DescribeClusterRequest(include_fenced_brokers=True))
        assert [(one.broker_id, one.is_fenced) for one in cluster.brokers] == [
            (1, False),
            (2, True),
            (3, False),
        ]
        cluster = await ask(node, DescribeClusterRequest())
        assert [one.broker_id for one in cluster.brokers] == [1, 3]
        await brokers.decided(BrokerUnregistered(2))
        assert await seen() == ([(0, 1, [2]), (gone, -1, [2])], [1, 3])

    with_brokers(tmp_path, ALL, scene, replicates=False)


def test_the_first_version_leaves_out_replicas_that_are_gone(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (1, 2, 3), (2, 3, 1))
        node = brokers.nodes[3]

        async def seen(version: int) -> list[tuple[int, int, list[int], list[int]]]:
            metadata = await ask(node, MetadataRequest(topics=None if version else []), version)
            rows = metadata.topics[0].partitions
            return [(row.error_code, row.leader_id, row.replica_nodes, row.isr_nodes) for row in rows]

        assert await seen(0) == await seen(1)
        await brokers.decided(BrokerFenced(2, True))
        gone, lacks = int(ErrorCode.LEADER_NOT_AVAILABLE), int(ErrorCode.REPLICA_NOT_AVAILABLE)
        assert await seen(0) == [
            (lacks, 1, [1, 3], [1, 3]),
            (gone, -1, [3, 1], [3, 1]),
        ]
        assert [row[:3] for row in await seen(1)] == [
            (0, 1, [1, 2, 3]),
            (gone, -1, [2, 3, 1]),
        ]

    with_brokers(tmp_path, ALL, scene, replicates=False)


def test_without_a_controller_administrators_are_sent_to_the_broker_that_answers(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        controller_id = brokers.ensemble.image.controller_id
        await brokers.decided(BrokerFenced(controller_id, True))
        for node_id, node in brokers.nodes.items():
            expected = controller_id if node_id == controller_id else node_id
            assert (await ask(node, MetadataRequest(topics=[]))).controller_id == expected
            assert (await ask(node, DescribeClusterRequest())).controller_id == expected

    with_brokers(tmp_path, ALL, scene)


def test_eligible_leaders_are_described(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (1, 2, 3))
        state = brokers.nodes[1].metadata.image.topics["t"].partitions[0]
        await brokers.decided(PartitionChanged("t", 0, state._replace(isr=(1,), elr=(3,), partition_epoch=9)))
        for node in brokers.nodes.values():
            answer = await ask(node, DescribeTopicPartitionsRequest(response_partition_limit=10))
            (row,) = answer.topics[0].partitions
            assert (row.isr_nodes, row.eligible_leader_replicas) == ([1], [3])

    with_brokers(tmp_path, ALL, scene, replicates=False)


def test_any_broker_creates_topics_and_all_of_them_lead(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        for node_id, node in brokers.nodes.items():
            name = f"by-{node_id}"
            request = CreateTopicsRequest(
                topics=[CreatableTopic(name=name, num_partitions=6, replication_factor=3)]
            )
            answer = await ask(node, request)
            assert answer.topics[0].error_code == 0
            # Who answers is in step. Others may not know the topic yet, which is retriable, or they do.
            for other in brokers.nodes.values():
                asked = MetadataRequest(
                    topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
                )
                (topic,) = (await ask(other, asked)).topics
                assert topic.error_code in (
                    (0,) if other is node else (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                )
            await brokers.in_step()
            leaders = [state.leader for state in node.metadata.image.topics[name].partitions]
            assert sorted(set(leaders)) == [1, 2, 3]
        answer = await ask(
            brokers.nodes[2],
            CreateTopicsRequest(topics=[CreatableTopic(name="wide", num_partitions=1, replication_factor=4)]),
        )
        assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert "3" in answer.topics[0].error_message

    with_brokers(tmp_path, ALL, scene)


def test_several_brokers_that_are_asked_for_a_missing_topic_create_it_once(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
        answers = await asyncio.gather(*(ask(node, request) for node in brokers.nodes.values()))
        codes = {answer.topics[0].error_code for answer in answers}
        assert codes <= {0, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
        await brokers.in_step()
        made = brokers.ensemble.image.topics["new"].topic_id
        ids = {answer.topics[0].topic_id for answer in answers if answer.topics[0].error_code == 0}
        assert ids == {made}

    with_brokers(tmp_path, ALL, scene)


def test_only_the_leader_answers_for_offsets(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (1, 2))
        for time in (-1, -2, -3, 0):
            offsets = ListOffsetsRequest(
                topics=[
                    ListOffsetsTopic(
                        name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=time)]
                    )
                ]
            )
            codes = [
                (await ask(node, offsets)).topics[0].partitions[0].error_code
                for node in brokers.nodes.values()
            ]
            assert codes == [0] + [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2, time
        epochs = OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)]
                )
            ]
        )
        deletes = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
            ]
        )
        for request in (epochs, deletes):
            codes = [
                (await ask(node, request)).topics[0].partitions[0].error_code
                for node in brokers.nodes.values()
            ]
            assert codes == [0] + [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        producers = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
        codes = [
            (await ask(node, producers)).topics[0].partitions[0].error_code for node in brokers.nodes.values()
        ]
        assert codes == [0, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER], "any replica"

    with_brokers(tmp_path, ALL, scene)


def test_settings_of_another_broker(tmp_path: Path) -> None:
    """A broker describes its own; those that are changed for one broker take effect there."""

    async def scene(brokers: Brokers) -> None:
        node, other = brokers.nodes[1], brokers.nodes[2]

        async def described(asked: object, name: str) -> tuple[int, str | None]:
            resource = DescribeConfigsResource(
                resource_type=ResourceType.BROKER, resource_name=name, configuration_keys=["log.retention.ms"]
            )
            (result,) = (await ask(asked, DescribeConfigsRequest(resources=[resource]))).results  # type: ignore[arg-type]
            return result.error_code, result.configs[0].value if result.configs else result.error_message

        code, message = await described(node, "2")
        assert code == ErrorCode.INVALID_REQUEST
        assert message == "Unexpected broker id, expected 1 or empty string, but received 2"
        change = AlterResource(ResourceType.BROKER, "2", [("log.retention.ms", 0, "777")])
        ((_, outcome),) = await other.controller.alter_configs([change])
        assert not outcome.failed, outcome.message
        await brokers.in_step()
        assert await described(other, "2") == (0, "777")
        assert (await described(node, "1"))[1] != "777"
        await until(lambda: other.settings().log_retention_ms == 777)
        assert node.settings().log_retention_ms != 777

    with_brokers(tmp_path, ALL, scene)
