"""Policies of the user, as clients meet them: the example of docs/policies.md runs in a broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import kafka.admin
import kafka.errors
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from raw_client import RawClient

from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.rows import SettingError
from moldau.testing import Broker

CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE = 68, 69
LIMIT_S = 120.0


@pytest.fixture
def example(pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (pytestconfig.rootpath / "docs" / "policies.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "our_policies.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def broker(example: None) -> Iterator[Broker]:
    settings = {
        "create.topic.policy.class.name": "our_policies:Topics",
        "alter.config.policy.class.name": "our_policies:Settings",
    }
    with Broker(settings=settings) as running:
        yield running


def refusal(done: dict) -> KafkaError | None:
    (future,) = done.values()
    try:
        future.result(LIMIT_S)
    except KafkaException as error:
        return error.args[0]
    return None


def test_librdkafka_is_told_by_the_policy(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for validate_only in (True, False):
        error = refusal(admin.create_topics([NewTopic("orders")], validate_only=validate_only))
        assert error is not None
        assert error.code() == KafkaError.POLICY_VIOLATION == 44
        assert error.str() == "orders: a topic's name begins with its team, as in billing.orders"
    assert refusal(admin.create_topics([NewTopic("billing.orders")])) is None
    assert refusal(admin.create_partitions([NewPartitions("billing.orders", 3)])) is None
    assert sorted(admin.list_topics(timeout=LIMIT_S).topics) == ["billing.orders"]

    compact = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    asked = ConfigResource(ResourceType.TOPIC, "billing.orders", incremental_configs=[compact])
    error = refusal(admin.incremental_alter_configs([asked]))
    assert error is not None
    assert error.code() == KafkaError.POLICY_VIOLATION
    assert error.str() == "billing.orders: ask the platform team for compacted topics"
    legacy = ConfigResource(ResourceType.TOPIC, "billing.orders", {"cleanup.policy": "compact"})
    error = refusal(admin.alter_configs([legacy]))
    assert error is not None
    assert error.code() == KafkaError.POLICY_VIOLATION
    created = NewTopic("billing.bills", config={"cleanup.policy": "compact"})
    error = refusal(admin.create_topics([created]))
    assert error is not None
    assert error.code() == KafkaError.POLICY_VIOLATION


def test_kafka_python_is_told_by_the_policy(broker: Broker) -> None:
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        with pytest.raises(kafka.errors.PolicyViolationError, match="begins with its team"):
            admin.create_topics([kafka.admin.NewTopic("orders", 1, 1)])
    finally:
        admin.close()


def test_a_topic_on_demand_is_refused_too(broker: Broker) -> None:
    reported: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 5_000})
    producer.produce("orders", b"1", callback=lambda error, message: reported.append(error))
    producer.produce("billing.orders", b"1", callback=lambda error, message: reported.append(error))
    producer.flush(LIMIT_S)
    assert sorted(error is None for error in reported) == [False, True]


def test_a_policy_of_java_keeps_the_broker_from_starting() -> None:
    settings = {"create.topic.policy.class.name": "com.example.Policy"}
    with pytest.raises(SettingError, match="module:Class"), Broker(settings=settings):
        pass


def test_consumer_groups_can_be_switched_off(group: str) -> None:
    with (
        Broker(settings={"group.coordinator.rebalance.protocols": "classic"}) as running,
        RawClient(running.bootstrap_servers) as client,
    ):
        beat = client.call(
            CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id=group,
            member_id="m",
            member_epoch=0,
            rebalance_timeout=60_000,
            subscribed_topic_names=("a",),
            topic_partitions=(),
        )
        assert beat.error_code == ErrorCode.UNSUPPORTED_VERSION
        described = client.call(CONSUMER_GROUP_DESCRIBE, 1, group_ids=(group, "other"))
        assert [each.error_code for each in described.groups] == [ErrorCode.UNSUPPORTED_VERSION] * 2
        consumer = Consumer(
            {"bootstrap.servers": running.bootstrap_servers, "group.id": group, "group.protocol": "classic"}
        )
        consumer.subscribe(["a"])
        consumer.poll(0)
        consumer.close()
