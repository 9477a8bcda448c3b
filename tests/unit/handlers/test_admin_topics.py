"""CreateTopics, DeleteTopics, CreatePartitions, ElectLeaders and reassignments, through their bytes."""

import asyncio

import pytest
from admin_world import ask, every_version, start

from moldau.broker.controller.decision import Outcome
from moldau.broker.handlers.apis.topics import (
    alter_partition_reassignments,  # noqa: F401
    create_partitions,  # noqa: F401
    create_topics,  # noqa: F401
    delete_topics,  # noqa: F401
    elect_leaders,  # noqa: F401
    list_partition_reassignments,  # noqa: F401
)
from moldau.common.core.ids import ZERO_UUID
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import alter_partition_reassignments as reassign
from moldau.common.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from moldau.common.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from moldau.common.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.common.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.common.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


def scenario(tmp_path, body, **texts):
    async def run():
        broker = await start(tmp_path, **texts)
        try:
            await body(broker)
        finally:
            await broker.controller.this_broker.close()

    asyncio.run(run())


def wanted(name, partitions=1, replication=1, **configs):
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        assignments=[],
        configs=[CreatableTopicConfig(name=n.replace("_", "."), value=v) for n, v in configs.items()],
    )


@pytest.mark.parametrize("version", every_version(CreateTopicsRequest))
def test_create_in_every_version(tmp_path, version):
    async def body(broker):
        request = CreateTopicsRequest(
            topics=[wanted("a", 3, retention_ms="5"), wanted("a b"), wanted("big", 1, 2)]
        )
        answer = await ask(broker, request, version)
        codes = {topic.name: topic.error_code for topic in answer.topics}
        assert codes == {
            "a": ErrorCode.NONE,
            "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "big": ErrorCode.INVALID_REPLICATION_FACTOR,
        }
        assert answer.topics[0].error_message is None
        assert "registered" in answer.topics[2].error_message
        topic = broker.metadata.image.topics["a"]
        assert len(topic.partitions) == 3
        if version >= 5:
            assert (answer.topics[0].num_partitions, answer.topics[0].replication_factor) == (3, 1)
            told = {config.name: (config.value, config.config_source) for config in answer.topics[0].configs}
            assert told["retention.ms"] == ("5", 1)
            assert told["cleanup.policy"] == ("delete", 5)
            assert (answer.topics[1].num_partitions, answer.topics[1].configs) == (-1, [])
        if version >= 7:
            assert answer.topics[0].topic_id == topic.topic_id

    scenario(tmp_path, body)


def test_create_by_assignment_and_by_defaults_and_only_validated(tmp_path):
    async def body(broker):
        by_hand = wanted("hand", -1, -1)
        by_hand.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
        answer = await ask(broker, CreateTopicsRequest(topics=[by_hand, wanted("default", -1, -1)]))
        assert [topic.error_code for topic in answer.topics] == [0, 0]
        assert len(broker.metadata.image.topics["default"].partitions) == 4
        answer = await ask(broker, CreateTopicsRequest(topics=[wanted("only")], validate_only=True))
        assert answer.topics[0].error_code == 0
        assert "only" not in broker.metadata.image.topics

    scenario(tmp_path, body, num_partitions="4")


@pytest.mark.parametrize("version", every_version(DeleteTopicsRequest))
def test_delete_in_every_version(tmp_path, version):
    async def body(broker):
        await ask(broker, CreateTopicsRequest(topics=[wanted("a"), wanted("b")]))
        topic_id = broker.metadata.image.topics["b"].topic_id
        if version < 6:
            request = DeleteTopicsRequest(topic_names=["a", "x"])
        else:
            request = DeleteTopicsRequest(
                topics=[
                    DeleteTopicState(name="a"),
                    DeleteTopicState(name="x"),
                    DeleteTopicState(topic_id=topic_id),
                    DeleteTopicState(topic_id=b"?" * 16),
                ]
            )
        answer = await ask(broker, request, version)
        codes = [one.error_code for one in answer.responses]
        assert codes[:2] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        if version >= 6:
            assert codes[2:] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
            assert answer.responses[2].name == "b"
            assert answer.responses[0].topic_id != ZERO_UUID
            assert answer.responses[3].name is None
            assert broker.metadata.image.topics == {}

    scenario(tmp_path, body)


def test_delete_where_it_is_switched_off(tmp_path):
    async def body(broker):
        await ask(broker, CreateTopicsRequest(topics=[wanted("a")]))
        for version, code in [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]:
            answer = await ask(broker, DeleteTopicsRequest(topic_names=["a"]), version)
            assert answer.responses[0].error_code == code

    scenario(tmp_path, body, delete_topic_enable="false")


@pytest.mark.parametrize("version", every_version(CreatePartitionsRequest))
def test_create_partitions_in_every_version(tmp_path, version):
    async def body(broker):
        await ask(broker, CreateTopicsRequest(topics=[wanted("a"), wanted("b")]))
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name="a", count=3, assignments=None),
                CreatePartitionsTopic(name="b", count=1, assignments=None),
                CreatePartitionsTopic(name="x", count=1, assignments=None),
            ]
        )
        request.validate_only = True
        answer = await ask(broker, request, version)
        assert len(broker.metadata.image.topics["a"].partitions) == 1
        request.validate_only = False
        answer = await ask(broker, request, version)
        assert [(one.name, one.error_code) for one in answer.results] == [
            ("a", ErrorCode.NONE),
            ("b", ErrorCode.INVALID_PARTITIONS),
            ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert len(broker.metadata.image.topics["a"].partitions) == 3
        by_hand = CreatePartitionsTopic(
            name="a", count=4, assignments=[CreatePartitionsAssignment(broker_ids=[1])]
        )
        answer = await ask(broker, CreatePartitionsRequest(topics=[by_hand]), version)
        assert answer.results[0].error_code == ErrorCode.NONE

    scenario(tmp_path, body)


@pytest.mark.parametrize("version", every_version(ElectLeadersRequest))
def test_elections_on_one_broker_are_not_needed(tmp_path, version):
    async def body(broker):
        await ask(broker, CreateTopicsRequest(topics=[wanted("a", 2)]))
        named = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[0, 1, 7])])
        answer = await ask(broker, named, version)
        (topic,) = answer.replica_election_results
        assert [(one.partition_id, one.error_code) for one in topic.partition_result] == [
            (0, ErrorCode.ELECTION_NOT_NEEDED),
            (1, ErrorCode.ELECTION_NOT_NEEDED),
            (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        answer = await ask(broker, ElectLeadersRequest(topic_partitions=None), version)
        assert answer.replica_election_results == []
        if version >= 1:
            answer = await ask(broker, ElectLeadersRequest(election_type=9, topic_partitions=None), version)
            assert answer.error_code == ErrorCode.INVALID_REQUEST

    scenario(tmp_path, body)


@pytest.mark.parametrize("has_lane", [True, False])
def test_deletions_that_could_not_be_made_are_answered_in_slices(tmp_path, monkeypatch, has_lane):
    """Each name once; half a million of them would hold the event loop for most of a second."""
    names, turns = [f"t{number % 1600}" for number in range(2000)], 0

    async def fails(decide, failed, **more):
        return failed(Outcome(ErrorCode.REQUEST_TIMED_OUT, "The change was not made"))

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def body(broker):
        controller = broker.controller
        monkeypatch.setattr(controller, "decide", fails)
        monkeypatch.setattr(controller, "_lane", SlowLane(0.0) if has_lane else None)
        other = asyncio.ensure_future(others())
        results = await controller.delete_topics([(name, ZERO_UUID) for name in names])
        other.cancel()
        assert [each.name for each in results] == names[:1600]
        assert {each.outcome.error_code for each in results} == {ErrorCode.REQUEST_TIMED_OUT}
        assert (turns > 50) == has_lane

    scenario(tmp_path, body)


@pytest.mark.parametrize("version", every_version(ElectLeadersRequest))
def test_an_election_that_fails_says_so_for_all_partitions_as_well(tmp_path, monkeypatch, version):
    """Those of all partitions have no rows to say it in: without an error, none was needed."""

    async def fails(decide, failed, **more):
        return failed(Outcome(ErrorCode.REQUEST_TIMED_OUT, "The change was not made"))

    async def body(broker):
        monkeypatch.setattr(broker.controller, "decide", fails)
        named = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[0])])
        answer = await ask(broker, named, version)
        assert answer.error_code == ErrorCode.NONE
        (row,) = answer.replica_election_results[0].partition_result
        assert row.error_code == ErrorCode.REQUEST_TIMED_OUT
        answer = await ask(broker, ElectLeadersRequest(topic_partitions=None), version)
        assert answer.replica_election_results == []
        if version >= 1:  # before, the response has no error of its own
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT

    scenario(tmp_path, body)


@pytest.mark.parametrize("version", every_version(reassign.AlterPartitionReassignmentsRequest))
def test_reassignments(tmp_path, version):
    async def body(broker):
        await ask(broker, CreateTopicsRequest(topics=[wanted("a", 4)]))
        targets = [[1], None, [], [7]]
        request = reassign.AlterPartitionReassignmentsRequest(
            topics=[
                reassign.ReassignableTopic(
                    name="a",
                    partitions=[
                        reassign.ReassignablePartition(partition_index=index, replicas=replicas)
                        for index, replicas in enumerate(targets)
                    ],
                ),
                reassign.ReassignableTopic(
                    name="x", partitions=[reassign.ReassignablePartition(partition_index=0, replicas=[1])]
                ),
            ]
        )
        answer = await ask(broker, request, version)
        assert [[one.error_code for one in topic.partitions] for topic in answer.responses] == [
            [
                ErrorCode.NONE,
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ],
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        ]
        listed = await ask(broker, ListPartitionReassignmentsRequest())
        assert (listed.error_code, listed.error_message, listed.topics) == (0, None, [])

    scenario(tmp_path, body)
