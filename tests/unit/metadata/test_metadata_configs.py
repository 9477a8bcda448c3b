"""Settings in effect and their description: precedence, synonyms, units, sharing."""

import pytest

from moldau.broker.controller.config_rules import check_broker_configs
from moldau.broker.controller.decision import Refusal
from moldau.broker.metadata.configs import effective_broker_settings, group_settings, topic_settings
from moldau.broker.metadata.describe import (
    Source,
    describe_broker,
    describe_broker_defaults,
    describe_group,
    describe_topic,
)
from moldau.broker.metadata.image import Image, ResourceType
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.sources import StaticSettings, from_texts

TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP


def entry(entries, name):
    (found,) = [one for one in entries if one.name == name]
    return found


def test_retention_follows_its_synonyms_in_their_order():
    image = Image()
    for texts, expected in [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ]:
        assert topic_settings(image, from_texts(texts).broker, "t").retention_ms == expected


def test_precedence_for_a_topic():
    static = from_texts({"log.retention.ms": "10", "message.max.bytes": "99"}).broker
    image = Image(
        configs={
            (BROKER, ""): {"log.retention.ms": "20"},
            (BROKER, "1"): {"log.retention.ms": "30"},
            (TOPIC, "own"): {"retention.ms": "40"},
        }
    )
    assert topic_settings(image, static, "other").retention_ms == 30
    assert topic_settings(image, static, "own").retention_ms == 40
    assert topic_settings(image, static, "own").max_message_bytes == 99
    assert effective_broker_settings(image, static, 2).log_retention_ms == 20
    assert topic_settings(Image(), static, "own").retention_ms == 10


def test_topics_with_equal_settings_share_one_object():
    static = BrokerSettings()
    image = Image(configs={(TOPIC, "a"): {"retention.ms": "1"}, (TOPIC, "b"): {"retention.ms": "1"}})
    assert topic_settings(image, static, "a") is topic_settings(image, static, "b")
    assert topic_settings(image, static, "c") is topic_settings(Image(), static, "d")


def test_effective_settings_stay_the_same_object_until_something_changes():
    static = BrokerSettings()
    assert effective_broker_settings(Image(), static, 1) is static
    image = Image(configs={(BROKER, ""): {"message.max.bytes": "5"}})
    first = effective_broker_settings(image, static, 1)
    assert first.message_max_bytes == 5
    assert effective_broker_settings(image._replace(version=2), static, 1) is first


def test_a_stored_value_that_makes_no_sense_is_left_out():
    image = Image(
        configs={(BROKER, ""): {"message.max.bytes": "x", "num.partitions": "5"}, (TOPIC, "a"): {"y": "z"}}
    )
    assert effective_broker_settings(image, BrokerSettings(), 1) == BrokerSettings()
    assert topic_settings(image, BrokerSettings(), "a").retention_ms == 604_800_000


def test_small_segments_for_tests():
    image = Image(configs={(TOPIC, "a"): {"internal.segment.bytes": "1000"}})
    assert topic_settings(image, BrokerSettings(), "a").segment_bytes == 1000


def test_group_settings():
    image = Image(configs={(GROUP, "g"): {"consumer.session.timeout.ms": "50000"}})
    static = from_texts({"group.consumer.heartbeat.interval.ms": "7000"})
    settings = group_settings(image, static.broker, "g")
    assert (settings.consumer_session_timeout_ms, settings.consumer_heartbeat_interval_ms) == (50_000, 7000)
    described = describe_group(image, static, 1, "g")
    assert entry(described, "consumer.session.timeout.ms").source is Source.GROUP
    assert entry(described, "consumer.heartbeat.interval.ms").source is Source.STATIC_BROKER
    assert entry(described, "share.isolation.level").source is Source.DEFAULT


def test_describing_a_topic():
    static = from_texts({"log.retention.hours": "2"})
    image = Image(
        configs={
            (BROKER, ""): {"log.retention.ms": "20"},
            (TOPIC, "t"): {"retention.ms": "40", "cleanup.policy": "compact"},
        }
    )
    own = entry(describe_topic(image, static, 1, "t"), "retention.ms")
    assert (own.value, own.source, own.read_only, own.sensitive) == ("40", Source.TOPIC, False, False)
    assert own.synonyms == (
        ("retention.ms", "40", Source.TOPIC),
        ("log.retention.ms", "20", Source.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", "2", Source.STATIC_BROKER),
        ("log.retention.hours", "168", Source.DEFAULT),
    )
    assert own.documentation.startswith("How long a record is kept")
    other = entry(describe_topic(Image(), static, 1, "x"), "retention.ms")
    assert (other.value, other.source) == ("7200000", Source.STATIC_BROKER)
    assert entry(describe_topic(Image(), static, 1, "x"), "cleanup.policy").value == "delete"
    names = [one.name for one in describe_topic(Image(), static, 1, "x")]
    assert "internal.segment.bytes" not in names
    assert len(names) == len(set(names))


def test_describing_a_broker():
    static = from_texts({"num.partitions": "3", "ssl.key.password": "secret", "log.dir": "/x"})
    image = Image(
        configs={(BROKER, "1"): {"message.max.bytes": "7"}, (BROKER, ""): {"message.max.bytes": "8"}}
    )
    described = describe_broker(image, static, 1)
    size = entry(described, "message.max.bytes")
    assert (size.value, size.source, size.read_only) == ("7", Source.DYNAMIC_BROKER, False)
    assert [s.source for s in size.synonyms] == [
        Source.DYNAMIC_BROKER,
        Source.DYNAMIC_DEFAULT_BROKER,
        Source.DEFAULT,
    ]
    count = entry(described, "num.partitions")
    assert (count.value, count.source, count.read_only) == ("3", Source.STATIC_BROKER, True)
    password = entry(described, "ssl.key.password")
    assert (password.value, password.sensitive, password.synonyms[0].value) == (None, True, None)
    assert [one.name for one in describe_broker_defaults(image)] == ["message.max.bytes"]
    retention = entry(described, "log.retention.ms")
    assert retention.value is None
    assert (retention.source, retention.synonyms) == (Source.DEFAULT, ())


def test_static_settings_from_code_are_described_as_static():
    static = StaticSettings.of(BrokerSettings(num_partitions=9))
    assert entry(describe_broker(Image(), static, 1), "num.partitions").source is Source.STATIC_BROKER


def test_variables_of_dynamic_secrets_are_filled_in_on_the_broker(tmp_path, caplog):
    (tmp_path / "word").write_text("hunter2")
    whole = from_texts(
        {
            "config.providers": "dir",
            "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
            "listener.name.a.ssl.key.password": "old",
        }
    )
    static = whole.broker
    word = f"${{dir:{tmp_path}:word}}"
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="{word}";'
    name = "listener.name.a.plain.sasl.jaas.config"
    image = Image(configs={(BROKER, "1"): {name: jaas, "advertised.listeners": word}})
    settings = effective_broker_settings(image, static, 1)
    assert 'user_a="hunter2"' in settings.prefixed[name]
    # What DescribeConfigs shows is not filled in: it would let who changes settings read files.
    assert "hunter2" not in str(settings.advertised_listeners)
    assert all("hunter2" not in str(each) for each in describe_broker(image, whole, 1))
    # What is not there leaves the setting as it was, and says so.
    lost = Image(configs={(BROKER, "1"): {"listener.name.a.ssl.key.password": f"${{dir:{tmp_path}:none}}"}})
    assert effective_broker_settings(lost, static, 1).prefixed["listener.name.a.ssl.key.password"] == "old"
    assert "cannot be filled in" in caplog.text


def test_a_jaas_entry_with_a_variable_may_be_set():
    name = "listener.name.a.plain.sasl.jaas.config"
    check_broker_configs({name: "${file:/etc/moldau/secrets:jaas}"}, [name], for_all=False)
    with pytest.raises(Refusal):
        check_broker_configs({name: "nonsense"}, [name], for_all=False)


def test_throttles_are_listed_only_while_they_are_set():
    names = (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
    static = from_texts({"node.id": "1"})
    assert {one.name for one in describe_broker(Image(), static, 1)}.isdisjoint(names)
    for resource, source in (("", Source.DYNAMIC_DEFAULT_BROKER), ("1", Source.DYNAMIC_BROKER)):
        for name in names:
            image = Image(configs={(ResourceType.BROKER, resource): {name: "7"}})
            found = [one for one in describe_broker(image, static, 1) if one.name in names]
            assert [(one.name, one.value, one.source) for one in found] == [(name, "7", source)]
            assert effective_broker_settings(image, static.broker, 1).get(name) == 7
