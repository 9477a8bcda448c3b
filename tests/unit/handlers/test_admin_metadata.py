"""Metadata, DescribeCluster and DescribeTopicPartitions, through their bytes."""

import asyncio

import pytest
from admin_world import ask, every_version, start

from moldau.broker.controller.decision import Decision
from moldau.broker.controller.topics import NewTopic
from moldau.broker.handlers.apis.cluster import describe_cluster  # noqa: F401
from moldau.broker.handlers.apis.topics import describe_topic_partitions, metadata  # noqa: F401
from moldau.broker.metadata.changes import BrokerFenced, PartitionChanged
from moldau.broker.metadata.image import PartitionState
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.common.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


def scenario(tmp_path, body, **texts):
    async def run():
        broker = await start(tmp_path, **texts)
        try:
            await broker.controller.create_topics([NewTopic("a", 2), NewTopic("b")])
            await body(broker)
        finally:
            await broker.controller.this_broker.close()

    asyncio.run(run())


def named(*names):
    return [MetadataRequestTopic(name=name) for name in names]


@pytest.mark.parametrize("version", every_version(MetadataRequest))
def test_all_topics_and_none(tmp_path, version):
    async def body(broker):
        everything = MetadataRequest(topics=[] if version == 0 else None)
        for _ in range(2):
            answer = await ask(broker, everything, version)
            assert sorted(topic.name for topic in answer.topics) == ["a", "b"]
        (one,) = answer.brokers
        assert (one.node_id, one.host, one.port) == (1, "127.0.0.1", 9092)
        (first, second) = next(topic for topic in answer.topics if topic.name == "a").partitions
        assert (first.leader_id, first.replica_nodes, first.isr_nodes, first.offline_replicas) == (
            1,
            [1],
            [1],
            [],
        )
        assert second.partition_index == 1
        if version >= 1:
            assert one.rack == "r1"
            assert answer.controller_id == 1
            assert (await ask(broker, MetadataRequest(topics=[]), version)).topics == []
        if version >= 2:
            assert answer.cluster_id == broker.metadata.image.cluster_id
        if version >= 7:
            assert first.leader_epoch == 0
        if version >= 10:
            assert answer.topics[0].topic_id in broker.metadata.image.topic_names

    scenario(tmp_path, body)


@pytest.mark.parametrize("version", every_version(MetadataRequest))
def test_missing_topics_are_created_where_that_is_allowed(tmp_path, version):
    async def body(broker):
        request = MetadataRequest(topics=named("a", "new", "bad name", "a"))
        answer = await ask(broker, request, version)
        assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in answer.topics] == [
            ("a", 0, 2),
            ("new", 0, 3),
            ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
        ]
        if version >= 4:
            request = MetadataRequest(topics=named("other"), allow_auto_topic_creation=False)
            (topic,) = (await ask(broker, request, version)).topics
            assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert "other" not in broker.metadata.image.topics

    scenario(tmp_path, body, num_partitions="3")


def test_missing_topics_are_not_created_where_it_is_switched_off(tmp_path):
    async def body(broker):
        answer = await ask(broker, MetadataRequest(topics=named("new", "__consumer_offsets", "?")))
        assert [(topic.error_code, topic.is_internal) for topic in answer.topics] == [
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
            (ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        ]

    scenario(tmp_path, body, auto_create_topics_enable="false")


def test_a_topic_that_cannot_be_created_says_why(tmp_path):
    async def body(broker):
        answer = await ask(broker, MetadataRequest(topics=named("new")))
        assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR

    scenario(tmp_path, body, default_replication_factor="3")


def test_several_askers_at_once_create_a_topic_once(tmp_path):
    async def body(broker):
        answers = await asyncio.gather(*(ask(broker, MetadataRequest(topics=named("new"))) for _ in range(5)))
        assert {answer.topics[0].topic_id for answer in answers} == {
            broker.metadata.image.topics["new"].topic_id
        }

    scenario(tmp_path, body)


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(tmp_path, version):
    async def body(broker):
        topic_id = broker.metadata.image.topics["a"].topic_id
        asked = [MetadataRequestTopic(name=None, topic_id=one) for one in (topic_id, b"?" * 16)]
        known, unknown = (await ask(broker, MetadataRequest(topics=asked), version)).topics
        assert (known.name, known.error_code, len(known.partitions)) == ("a", 0, 2)
        assert (unknown.name, unknown.error_code, unknown.topic_id) == (
            None,
            ErrorCode.UNKNOWN_TOPIC_ID,
            b"?" * 16,
        )

    scenario(tmp_path, body)


def test_addresses_are_those_of_the_listener(tmp_path):
    async def body(broker):
        answer = await ask(broker, MetadataRequest(topics=None), listener="OUTSIDE")
        assert (answer.brokers[0].host, answer.brokers[0].port) == ("kafka.example", 19092)
        answer = await ask(broker, MetadataRequest(topics=None), listener="PLAINTEXT")
        assert answer.brokers[0].port == 9092
        for version, code in [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)]:
            answer = await ask(broker, MetadataRequest(topics=named("a")), version, listener="INSIDE")
            assert answer.brokers == []
            partition = answer.topics[0].partitions[0]
            assert (partition.error_code, partition.leader_id, partition.offline_replicas) == (code, -1, [1])

    scenario(tmp_path, body)


def test_permitted_operations_on_request(tmp_path):
    async def body(broker):
        answer = await ask(broker, MetadataRequest(topics=None), 8)
        assert (
            answer.cluster_authorized_operations == answer.topics[0].topic_authorized_operations == -(2**31)
        )
        request = MetadataRequest(
            topics=None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
        )
        answer = await ask(broker, request, 8)
        assert answer.topics[0].topic_authorized_operations == 0b110111111000
        assert answer.cluster_authorized_operations == 0b1111110100000

    scenario(tmp_path, body)


def test_a_new_image_is_told_at_once_and_a_lost_leader_is_an_error(tmp_path):
    async def body(broker):
        everything = MetadataRequest(topics=None)
        await ask(broker, everything)
        await broker.controller.decide(
            lambda image: Decision([PartitionChanged("b", 0, PartitionState(-1, 1, 1, (1,), (1,)))], None)
        )
        answer = await ask(broker, everything)
        (partition,) = next(topic for topic in answer.topics if topic.name == "b").partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)

    scenario(tmp_path, body)


@pytest.mark.parametrize("version", every_version(DescribeClusterRequest))
def test_describe_cluster(tmp_path, version):
    async def body(broker):
        answer = await ask(
            broker, DescribeClusterRequest(include_cluster_authorized_operations=True), version
        )
        assert (answer.error_code, answer.cluster_id) == (0, broker.metadata.image.cluster_id)
        assert (answer.brokers[0].broker_id, answer.brokers[0].rack, answer.controller_id) == (1, "r1", 1)
        assert answer.cluster_authorized_operations == 0b1111110100000
        if version >= 1:
            answer = await ask(broker, DescribeClusterRequest(endpoint_type=2), version)
            assert answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
            answer = await ask(broker, DescribeClusterRequest(endpoint_type=3), version)
            assert answer.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        if version >= 2:
            await broker.controller.decide(lambda image: Decision([BrokerFenced(1, True)], None))
            assert (await ask(broker, DescribeClusterRequest(), version)).brokers == []
            answer = await ask(broker, DescribeClusterRequest(include_fenced_brokers=True), version)
            assert answer.brokers[0].is_fenced

    scenario(tmp_path, body)


def pages(tmp_path, limit, topics=(), **texts):
    found = []

    async def body(broker):
        await broker.controller.create_topics([NewTopic("c", 5), NewTopic("d")])
        cursor = None
        for _ in range(20):
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in topics],
                response_partition_limit=limit,
                cursor=cursor,
            )
            answer = await ask(broker, request)
            found.append(
                [(t.name, t.error_code, [p.partition_index for p in t.partitions]) for t in answer.topics]
            )
            cursor = answer.next_cursor
            if cursor is None:
                return
            cursor = Cursor(topic_name=cursor.topic_name, partition_index=cursor.partition_index)

    scenario(tmp_path, body, **texts)
    return found


def test_pages_of_partitions(tmp_path):
    assert pages(tmp_path / "1", 100) == [
        [("a", 0, [0, 1]), ("b", 0, [0]), ("c", 0, [0, 1, 2, 3, 4]), ("d", 0, [0])]
    ]
    assert pages(tmp_path / "2", 3) == [
        [("a", 0, [0, 1]), ("b", 0, [0])],
        [("c", 0, [0, 1, 2])],
        [("c", 0, [3, 4]), ("d", 0, [0])],
    ]
    assert pages(tmp_path / "3", 100, max_request_partition_size_limit="8")[-1] == [("d", 0, [0])]
    assert pages(tmp_path / "4", 2, ["d", "x", "b", "bad name"]) == [
        [
            ("b", 0, [0]),
            ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION, []),
            ("d", 0, [0]),
        ],
        [("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])],
    ]
