"""kafka-rest.properties: the proxy's own rows, and the settings of its clients."""

import pytest

from moldau.client.librdkafka_settings import client_settings
from moldau.common.settings.rows import SettingError
from moldau.services.rest.settings import RestSettings, Role, rest_configuration


def test_clients_get_their_own_settings_and_the_common_ones():
    configuration, warnings = rest_configuration(
        {
            "bootstrap.servers": "a:1,b:2",
            "client.security.protocol": "SSL",
            "client.client.id": "all",
            "producer.client.id": "writer",
            "producer.acks": "1",
            "consumer.request.timeout.ms": "77",
            "consumer.fetch.max.bytes": "5",
            "schema.registry.url": "http://r",
        }
    )
    assert warnings == []
    assert configuration.settings.consumer_request_timeout_ms == 77
    common = {"bootstrap.servers": "a:1,b:2", "security.protocol": "SSL"}
    assert configuration.client(Role.PRODUCER) == {**common, "client.id": "writer", "acks": "1"}
    assert configuration.client(Role.CONSUMER) == {**common, "client.id": "all", "fetch.max.bytes": "5"}
    assert configuration.registry() == {"schema.registry.url": "http://r"}


def test_without_a_url_there_is_no_registry():
    configuration, _ = rest_configuration({"schema.registry.basic.auth.user.info": "a:b"})
    assert configuration.registry() == {}


def test_a_setting_that_is_not_known_is_named_with_its_neighbour():
    _, warnings = rest_configuration({"consumer_instance": "1", "fetch.min.byte": "1"})
    assert any("did you mean fetch.min.bytes?" in each for each in warnings)
    assert len(warnings) == 2


@pytest.mark.parametrize("texts", [{"fetch.min.bytes": "10000001"}, {"consumer.instance.timeout.ms": "0"}])
def test_values_outside_their_range_are_refused(texts: dict[str, str]):
    with pytest.raises(SettingError):
        rest_configuration(texts)


def test_every_row_is_explained():
    assert all(row.documentation for row in RestSettings.ROWS.values())


def test_javas_names_become_librdkafkas():
    given = {
        "max.request.size": "9",
        "buffer.memory": "1",
        "key.serializer": "a.B",
        "auto.offset.reset": "none",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'x.PlainLoginModule required username="u" password="p";',
        "security.protocol": "SASL_SSL",
    }
    assert client_settings(given, {"linger.ms": "1", "security.protocol": "PLAINTEXT"}) == {
        "linger.ms": "1",
        "message.max.bytes": "9",
        "auto.offset.reset": "error",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
    }
