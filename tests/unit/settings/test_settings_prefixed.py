"""Settings of one listener, `listener.name.<listener>.…`, as Kafka reads them."""

import pytest

from moldau.broker.controller.config_rules import check_broker_configs
from moldau.broker.controller.decision import Refusal
from moldau.broker.metadata.changes import ConfigsChanged, replay
from moldau.broker.metadata.configs import effective_broker_settings
from moldau.broker.metadata.describe import Source, describe_broker
from moldau.broker.metadata.image import EMPTY_IMAGE, ResourceType
from moldau.common.settings.prefixed import listener_settings, own_texts
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import StaticSettings, from_texts

TEXTS = {
    "node.id": "1",
    "ssl.keystore.location": "/all.p12",
    "ssl.keystore.password": "for all",
    "listener.name.outside.ssl.keystore.location": "/outside.p12",
    "listener.name.outside.max.connections": "7",
    "listener.name.outside.scram-sha-256.sasl.jaas.config": "module required;",
}


def static(**more: str) -> StaticSettings:
    return from_texts({**TEXTS, **more})


def test_a_listeners_own_settings_stand_over_the_others() -> None:
    settings = static().broker
    outside, inside = listener_settings(settings, "OUTSIDE"), listener_settings(settings, "INSIDE")
    assert outside.ssl_keystore_location == "/outside.p12"
    assert outside.ssl_keystore_password == "for all"
    assert outside.max_connections == 7
    assert own_texts(settings, "OUTSIDE")["scram-sha-256.sasl.jaas.config"] == "module required;"
    assert inside.ssl_keystore_location == "/all.p12"
    assert listener_settings(settings, "OUTSIDE") is outside, "made once"
    assert not [each for each in static().warnings if each.startswith("listener.")]


def test_an_unknown_one_is_warned_of_and_a_wrong_value_names_its_setting() -> None:
    assert static(**{"listener.name.outside.ssl.keystone": "x"}).warnings
    with pytest.raises(SettingError, match=r"listener\.name\.outside\.max\.connections"):
        static(**{"listener.name.outside.max.connections": "many"})


def test_a_listeners_settings_change_while_the_broker_runs() -> None:
    broker = static().broker
    name = "listener.name.outside.ssl.keystore.location"
    image = replay(EMPTY_IMAGE, 1, [ConfigsChanged(ResourceType.BROKER, "1", {name: "/renewed.p12"})])
    settings = effective_broker_settings(image, broker, 1)
    assert listener_settings(settings, "OUTSIDE").ssl_keystore_location == "/renewed.p12"
    assert listener_settings(settings, "OUTSIDE").max_connections == 7
    image = replay(image, 2, [ConfigsChanged(ResourceType.BROKER, "1", {name: None})])
    settings = effective_broker_settings(image, broker, 1)
    assert listener_settings(settings, "OUTSIDE").ssl_keystore_location == "/outside.p12"


def test_secrets_of_a_listener_are_described_without_their_values() -> None:
    secret = {"listener.name.outside.ssl.key.password": "hush", "listener.name.outside.own.thing": "hush"}
    entries = {each.name: each for each in describe_broker(EMPTY_IMAGE, static(**secret), 1)}
    for name in [*secret, "listener.name.outside.scram-sha-256.sasl.jaas.config"]:
        assert entries[name].value is None
        assert entries[name].sensitive
        assert all(each.value is None for each in entries[name].synonyms)
    shown = entries["listener.name.outside.ssl.keystore.location"]
    assert (shown.value, shown.source, shown.read_only) == ("/outside.p12", Source.STATIC_BROKER, False)
    assert entries["ssl.keystore.location"].read_only


@pytest.mark.parametrize(
    ("name", "for_all", "said"),
    [
        ("listener.name.outside.ssl.keystore.location", False, None),
        ("listener.name.outside.ssl.truststore.certificates", False, None),
        ("listener.name.outside.max.connections", True, None),
        ("listener.name.outside.ssl.keystore.location", True, "broker id must be specified"),
        ("ssl.keystore.location", False, "Cannot update these configs dynamically"),
        ("listener.name.outside.node.id", False, "Cannot update these configs dynamically"),
        ("listener.name.outside.no.such", False, "Unknown broker config name"),
    ],
)
def test_stores_change_live_for_one_listener_of_one_broker(
    name: str, for_all: bool, said: str | None
) -> None:
    if said is None:
        check_broker_configs({name: "1"}, [name], for_all=for_all)
    else:
        with pytest.raises(Refusal, match=said):
            check_broker_configs({name: "1"}, [name], for_all=for_all)
