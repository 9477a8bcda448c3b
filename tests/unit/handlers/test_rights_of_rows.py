"""Requests about several groups, topics or ids: those with the right are served, the others refused or left
out, each in its own row."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from acl_world import ROOT, AclWorld, commits, with_acls

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import (
    add_partitions_to_txn,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    describe_topic_partitions,
    find_coordinator,
    init_producer_id,
    metadata,
    offset_fetch,
    txn_offset_commit,
)
from moldau.common.protocol.operations import Operation, ResourceType

ALICE = "User:alice"
READ, WRITE, DESCRIBE, CREATE = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_OFFSET = -1


async def coordinators(world: AclWorld) -> None:
    root = world.person(ROOT)
    for kind in (0, 1):
        asked = find_coordinator.FindCoordinatorRequest(key="k", key_type=kind)
        await world.done(root, asked, 3)


async def commit(world: AclWorld, group_id: str, *topics: str) -> None:
    while True:
        answer = await world.person(ROOT).ask(commits(group_id, *topics), 9)
        codes = {row.error_code for topic in answer.topics for row in topic.partitions}
        if codes == {0}:
            return
        assert codes <= {14, 15, 16}
        await asyncio.sleep(0.005)


def codes_by_topic(topics: Any) -> dict[str, set[int]]:
    return {topic.name: {row.error_code for row in topic.partitions} for topic in topics}


def test_find_coordinator_of_several_keys_refuses_some_and_makes_no_topic_for_nobody(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice = world.person(ALICE)
        asked = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=["mine", "theirs"])
        answer = await alice.ask(asked, 4)
        assert [row.error_code for row in answer.coordinators] == [GROUP_FAILED] * 2
        assert "__consumer_offsets" not in world.node.metadata.image.topics
        await world.allow(ALICE, READ, GROUP, "mine")
        answer = await alice.ask(asked, 4)
        assert {row.key: (row.error_code, row.node_id) for row in answer.coordinators} == {
            "mine": (0, 1),
            "theirs": (GROUP_FAILED, -1),
        }

    with_acls(scene, tmp_path)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_offset_fetch_of_several_groups_tells_nothing_of_somebody_elses(tmp_path: Path, version: int) -> None:
    async def scene(world: AclWorld) -> None:
        m = offset_fetch
        await coordinators(world)
        await commit(world, "mine", "a", "b")
        await commit(world, "theirs", "a", "b")
        await world.allow(ALICE, READ, GROUP, "mine")
        await world.allow(ALICE, DESCRIBE, TOPIC, "a")
        alice = world.person(ALICE)
        topics = []
        for name in ("a", "b"):
            topic = m.OffsetFetchRequestTopics(partition_indexes=[0])
            topic.name, topic.topic_id = ("", world.id_of(name)) if version >= 10 else (name, bytes(16))
            topics.append(topic)
        for asked in (topics, None):
            groups = [m.OffsetFetchRequestGroup(group_id=each, topics=asked) for each in ("theirs", "mine")]
            answer = await alice.ask(m.OffsetFetchRequest(groups=groups), version)
            theirs, mine = answer.groups
            assert (theirs.group_id, theirs.error_code, theirs.topics) == ("theirs", GROUP_FAILED, [])
            assert mine.error_code == 0
            rows = [
                (topic.name or topic.topic_id, row.error_code, row.committed_offset)
                for topic in mine.topics
                for row in topic.partitions
            ]
            a, b = (world.id_of(name) if version >= 10 else name for name in ("a", "b"))
            refused = [] if asked is None else [(b, TOPIC_FAILED, NO_OFFSET)]
            assert rows == [(a, 0, 1), *refused]

    with_acls(scene, tmp_path)


@pytest.mark.parametrize("count", [1, 700])
def test_offsets_are_committed_only_for_topics_with_the_right(tmp_path: Path, count: int) -> None:
    async def scene(world: AclWorld) -> None:
        await coordinators(world)
        await commit(world, "g", "a")
        alice = world.person(ALICE)
        request = commits("g", "a", "b", "none")
        request.topics[0].partitions = request.topics[0].partitions * count
        request.topics[1].partitions = request.topics[1].partitions * count
        everything_refused = await alice.ask(request, 9)
        assert codes_by_topic(everything_refused.topics) == {
            name: {GROUP_FAILED} for name in ("a", "b", "none")
        }
        await world.allow(ALICE, READ, GROUP, "g")
        await world.allow(ALICE, READ, TOPIC, "b")
        answer = await alice.ask(request, 9)
        assert codes_by_topic(answer.topics) == {"a": {TOPIC_FAILED}, "b": {0}, "none": {TOPIC_FAILED}}
        assert {topic.name: len(topic.partitions) for topic in answer.topics}["a"] == count

    with_acls(scene, tmp_path)


def test_a_transaction_takes_only_what_its_producer_may_write_and_commit(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        await coordinators(world)
        alice = world.person(ALICE)
        await world.allow(ALICE, WRITE, TRANSACTIONAL_ID, "t")
        await world.allow(ALICE, WRITE, TOPIC, "a")
        init = init_producer_id.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
        given = await world.done(alice, init, 4)
        m = add_partitions_to_txn

        def adds(*names: str) -> Any:
            return m.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="t",
                v3_and_below_producer_id=given.producer_id,
                v3_and_below_producer_epoch=given.producer_epoch,
                v3_and_below_topics=[m.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in names],
            )

        answer = await alice.ask(adds("a", "b"), 3)
        assert {
            topic.name: topic.results_by_partition[0].partition_error_code
            for topic in answer.results_by_topic_v3_and_below
        } == {"a": ErrorCode.OPERATION_NOT_ATTEMPTED, "b": TOPIC_FAILED}
        await world.allow(ALICE, WRITE, TOPIC, "__consumer_offsets")
        answer = await alice.ask(adds("__consumer_offsets"), 3)
        (row,) = answer.results_by_topic_v3_and_below[0].results_by_partition
        assert row.partition_error_code == TOPIC_FAILED  # as in Kafka, whoever asks
        offsets = txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            topics=[
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        txn_offset_commit.TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=5
                        )
                    ],
                )
                for name in ("a", "b")
            ],
        )
        assert codes_by_topic((await alice.ask(offsets)).topics) == {"a": {GROUP_FAILED}, "b": {GROUP_FAILED}}
        await world.allow(ALICE, READ, GROUP, "g")
        await world.allow(ALICE, READ, TOPIC, "b")
        while True:
            codes = codes_by_topic((await alice.ask(offsets)).topics)
            if not codes["b"] & {14, 15, 16}:
                break
            await asyncio.sleep(0.005)
        assert codes == {"a": {TOPIC_FAILED}, "b": {0}}

    with_acls(scene, tmp_path)


def test_a_member_with_a_pattern_gets_the_topics_that_it_may_see(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        await coordinators(world)
        await world.allow(ALICE, READ, GROUP, "g")
        await world.allow(ALICE, READ, TOPIC, "b")
        alice = world.person(ALICE)
        m = consumer_group_heartbeat

        def joins(epoch: int = 0, **subscription: Any) -> Any:
            return m.ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="m" * 22,
                member_epoch=epoch,
                rebalance_timeout_ms=10_000,
                topic_partitions=[],
                **subscription,
            )

        for names in (["a", "b"], ["b"] * 2000 + ["a"]):
            refused = await world.done(alice, joins(subscribed_topic_names=names))
            assert (refused.error_code, refused.assignment) == (TOPIC_FAILED, None)
        joined = await world.done(alice, joins(subscribed_topic_regex=".*"))
        assert joined.error_code == 0
        assert [each.topic_id for each in joined.assignment.topic_partitions] == [world.id_of("b")]
        describe = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=["g"])
        (group,) = (await alice.ask(describe)).groups
        assert (group.error_code, len(group.members)) == (0, 1)
        await world.allow("User:bob", DESCRIBE, GROUP, "g")
        (group,) = (await world.person("User:bob").ask(describe)).groups
        assert (group.error_code, group.members) == (TOPIC_FAILED, [])

    with_acls(scene, tmp_path)


def test_topics_are_made_grown_and_deleted_only_with_the_right(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice, image = world.person(ALICE), lambda: world.node.metadata.image
        await world.allow(ALICE, CREATE, TOPIC, "new")
        names = ["new", "other"]
        asked = [create_topics.CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in names]
        rows = {
            row.name: row for row in (await alice.ask(create_topics.CreateTopicsRequest(topics=asked))).topics
        }
        assert (rows["new"].error_code, rows["other"].error_code) == (0, TOPIC_FAILED)
        assert rows["new"].topic_config_error_code == TOPIC_FAILED
        assert (rows["new"].num_partitions, rows["new"].configs) == (-1, [])
        assert image().topics.keys() == {"a", "b", "new"}
        await world.allow(ALICE, Operation.ALTER, TOPIC, "a")
        grown = [
            create_partitions.CreatePartitionsTopic(name=n, count=3, assignments=None)
            for n in ("a", "b", "x")
        ]
        results = (await alice.ask(create_partitions.CreatePartitionsRequest(topics=grown))).results
        assert {row.name: row.error_code for row in results} == {"a": 0, "b": TOPIC_FAILED, "x": TOPIC_FAILED}
        assert (len(image().topics["a"].partitions), len(image().topics["b"].partitions)) == (3, 2)
        await world.allow(ALICE, Operation.DELETE, TOPIC, "a")
        await world.allow(ALICE, DESCRIBE, TOPIC, "b")
        await world.allow(ALICE, DESCRIBE, TOPIC, "absent")
        m = delete_topics
        states = [
            m.DeleteTopicState(topic_id=world.id_of("a")),
            m.DeleteTopicState(topic_id=world.id_of("b")),
            m.DeleteTopicState(topic_id=world.id_of("new")),
            m.DeleteTopicState(topic_id=b"?" * 16),
            *(m.DeleteTopicState(name=name) for name in ("b", "new", "absent", "unseen")),
        ]
        a, b, new = (world.id_of(name) for name in ("a", "b", "new"))
        responses = (await alice.ask(m.DeleteTopicsRequest(topics=states))).responses
        zero = bytes(16)
        assert {(row.name, row.topic_id, row.error_code) for row in responses} == {
            ("a", a, 0),
            ("b", b, TOPIC_FAILED),
            (None, new, TOPIC_FAILED),
            (None, b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
            ("b", zero, TOPIC_FAILED),
            ("new", zero, TOPIC_FAILED),
            ("absent", zero, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("unseen", zero, TOPIC_FAILED),
        }
        assert image().topics.keys() == {"b", "new"}

    with_acls(scene, tmp_path)


def test_metadata_makes_no_topic_without_the_right(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice = world.person(ALICE)
        topics = [metadata.MetadataRequestTopic(name=name) for name in ("seen", "made", "hidden", "?bad")]
        for name in ("seen", "made", "?bad"):
            await world.allow(ALICE, DESCRIBE, TOPIC, name)
        await world.allow(ALICE, CREATE, TOPIC, "made")
        answer = await alice.ask(metadata.MetadataRequest(topics=topics))
        assert {row.name: row.error_code for row in answer.topics} == {
            "seen": TOPIC_FAILED,
            "made": 0,
            "hidden": TOPIC_FAILED,
            "?bad": TOPIC_FAILED,
        }
        assert "made" in world.node.metadata.image.topics
        assert not {"seen", "hidden"} & world.node.metadata.image.topics.keys()
        await world.allow(ALICE, CREATE, CLUSTER, "kafka-cluster")
        answer = await alice.ask(metadata.MetadataRequest(topics=topics))
        assert {row.name: row.error_code for row in answer.topics} == {
            "seen": 0,
            "made": 0,
            "hidden": TOPIC_FAILED,
            "?bad": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }

    with_acls(scene, tmp_path)


def test_authorized_operations_are_those_of_the_client(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        alice, root = world.person(ALICE), world.person(ROOT)
        await world.allow(ALICE, READ, TOPIC, "a")
        await world.allow(ALICE, Operation.ALTER_CONFIGS, TOPIC, "a")
        may = sum(1 << each for each in (READ, DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS))
        asked = metadata.MetadataRequest(
            topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
        )
        for person, operations, of_cluster in ((root, 0b110111111000, 0b1111110100000), (alice, may, 0)):
            answer = await person.ask(asked, 10)
            told = {row.name: row.topic_authorized_operations for row in answer.topics}
            assert told["a"] == operations
            assert answer.cluster_authorized_operations == of_cluster
        every = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=[])
        (row,) = (await alice.ask(every)).topics
        assert (row.name, row.topic_authorized_operations) == ("a", may)
        await world.allow(ALICE, DESCRIBE, CLUSTER, "kafka-cluster")
        answer = await alice.ask(asked, 10)
        assert answer.cluster_authorized_operations == 1 << DESCRIBE

    with_acls(scene, tmp_path)


def test_settings_that_are_secret_stay_so_for_who_may_describe_them(tmp_path: Path) -> None:
    async def scene(world: AclWorld) -> None:
        resource = describe_configs.DescribeConfigsResource(
            resource_type=4, resource_name="1", configuration_keys=None
        )
        asked = describe_configs.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        await world.allow(ALICE, Operation.DESCRIBE_CONFIGS, CLUSTER, "kafka-cluster")
        (result,) = (await world.person(ALICE).ask(asked)).results
        (secret,) = [each for each in result.configs if each.name == "delegation.token.secret.key"]
        assert (secret.is_sensitive, secret.value) == (True, None)
        assert not any(synonym.value for synonym in secret.synonyms)

    with_acls(scene, tmp_path, delegation_token_secret_key="not-to-be-seen")


def test_a_topic_that_this_broker_hears_of_while_it_is_deleted_by_id_is_not_deleted_without_the_right(
    tmp_path: Path,
) -> None:
    async def scene(world: AclWorld) -> None:
        alice, controller = world.person(ALICE), world.node.controller
        await world.allow(ALICE, DESCRIBE, TOPIC, "new")
        decide = controller.delete_topics
        known: list[bytes] = []

        async def later(*asked: Any) -> Any:
            """The metadata tell of the topic after the handler has asked for rights."""
            await controller.auto_create_topics(["new"])
            (_, topic_id) = asked[0][0]
            image = world.node.metadata.image
            topic = image.topics["new"]._replace(topic_id=topic_id)
            world.node.metadata.image = image._replace(
                topics={**image.topics, "new": topic}, topic_names={**image.topic_names, topic_id: "new"}
            )
            known.append(topic_id)
            return await decide(*asked)

        controller.delete_topics = later  # type: ignore[method-assign]
        m = delete_topics
        unheard_of = b"0123456789abcdef"
        answer = await alice.ask(
            m.DeleteTopicsRequest(topics=[m.DeleteTopicState(name=None, topic_id=unheard_of)]), 6
        )
        assert known == [unheard_of]
        assert [row.error_code for row in answer.responses] == [TOPIC_FAILED]
        assert answer.responses[0].name is None
        assert "new" in world.node.metadata.image.topics

    with_acls(scene, tmp_path)
