"""The admin clients of confluent-kafka, kafka-python, aiokafka and KafkaJS, and kcat's metadata query.

Each speaks versions of its own (KafkaJS the oldest), so the same matters are asked of each in its own words.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator

import kafka.admin
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin import RecordsToDelete as AioRecordsToDelete
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from client_agents import AgentClient
from client_aiokafka import AiokafkaClient
from client_confluent import ConfluentClient, create_topic
from client_model import Client, Member, Message, eventually
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as Place


@pytest.fixture
def made(bootstrap: str, topic: str) -> str:
    """A topic of two partitions with ten records in the first."""
    create_topic(bootstrap, topic, 2)
    ConfluentClient(bootstrap).produce(
        topic, [Message(b"k", str(i).encode(), partition=0) for i in range(10)]
    )
    return topic


@pytest.fixture
def member(bootstrap: str, made: str, group: str) -> Iterator[Member]:
    """A classic member that has read the ten records and committed."""
    one = ConfluentClient(bootstrap).open_member(group, [made])
    eventually(lambda: len(one.take()) == 10)
    yield one
    one.close()


# confluent-kafka


@pytest.fixture
def confluent(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def test_confluent_topics(confluent: AdminClient, made: str) -> None:
    found = confluent.list_topics(made, timeout=10).topics[made]
    assert sorted(found.partitions) == [0, 1]
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        confluent.create_topics([NewTopic(made, 1, 1)])[made].result(10)
    confluent.create_partitions([NewPartitions(made, 4)])[made].result(10)
    eventually(lambda: len(confluent.list_topics(made, timeout=10).topics[made].partitions) == 4)
    confluent.delete_topics([made], operation_timeout=10)[made].result(10)
    eventually(lambda: made not in confluent.list_topics(timeout=10).topics)


def test_confluent_validates_without_doing(confluent: AdminClient, topic: str) -> None:
    confluent.create_topics([NewTopic(topic, 3, 1)], validate_only=True)[topic].result(10)
    assert topic not in confluent.list_topics(timeout=10).topics
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        confluent.create_topics([NewTopic(topic, 3, 3)], validate_only=True)[topic].result(10)
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        confluent.create_topics([NewTopic(topic, 0, 1)], validate_only=True)[topic].result(10)


def test_confluent_configs(confluent: AdminClient, made: str) -> None:
    def read() -> str:
        found = confluent.describe_configs([ConfigResource(ResourceType.TOPIC, made)])
        return str(next(iter(found.values())).result(10)["retention.bytes"].value)

    assert read() == "-1"
    entry = ConfigEntry("retention.bytes", "1000000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, made, incremental_configs=[entry])
    for future in confluent.incremental_alter_configs([change]).values():
        future.result(10)
    assert read() == "1000000"
    whole = ConfigResource(ResourceType.TOPIC, made, set_config={"segment.bytes": "2000000"})
    for future in confluent.alter_configs([whole]).values():
        future.result(10)
    assert read() == "-1", "AlterConfigs replaces all settings"


def test_confluent_groups(confluent: AdminClient, made: str, group: str, member: Member) -> None:
    listed = confluent.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(10)
    assert group in {one.group_id for one in listed.valid}
    assert not listed.errors
    found = confluent.describe_consumer_groups([group])[group].result(10)
    assert (found.state, found.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    assert len(found.members[0].assignment.topic_partitions) == 2
    member.close()
    (offsets,) = confluent.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    assert {(one.partition, one.offset) for one in offsets.result(10).topic_partitions} >= {(0, 10)}
    change = ConsumerGroupTopicPartitions(group, [TopicPartition(made, 0, 4)])
    (altered,) = confluent.alter_consumer_group_offsets([change]).values()
    assert altered.result(10).topic_partitions[0].error is None
    again = ConfluentClient(confluent_bootstrap(confluent)).open_member(group, [made])
    read: list[int] = []
    eventually(lambda: read.extend(one.offset for one in again.take()) or len(read) == 6)
    assert read == [4, 5, 6, 7, 8, 9]
    again.close()
    confluent.delete_consumer_groups([group])[group].result(10)
    assert group not in {one.group_id for one in confluent.list_consumer_groups().result(10).valid}


def confluent_bootstrap(admin: AdminClient) -> str:
    (broker,) = admin.list_topics(timeout=10).brokers.values()
    return f"{broker.host}:{broker.port}"


def test_confluent_cluster_offsets_records_and_leaders(confluent: AdminClient, made: str) -> None:
    cluster = confluent.describe_cluster().result(10)
    assert len(cluster.nodes) == 1
    assert cluster.controller.id == cluster.nodes[0].id
    place = TopicPartition(made, 0)
    for spec, expected in ((OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 10)):
        assert confluent.list_offsets({place: spec})[place].result(10).offset == expected
    assert confluent.list_offsets({place: OffsetSpec.max_timestamp()})[place].result(10).offset >= 0
    deleted = confluent.delete_records([TopicPartition(made, 0, 3)])
    assert next(iter(deleted.values())).result(10).low_watermark == 3
    (elected,) = confluent.elect_leaders(ElectionType.PREFERRED, [place]).result(10).values()
    assert elected is None or "ELECTION_NOT_NEEDED" in str(elected)
    described = next(iter(confluent.describe_topics(_topics(made)).values())).result(10)
    assert [len(one.isr) for one in described.partitions] == [1, 1]


def _topics(*names: str) -> object:
    from confluent_kafka import TopicCollection

    return TopicCollection(list(names))


# kafka-python


@pytest.fixture
def kafka_python(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield admin
    admin.close()


def test_kafka_python_topics(kafka_python: KafkaAdminClient, made: str) -> None:
    assert made in kafka_python.list_topics()
    kafka_python.create_partitions({made: kafka.admin.NewPartitions(3)})
    (found,) = kafka_python.describe_topics([made])
    assert len(found["partitions"]) == 3
    kafka_python.delete_topics([made])
    assert made not in kafka_python.list_topics()


def test_kafka_python_configs(kafka_python: KafkaAdminClient, made: str) -> None:
    def resource(**settings: str) -> kafka.admin.ConfigResource:
        return kafka.admin.ConfigResource(
            "TOPIC", made, {n.replace("_", "."): v for n, v in settings.items()} or None
        )

    kafka_python.alter_configs([resource(retention_ms="5000000")])
    found = json.dumps(kafka_python.describe_configs([resource()]), default=str)
    assert "5000000" in found


def test_kafka_python_groups(kafka_python: KafkaAdminClient, made: str, group: str, member: Member) -> None:
    assert group in {one["group_id"] for one in kafka_python.list_groups()}
    described = kafka_python.describe_groups([group])[group]
    assert described["group_state"] == "Stable"
    member.close()
    offsets = kafka_python.list_group_offsets({group: [Place(made, 0)]})[group]
    assert offsets[Place(made, 0)].offset == 10
    kafka_python.delete_groups([group])
    assert group not in {one["group_id"] for one in kafka_python.list_groups()}


def test_kafka_python_records_cluster_and_dirs(kafka_python: KafkaAdminClient, made: str) -> None:
    kafka_python.delete_records({Place(made, 0): 5})
    specs = {Place(made, 0): kafka.admin.OffsetSpec.EARLIEST}
    assert kafka_python.list_partition_offsets(specs)[Place(made, 0)].offset == 5
    assert len(kafka_python.describe_cluster()["brokers"]) == 1
    assert made in json.dumps(kafka_python.describe_log_dirs(), default=str)
    kafka_python.describe_producers([Place(made, 0)])
    assert made in json.dumps(kafka_python.list_config_resources(["TOPIC"]), default=str)


# aiokafka


@pytest.fixture
def aio(bootstrap: str) -> Iterator[tuple[AiokafkaClient, AIOKafkaAdminClient]]:
    client = AiokafkaClient(bootstrap)
    admin = client.run(_started(bootstrap))
    yield client, admin
    client.run(admin.close())
    client.close()


async def _started(bootstrap: str) -> AIOKafkaAdminClient:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    return admin


def test_aiokafka_admin(
    aio: tuple[AiokafkaClient, AIOKafkaAdminClient], topic: str, made: str, group: str, member: Member
) -> None:
    client, admin = aio
    client.run(admin.create_topics([AioNewTopic(f"{topic}-2", 2, 1)]))
    assert f"{topic}-2" in client.run(admin.list_topics())
    client.run(admin.create_partitions({f"{topic}-2": _aio_partitions(3)}))
    (described,) = client.run(admin.describe_topics([f"{topic}-2"]))
    assert len(described["partitions"]) == 3
    resource = AioResource(AioResourceType.TOPIC, made, {"retention.ms": "7000000"})
    client.run(admin.alter_configs([resource]))
    (configs,) = client.run(admin.describe_configs([AioResource(AioResourceType.TOPIC, made)]))
    assert "7000000" in str(configs)
    assert group in {one[0] for one in client.run(admin.list_consumer_groups())}
    (description,) = client.run(admin.describe_consumer_groups([group]))
    assert "Stable" in str(description)
    eventually(lambda: _aio_offset(client, admin, group, made) == 10)
    client.run(admin.delete_records({Place(made, 0): AioRecordsToDelete(before_offset=2)}))
    assert client.run(admin.describe_cluster())["brokers"]
    client.run(admin.delete_topics([f"{topic}-2"]))
    assert f"{topic}-2" not in client.run(admin.list_topics())


def _aio_partitions(count: int) -> object:
    from aiokafka.admin import NewPartitions as AioNewPartitions

    return AioNewPartitions(count)


def _aio_offset(client: AiokafkaClient, admin: AIOKafkaAdminClient, group: str, topic: str) -> int:
    offsets = client.run(admin.list_consumer_group_offsets(group))
    return next(
        offset.offset for place, offset in offsets.items() if (place.topic, place.partition) == (topic, 0)
    )


# KafkaJS


def test_kafkajs_topics(kafkajs: AgentClient, topic: str) -> None:
    assert (
        kafkajs.call("create_topic", topic=topic, partitions=2, configs={"cleanup.policy": "compact"}) is True
    )
    assert kafkajs.call("create_topic", topic=topic) is False
    assert topic in kafkajs.call("list_topics")
    kafkajs.call("create_partitions", topic=topic, count=3)
    assert len(kafkajs.call("describe_topic", topic=topic)["partitions"]) == 3
    assert kafkajs.call("describe_configs", topic=topic)["cleanup.policy"] == "compact"
    kafkajs.call("alter_config", topic=topic, name="cleanup.policy", value="delete")
    assert kafkajs.call("describe_configs", topic=topic)["cleanup.policy"] == "delete"
    kafkajs.call("delete_topic", topic=topic)
    eventually(lambda: topic not in kafkajs.call("list_topics"))


def test_kafkajs_groups_and_offsets(kafkajs: AgentClient, made: str, group: str, member: Member) -> None:
    assert group in {one["groupId"] for one in kafkajs.call("list_groups")}
    described = kafkajs.call("describe_group", group=group)
    assert described == {"state": "Stable", "protocol": "range", "members": 1}
    member.close()

    def committed() -> int:
        (found,) = kafkajs.call("group_offsets", group=group, topic=made)
        return int(next(one["offset"] for one in found["partitions"] if one["partition"] == 0))

    assert committed() == 10
    kafkajs.call("set_offsets", group=group, topic=made, offset=3)
    assert committed() == 3
    kafkajs.call("delete_group", group=group)
    assert group not in {one["groupId"] for one in kafkajs.call("list_groups")}


def test_kafkajs_records_and_cluster(kafkajs: AgentClient, made: str) -> None:
    kafkajs.call("delete_records", topic=made, offset=6)
    (offsets,) = [one for one in kafkajs.call("topic_offsets", topic=made) if one["partition"] == 0]
    assert (offsets["low"], offsets["high"]) == ("6", "10")
    assert len(kafkajs.call("describe_cluster")["brokers"]) == 1


# kcat


def test_kcat_lists_metadata_and_queries_offsets(
    client_by_name: Callable[[str], Client], made: str, bootstrap: str
) -> None:
    client_by_name("kcat")  # skips where there is none
    found = json.loads(_kcat("-b", bootstrap, "-L", "-J", "-t", made))
    assert [len(one["partitions"]) for one in found["topics"]] == [2]
    assert f"{made} [0] offset 10" in _kcat("-b", bootstrap, "-Q", "-t", f"{made}:0:-1")
    assert f"{made} [0] offset 0" in _kcat("-b", bootstrap, "-Q", "-t", f"{made}:0:-2")


def _kcat(*arguments: str) -> str:
    return subprocess.run(["kcat", *arguments], capture_output=True, text=True, timeout=20, check=True).stdout
