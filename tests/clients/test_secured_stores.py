"""Key stores of every format that Kafka's guides make, and clients that read theirs: one listener for each.

The stores are made by the JDK's keytool from one key, as Kafka's documentation says. Passwords and formats
that are wrong: the unit tests of the stores.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from client_agents import Agent, java_command, java_missing
from confluent_kafka.admin import AdminClient, NewTopic
from secured_clients import Clients
from secured_raw import SecuredRaw

from moldau.testing import Broker, Security
from moldau.testing.ports import reserve_port
from moldau.testing.security import Login

pytestmark = [
    pytest.mark.xdist_group("secured-stores"),
    pytest.mark.skipif(
        java_missing() is not None or shutil.which("keytool") is None, reason="needs a JDK with keytool"
    ),
]
PASSWORD = "changeit"
LISTENERS = ("PEMFILE", "PEMTEXT", "PKCS12", "JKS")


def keytool(*words: str) -> None:
    done = subprocess.run(
        ["keytool", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Stores:
    """The broker, the listeners' ports, and the stores of its clients."""

    def __init__(self, security: Security, folder: Path) -> None:
        self.security, self.folder = security, folder
        self.ports = {name: reserve_port() for name in LISTENERS}
        self.trust = folder / "trust.jks"
        authority = str(security.authority.certificate)
        words = ["-importcert", "-alias", "authority", "-file", authority, "-keystore", str(self.trust)]
        keytool(*words, "-storetype", "JKS", "-storepass", PASSWORD, "-noprompt")
        self.pkcs12 = security.authority.pkcs12(security.pair("broker"), PASSWORD)
        self.jks = self.converted(self.pkcs12)

    def converted(self, pkcs12: Path) -> Path:
        """The same store as JKS."""
        made = self.folder / f"{pkcs12.stem}.jks"
        source = ["-srckeystore", str(pkcs12), "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD]
        target = ["-destkeystore", str(made), "-deststoretype", "JKS", "-deststorepass", PASSWORD]
        keytool("-importkeystore", *source, *target, "-noprompt")
        return made

    def settings(self) -> dict[str, str]:
        listeners = ",".join(f"{name}://127.0.0.1:{port.number}" for name, port in self.ports.items())
        pair = self.security.pair("broker")
        own = {
            "PEMFILE": {"type": "PEM", "location": str(pair.store)},
            "PEMTEXT": {
                "type": "PEM",
                "key": pair.key.read_text(),
                "certificate.chain": pair.certificate.read_text(),
            },
            "PKCS12": {"type": "PKCS12", "location": str(self.pkcs12), "password": PASSWORD},
            "JKS": {"type": "JKS", "location": str(self.jks), "password": PASSWORD},
        }
        settings = {
            "listeners": listeners,
            "listener.security.protocol.map": ",".join(f"{name}:SSL" for name in LISTENERS),
            "inter.broker.listener.name": "PEMFILE",
            "ssl.client.auth": "required",
            "ssl.truststore.type": "JKS",
            "ssl.truststore.location": str(self.trust),
            "ssl.truststore.password": PASSWORD,
        }
        for name, store in own.items():
            for part, value in store.items():
                settings[f"listener.name.{name.lower()}.ssl.keystore.{part}"] = value
        settings["listener.name.jks.ssl.key.password"] = PASSWORD
        return settings


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    folder = tmp_path_factory.mktemp("stores")
    made = Stores(Security(folder / "certificates"), folder)
    with Broker(made.settings()):
        yield made
    for port in made.ports.values():
        port.release()


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_listener_with_each_format(stores: Stores, listener: str) -> None:
    login = Login("SSL", stores.security.authority.certificate, stores.security.pair("alice"))
    with SecuredRaw(stores.ports[listener].number, login) as one:
        assert one.advertised()


def test_a_java_client_with_stores_of_java(stores: Stores) -> None:
    login = Login("SSL", stores.security.authority.certificate, stores.security.pair("alice"))
    address = f"127.0.0.1:{stores.ports['PEMFILE'].number}"
    admin = AdminClient({"bootstrap.servers": address, **login.librdkafka()})
    admin.create_topics([NewTopic("stores", 1, 1)])["stores"].result(60)
    key = stores.converted(stores.security.authority.pkcs12(stores.security.pair("alice"), PASSWORD))
    by_stores = _JksLogin("SSL", stores.security.authority.certificate, key=key, trust=stores.trust)
    clients = Clients(lambda: Agent(java_command(address), stores.folder / "java.log"), _none)
    try:
        for listener in LISTENERS:
            there = f"127.0.0.1:{stores.ports[listener].number}"
            assert clients.exchange("java", there, by_stores, "stores", listener) == listener
    finally:
        clients.close()


def _none() -> Agent:
    raise AssertionError("KafkaJS is not asked for")


@dataclass(frozen=True, slots=True)
class _JksLogin(Login):
    """Key and trust store as JKS, in the words of Java."""

    key: Path = Path()
    trust: Path = Path()

    def java(self) -> dict[str, str]:
        return {
            "security.protocol": "SSL",
            "ssl.keystore.location": str(self.key),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
            "ssl.truststore.location": str(self.trust),
            "ssl.truststore.password": PASSWORD,
        }
