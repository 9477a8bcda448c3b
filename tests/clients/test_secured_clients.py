"""Every client library with every listener and mechanism: a record in and out, and the words of a refusal."""

from __future__ import annotations

import re

import pytest
from secured_clients import NAMES, REFUSED_LOGIN, REFUSED_TOPIC, Clients
from secured_fixtures import SecuredBroker

pytestmark = pytest.mark.xdist_group("secured")

WAYS = (
    ("SSL", ""),
    ("MUTUAL", ""),
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_SSL", "PLAIN"),
    ("SASL_SSL", "SCRAM-SHA-256"),
    ("SASL_SSL", "SCRAM-SHA-512"),
)


@pytest.fixture(scope="module")
def topic(secured_broker: SecuredBroker) -> str:
    return secured_broker.create_topic("alice-topic")


@pytest.fixture(params=NAMES)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_a_user_writes_and_reads(
    secured_broker: SecuredBroker,
    secured_clients: Clients,
    topic: str,
    client: str,
    listener: str,
    mechanism: str,
) -> None:
    login, address = secured_broker.login(listener, "alice", mechanism), secured_broker.address(listener)
    if client == "kcat" and "SCRAM" in mechanism:
        # librdkafka before 2.6.1 sends its nonce twice in the last message, which RFC 5802 forbids and Kafka
        # refuses since 4.0 (confluentinc/librdkafka#4895). Debian's kcat has 2.0.2.
        assert re.search(REFUSED_LOGIN[client], secured_clients.said(client, address, login, topic))
        return
    value = f"{client} {listener} {mechanism}"
    assert secured_clients.exchange(client, address, login, topic, value) == value


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_refused(
    secured_broker: SecuredBroker, secured_clients: Clients, topic: str, client: str, mechanism: str
) -> None:
    login = secured_broker.login("SASL_SSL", "alice", mechanism, password="wrong")
    said = secured_clients.said(client, secured_broker.address("SASL_SSL"), login, topic)
    assert re.search(REFUSED_LOGIN[client], said)


def test_a_topic_of_somebody_else_is_refused(
    secured_broker: SecuredBroker, secured_clients: Clients, topic: str, client: str
) -> None:
    login = secured_broker.login("SASL_PLAINTEXT", "bob")
    said = secured_clients.said(client, secured_broker.address("SASL_PLAINTEXT"), login, topic)
    assert re.search(REFUSED_TOPIC[client], said)
