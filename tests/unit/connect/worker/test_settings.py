"""A worker's settings: Kafka's names and defaults, and what is refused."""

import pytest

from moldau.common.settings.rows import SettingError
from moldau.services.connect.settings import worker_configuration

DISTRIBUTED = {
    "bootstrap.servers": "broker:9092",
    "group.id": "cluster",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
}


def test_a_distributed_worker_has_kafkas_defaults() -> None:
    configuration = worker_configuration(DISTRIBUTED)
    settings = configuration.settings
    assert configuration.is_distributed
    assert not configuration.warnings
    assert (settings.offset_storage_partitions, settings.status_storage_partitions) == (25, 5)
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (10_000, 3_000)
    assert settings.connector_client_config_override_policy == "All"
    assert settings.exactly_once_source_support == "enabled"


@pytest.mark.parametrize("name", ["key.converter", "config.storage.topic", "status.storage.topic"])
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(SettingError, match=f'Missing required configuration "{name}"'):
        worker_configuration({each: value for each, value in DISTRIBUTED.items() if each != name})


def test_a_worker_without_a_group_is_standalone_and_needs_a_file() -> None:
    texts = {"key.converter": "a", "value.converter": "b"}
    with pytest.raises(SettingError, match=r"offset\.storage\.file\.filename"):
        worker_configuration(texts)
    assert not worker_configuration({**texts, "offset.storage.file.filename": "/tmp/o"}).is_distributed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session.timeout.ms", "soon"),
        ("session.timeout.ms", "2000"),
        ("exactly.once.source.support", "perhaps"),
        ("connector.client.config.override.policy", "Some"),
        ("inter.worker.signature.algorithm", "MD5"),
        ("offset.storage.partitions", "-2"),
        ("ssl.client.auth", "sometimes"),
    ],
)
def test_a_bad_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(SettingError):
        worker_configuration({**DISTRIBUTED, name: value})


def test_clients_have_the_shared_settings_and_their_own() -> None:
    configuration = worker_configuration(
        {
            **DISTRIBUTED,
            "security.protocol": "SASL_SSL",
            "producer.linger.ms": "7",
            "consumer.linger.ms": "9",
            "config.storage.max.message.bytes": "2000000",
        }
    )
    assert configuration.client("producer") == {
        "bootstrap.servers": "broker:9092",
        "security.protocol": "SASL_SSL",
        "linger.ms": "7",
    }
    assert configuration.topic_settings("config") == {
        "cleanup.policy": "compact",
        "max.message.bytes": "2000000",
    }


def test_what_has_no_effect_and_what_is_not_known_is_told() -> None:
    warnings = worker_configuration(
        {**DISTRIBUTED, "plugin.path": "/x", "scheduled.rebalance.max.delay.ms": "0", "group.ids": "x"}
    ).warnings
    assert [each.split()[2] for each in warnings] == [
        "plugin.path",
        "scheduled.rebalance.max.delay.ms",
        "group.ids",
    ]
    assert "did you mean group.id?" in warnings[2]
