"""What the REST proxy asks of a cluster, against a broker: topics, settings, ACLs, groups, lags."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from moldau.client.admin import acls, configs, groups, reassignments, topics
from moldau.client.admin.problem import KafkaProblem
from moldau.common.protocol.acls import AclFilter
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.operations import Operation
from moldau.services.kafka.admin_threads import KafkaAdmin
from moldau.testing import Broker

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[KafkaAdmin]:
    made = KafkaAdmin(broker.bootstrap_servers, {"client.id": "tests"})
    yield made
    made.close()


def call(admin: KafkaAdmin, work: Any, /, **arguments: Any) -> Any:
    return asyncio.run(admin.call(partial(work, **arguments)))


def refusal(admin: KafkaAdmin, work: Any, /, **arguments: Any) -> int:
    with pytest.raises(KafkaProblem) as caught:
        call(admin, work, **arguments)
    assert str(caught.value)
    return caught.value.error_code


def test_a_topic_is_created_described_enlarged_and_deleted(admin: KafkaAdmin) -> None:
    created = call(admin, topics.create_topic, name="one", partitions=2, configs={"retention.ms": "5000"})
    assert (created.partitions, created.replication_factor) == (2, 1)
    assert {each.name: each.value for each in created.configs}["retention.ms"] == "5000"
    (topic,) = call(admin, topics.describe_topics, names=["one"])
    assert [each.partition_id for each in topic.partitions] == [0, 1]
    assert topic.operations is None
    assert topic.partitions[0].in_sync == topic.partitions[0].replicas == (topic.partitions[0].leader,)
    call(admin, topics.add_partitions, name="one", count=3)
    while len(topic.partitions) != 3:  # Apache Kafka's brokers learn of it a moment later
        (topic,) = call(admin, topics.describe_topics, names=["one"], operations=True)
    assert int(Operation.WRITE) in topic.operations
    call(admin, topics.delete_topic, name="one")
    while "one" in [each.name for each in call(admin, topics.describe_topics)]:
        pass
    assert refusal(admin, topics.describe_topics, names=["one"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_check_creates_nothing(admin: KafkaAdmin) -> None:
    call(admin, topics.create_topic, name="unmade", partitions=1, validate_only=True)
    assert "unmade" not in [each.name for each in call(admin, topics.describe_topics)]


def test_refusals_have_kafkas_number(admin: KafkaAdmin) -> None:
    call(admin, topics.create_topic, name="twice", partitions=1)
    assert refusal(admin, topics.create_topic, name="twice", partitions=1) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert refusal(admin, topics.create_topic, name="a/b") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refusal(admin, topics.delete_topic, name="none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(admin, topics.add_partitions, name="twice", count=1) == ErrorCode.INVALID_PARTITIONS
    assert refusal(admin, acls.find_acls, wanted=ANY_ACL) == ErrorCode.SECURITY_DISABLED
    assert refusal(admin, groups.describe_group, group_id="none") == ErrorCode.GROUP_ID_NOT_FOUND
    unknown_broker = {"kind": configs.BROKER, "names": ["77"]}
    assert refusal(admin, configs.describe_configs, **unknown_broker) == ErrorCode.BROKER_NOT_AVAILABLE


ANY_ACL = AclFilter(1, None, 1, None, None, 1, 1)


def test_settings_of_topic_broker_and_all_brokers_are_read_and_changed(admin: KafkaAdmin) -> None:
    call(admin, topics.create_topic, name="set", partitions=1)
    change = {"set": {"retention.ms": (True, "1000")}}
    assert call(admin, configs.alter_configs, kind=configs.TOPIC, changes=change, validate_only=True) == {}
    assert value_of(admin, configs.TOPIC, "set", "retention.ms").source.name == "DEFAULT_CONFIG"
    assert call(admin, configs.alter_configs, kind=configs.TOPIC, changes=change) == {}
    found = value_of(admin, configs.TOPIC, "set", "retention.ms")
    assert (found.value, found.source.name, found.is_default) == ("1000", "DYNAMIC_TOPIC_CONFIG", False)
    assert found.synonyms[0].value == "1000"
    wrong = {"set": {"retention.ms": (True, "soon")}}
    failed = call(admin, configs.alter_configs, kind=configs.TOPIC, changes=wrong)
    assert failed["set"].error_code == ErrorCode.INVALID_CONFIG
    call(admin, configs.alter_configs, kind=configs.TOPIC, changes={"set": {"retention.ms": (False, None)}})
    assert value_of(admin, configs.TOPIC, "set", "retention.ms").is_default
    broker_id = str(call(admin, topics.describe_cluster).brokers[0].broker_id)
    assert value_of(admin, configs.BROKER, broker_id, "log.retention.ms")
    everywhere = {configs.ALL_BROKERS: {"log.retention.ms": (True, "7000")}}
    assert call(admin, configs.alter_configs, kind=configs.BROKER, changes=everywhere) == {}
    assert value_of(admin, configs.BROKER, configs.ALL_BROKERS, "log.retention.ms").value == "7000"
    assert value_of(admin, configs.BROKER, broker_id, "log.retention.ms").value == "7000"


def value_of(admin: KafkaAdmin, kind: int, name: str, setting: str) -> Any:
    found = call(admin, configs.describe_configs, kind=kind, names=[name])[name]
    (one,) = [each for each in found if each.name == setting]
    return one


def test_nothing_is_moved_in_a_cluster_of_one(admin: KafkaAdmin) -> None:
    assert call(admin, reassignments.find_moves) == {}
    call(admin, topics.create_topic, name="still", partitions=1)
    assert call(admin, reassignments.find_moves, topic="still", partitions=(0,)) == {}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_has_members_and_lags(broker: Broker, admin: KafkaAdmin, protocol: str) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    topic, group = f"lagging-{protocol}", f"group/{protocol}"
    call(admin, topics.create_topic, name=topic, partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(7):
        producer.produce(topic, str(number))
    producer.flush()
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "follower",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        while consumer.poll(1.0) is None:
            pass
        consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
        found = call(admin, groups.describe_group, group_id=group)
        (member,) = found.members
        assert (found.type, found.is_simple, found.state) == (protocol.upper(), False, "Stable")
        assert (member.client_id, member.assignment) == ("follower", ((topic, 0),))
        (lag,) = call(admin, groups.lags_of, group_id=group)
        assert (lag.topic, lag.partition, lag.lag, lag.member) == (topic, 0, 4, member)
        assert group in [each.group_id for each in call(admin, groups.list_groups)]
        assert found in call(admin, groups.describe_all_groups)
    finally:
        consumer.close()


def test_a_cluster_that_cannot_be_reached_is_a_retriable_problem() -> None:
    nowhere = KafkaAdmin("127.0.0.1:1", {"default.api.timeout.ms": "200"})
    try:
        assert refusal(nowhere, topics.describe_cluster) == ErrorCode.REQUEST_TIMED_OUT
    finally:
        nowhere.close()


def test_calls_beyond_the_queue_are_refused_at_once() -> None:
    async def crowd() -> list[BaseException | object]:
        admin = KafkaAdmin("127.0.0.1:1", {"default.api.timeout.ms": "300"}, threads=1, waiting_max=1)
        calls = (admin.call(topics.describe_cluster) for _ in range(5))
        found = await asyncio.gather(*calls, return_exceptions=True)
        admin.close()
        return list(found)

    words = [str(each) for each in asyncio.run(crowd())]
    assert sum("Too many requests" in each for each in words) == 3
