"""Logins over real connections while users change: made by the format, passwords changed and users removed
while clients are logged in, re-authentication of librdkafka and of a client of one socket."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

import pytest
from client_model import eventually
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from raw_client import Disconnected, RawClient

from moldau.common.protocol.errors import ErrorCode
from moldau.testing import Broker
from moldau.testing.ports import reserve_port
from moldau.tools.kafka.programs import storage

HANDSHAKE, AUTHENTICATE, METADATA = 17, 36, 3
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LIMIT_S = 120.0


class Running:
    """A broker: a listener for logins, one whose logins end after 2 seconds, one for its administrator."""

    def __init__(self, broker: Broker, admin: str, logins: str, ending: str) -> None:
        self.broker, self.address, self.ending = broker, logins, ending
        self.admin = AdminClient({"bootstrap.servers": admin})

    def set_jaas(self, jaas: str) -> KafkaError | None:
        """Change the users of PLAIN; the error, if it is refused."""
        name = "listener.name.logins.plain.sasl.jaas.config"
        entry = ConfigEntry(name, jaas, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        (done,) = self.admin.incremental_alter_configs([resource]).values()
        failure = done.exception(LIMIT_S)
        return None if failure is None else failure.args[0]

    def set_scram(self, change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
        (done,) = self.admin.alter_user_scram_credentials([change]).values()
        done.result(LIMIT_S)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("logins")
    properties = folder / "server.properties"
    properties.write_text(f"node.id=1\nlog.dirs={folder}/data\n")
    words = ["format", "-t", "clusterclusterclusterX", "-c", str(properties)]
    storage.main([*words, "--add-scram", "SCRAM-SHA-256=[name=first,password=first-secret]"])
    ports = [reserve_port() for _ in range(3)]
    plain, logins, ending = [f"127.0.0.1:{port.number}" for port in ports]
    settings = {
        "node.id": 1,
        "listeners": f"PLAINTEXT://{plain},LOGINS://{logins},ENDING://{ending}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT,ENDING:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.jaas.config": f'{PLAIN} user_alice="one";',
        "listener.name.ending.plain.connections.max.reauth.ms": 2000,
        "connection.failed.authentication.delay.ms": 10,
    }
    try:
        with Broker(settings, data=folder / "data") as broker:
            made = Running(broker, plain, logins, ending)
            yield made
            del made.admin  # a client of a broker that is gone tries it for ever
    finally:
        for port in ports:
            port.release()


def plain_login(client: RawClient, name: str, password: str, version: int = 1) -> int:
    """Log in with PLAIN; the error code."""
    assert client.call(HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
    answer = client.call(AUTHENTICATE, version, auth_bytes=f"\0{name}\0{password}".encode())
    return int(answer.error_code)


def is_served(client: RawClient) -> bool:
    """Whether a request is answered."""
    try:
        return client.call(METADATA, 9, topics=[]) is not None
    except (Disconnected, OSError):
        return False


def producer(address: str, mechanism: str, name: str, password: str, errors: list[KafkaError]) -> Producer:
    return Producer(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password,
            "error_cb": errors.append,
            "log_level": 0,
        }
    )


def can_write(running: Running, name: str, password: str) -> bool:
    """Whether librdkafka logs in with SCRAM and writes a record."""
    errors: list[KafkaError] = []
    one = producer(running.address, "SCRAM-SHA-256", name, password, errors)
    one.produce("changes", b"value")
    refused = KafkaError._AUTHENTICATION

    def settled() -> bool:
        one.poll(0.05)
        return len(one) == 0 or any(each.code() == refused for each in errors)

    eventually(settled, timeout_s=LIMIT_S)
    written = len(one) == 0
    one.purge()
    one.flush(1)
    return written


def test_a_user_of_the_format_logs_in_at_the_first_start(running: Running) -> None:
    assert can_write(running, "first", "first-secret")
    assert not can_write(running, "first", "wrong")


def test_users_of_plain_change_while_the_broker_runs(running: Running) -> None:
    with RawClient(running.address, LIMIT_S) as before, RawClient(running.address, LIMIT_S) as begun:
        assert plain_login(before, "alice", "one") == ErrorCode.NONE
        assert running.set_jaas(f'{PLAIN} user_alice="two" user_bob="three";') is None
        assert is_served(before)  # it stays logged in
        assert plain_login(begun, "alice", "two") == ErrorCode.NONE
    for name, password, code in (
        ("alice", "one", ErrorCode.SASL_AUTHENTICATION_FAILED),
        ("bob", "three", ErrorCode.NONE),
    ):
        with RawClient(running.address, LIMIT_S) as client:
            assert plain_login(client, name, password) == code
    refused = running.set_jaas(f'{PLAIN} user_alice="s3cret')
    assert refused is not None
    assert "a quote is not closed" in refused.str()
    assert "s3cret" not in refused.str()
    with RawClient(running.address, LIMIT_S) as client:
        assert plain_login(client, "alice", "two") == ErrorCode.NONE


def test_a_scram_user_that_is_made_changed_and_removed(running: Running) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    errors: list[KafkaError] = []
    running.set_scram(UserScramCredentialUpsertion("carol", info, b"old"))
    stays = producer(running.address, "SCRAM-SHA-256", "carol", "old", errors)
    stays.produce("changes", b"value")
    assert stays.flush(LIMIT_S) == 0
    running.set_scram(UserScramCredentialUpsertion("carol", info, b"new"))
    assert not can_write(running, "carol", "old")
    assert can_write(running, "carol", "new")
    running.set_scram(UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256))
    assert not can_write(running, "carol", "new")
    stays.produce("changes", b"value")
    assert stays.flush(LIMIT_S) == 0  # its connection was there before


def _metric(running: Running, name: str) -> int:
    """The value of a metric of the listener ENDING."""
    with urllib.request.urlopen(f"http://{running.broker.http_address}/metrics", timeout=LIMIT_S) as page:
        text = page.read().decode()
    match = re.search(rf'^kafka_server_socket_server_metrics_{name}{{listener="ENDING".*}} (\d+)', text, re.M)
    assert match is not None, name
    return int(match[1])


def test_librdkafka_re_authenticates_and_loses_nothing(running: Running) -> None:
    errors: list[KafkaError] = []
    failed: list[KafkaError] = []
    one = producer(running.ending, "PLAIN", "alice", "one", errors)

    def renewed() -> bool:
        one.produce("changes", b"value", on_delivery=lambda error, _: error and failed.append(error))
        one.poll(0.05)
        return _metric(running, "successful_reauthentication_total") >= 2

    eventually(renewed, timeout_s=LIMIT_S)
    assert one.flush(LIMIT_S) == 0
    assert failed == []
    assert [each for each in errors if each.code() == KafkaError._AUTHENTICATION] == []


def test_a_client_that_does_not_re_authenticate_is_closed(running: Running) -> None:
    killed = _metric(running, "expired_connections_killed_count")
    with RawClient(running.ending, LIMIT_S) as client:
        client.call(HANDSHAKE, 1, mechanism="PLAIN")
        answer = client.call(AUTHENTICATE, 1, auth_bytes=b"\0alice\0one")
        assert answer.session_lifetime.total_seconds() == 2
        eventually(lambda: not is_served(client), timeout_s=LIMIT_S)
    assert _metric(running, "expired_connections_killed_count") > killed


def test_nobody_re_authenticates_as_somebody_else(running: Running) -> None:
    with RawClient(running.ending, LIMIT_S) as client:
        assert plain_login(client, "alice", "one") == ErrorCode.NONE
        assert client.call(HANDSHAKE, 1, mechanism="SCRAM-SHA-256").error_code == 0
        refused = client.call(AUTHENTICATE, 1, auth_bytes=b"n,,n=first,r=nonce")
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert not is_served(client)
