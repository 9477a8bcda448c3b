"""No setting that would protect something is taken and ignored."""

import re

import pytest

from moldau.broker.controller.config_rules import check_broker_configs, checked_topic_configs
from moldau.broker.controller.decision import Refusal
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.group import GroupSettings
from moldau.common.settings.rows import Guard, SettingError
from moldau.common.settings.sources import from_texts
from moldau.common.settings.topic import TopicSettings

FOREIGN = [
    ("create.topic.policy.class.name", "com.example.OurPolicy", "module:Class"),
    ("create.topic.policy.class.name", "our_policies", "module:Class"),
    ("alter.config.policy.class.name", "com.example.OurPolicy", "module:Class"),
    ("principal.builder.class", "com.example.OurPrincipals", "Remove the setting"),
    ("client.quota.callback.class", "com.example.OurQuotas", "kafka-configs"),
    ("remote.log.storage.system.enable", "true", "no tiered storage"),
    ("cordoned.log.dirs", "/data/old", "log.dirs"),
    ("cordoned.log.dirs", "*", "log.dirs"),
    ("security.providers", "com.example.Fips", "openssl.cnf"),
    ("ssl.provider", "BCFIPS", "openssl.cnf"),
    ("ssl.engine.factory.class", "com.example.OurEngine", "ssl.keystore"),
    ("ssl.trustmanager.algorithm", "OursWithRevocation", "Remove the setting"),
    ("sasl.server.callback.handler.class", "com.example.LdapHandler", "would get in"),
    ("sasl.oauthbearer.jwt.validator.class", "com.example.OurValidator", "would be taken"),
    ("group.coordinator.rebalance.protocols", "consumer", "Disabling the 'classic' protocol"),
    ("authorizer.class.name", "org.apache.ranger.RangerKafkaAuthorizer", "must be one of"),
]
KAFKAS = {
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "sasl.server.callback.handler.class": "org.apache.kafka.common.security.plain.internals."
    "PlainServerCallbackHandler",
    "sasl.oauthbearer.jwt.validator.class": "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
    "ssl.engine.factory.class": "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
    "ssl.trustmanager.algorithm": "SunX509",
    "remote.log.storage.system.enable": "false",
    "create.topic.policy.class.name": "",
    "client.quota.callback.class": "",
    "cordoned.log.dirs": "",
    "group.coordinator.rebalance.protocols": "classic",
}

HARMLESS = {
    "threads, buffers and pauses of Kafka's own machinery": r"""
        .*threads?(\.pool\.size)?|.*purgatory\.purge.*|.*load\.buffer\.size|.*cached\.buffer.*|.*\.append\.linger\.ms
        |socket\.(send|receive)\.buffer\.bytes|replica\.socket\.receive\.buffer\.bytes|queued\.max\.requests
        |request\.timeout\.ms|(log\.)?preallocate|offsets\.topic\.compression\.codec
        |add\.partitions\.to\.txn\..*|transaction\.abort\.timed\.out.*|unclean\.leader\.election\.interval\.ms
        |log\.flush\.start\.offset\.checkpoint\.interval\.ms|socket\.connection\.setup\.timeout\.max\.ms
        |zookeeper\.clientCnxnSocket""",
    "KRaft, whose place another store has": r"""
        controller\..*|process\.roles|metadata\..*|broker\.(heartbeat|session)\..*|early\.start\.listeners
        |sasl\.mechanism\.controller\.protocol|log\.dir\.failure\.timeout\.ms""",
    "what is reported, not what is kept out": r"(kafka\.)?metrics?\..*|telemetry\..*",
    "features that are not there, and whose requests are refused": r"""
        share\.coordinator\.state\.topic\.compression\.codec|group\.share\.assignors|(group\.)?streams\..*|transaction\.two\.phase\.commit\.enable|unstable\..*""",
    "tiered storage, which cannot be switched on": r"""
        remote\..*|(log\.)?local\.retention\..*|follower\.fetch\.last\.tiered.*""",
    "how a broker logs in to others, or Java's own way to TLS": r"""
        sasl\.(client\.callback|login)\..*|sasl\.kerberos\.(kinit|min|ticket)\..*
        |ssl\.(protocol|keymanager\.algorithm|secure\.random\.implementation)""",
}
"""Rows without effect, by the reason why ignoring one removes no protection."""


@pytest.mark.parametrize(("name", "value", "remedy"), FOREIGN)
def test_what_guards_and_is_not_there_is_refused_at_the_start(name, value, remedy):
    with pytest.raises(SettingError, match=re.escape(remedy)) as refused:
        from_texts({name: value})
    assert name in refused.value.sentence


@pytest.mark.parametrize("name", ["principal.builder.class", "plain.sasl.server.callback.handler.class"])
def test_for_one_listener_too(name):
    with pytest.raises(SettingError, match=rf"listener\.name\.outside\.{name}"):
        from_texts({f"listener.name.outside.{name}": "com.example.Ours"})


@pytest.mark.parametrize("name", ["principal.builder.class", "ssl.trustmanager.algorithm"])
def test_while_the_broker_runs_too(name):
    with pytest.raises(Refusal):
        check_broker_configs({name: "com.example.Ours"}, [name], for_all=False)


def test_what_kafka_ships_is_taken():
    from_texts(KAFKAS)


def test_defaults_pass_their_own_guards():
    for row in BrokerSettings.ROWS.values():
        if isinstance(row.check, Guard) and row.default is not None:
            assert row.check(row.default) is None, row.name


@pytest.mark.parametrize("cls", [BrokerSettings, TopicSettings, GroupSettings])
def test_every_setting_without_effect_is_refused_or_harmless_for_a_reason(cls):
    patterns = [re.compile("".join(each.split())) for each in HARMLESS.values()]
    doubtful = [
        row.name
        for row in cls.ROWS.values()
        if not row.effective
        and not isinstance(row.check, Guard)
        and not any(pattern.fullmatch(row.name) for pattern in patterns)
    ]
    assert doubtful == []


@pytest.mark.parametrize("texts", [{"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097152"}])
def test_the_cleaner_needs_more_than_a_megabyte_for_each_thread(texts):
    with pytest.raises(SettingError, match="at least 1MB per cleaner thread"):
        from_texts(texts)
    from_texts({**texts, "log.cleaner.threads": "1"})
    from_texts({**texts, "log.cleaner.dedupe.buffer.size": "2097154"})


@pytest.mark.parametrize("value", ["off", "", "127.0.0.1:0", "[::1]:9640", ":9640"])
def test_where_the_page_is_served(value):
    from_texts({"moldau.http.listener": value})


@pytest.mark.parametrize("value", ["no", "9640", "host:", "host:99999", "host:x"])
def test_where_it_cannot_be_served(value):
    with pytest.raises(SettingError, match="Expected host:port"):
        from_texts({"moldau.http.listener": value})


def test_no_topic_is_to_be_kept_in_remote_storage() -> None:
    assert checked_topic_configs({"remote.storage.enable": "false"})
    with pytest.raises(Refusal, match="Tiered Storage functionality is disabled"):
        checked_topic_configs({"remote.storage.enable": "true"})
