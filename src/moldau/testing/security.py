"""`Security`: the settings of a secured broker, and those of its clients, for tests.

    security = Security(folder)                     certificates and passwords, made anew
    with Broker(security=security) as broker:
        login = security.login("SASL_SSL", "alice", "SCRAM-SHA-256")
        Producer({"bootstrap.servers": broker.address("SASL_SSL"), **login.librdkafka()})

The broker has a listener for each way in, named after it:

    PLAINTEXT        no login: the client is User:ANONYMOUS
    SSL              TLS; a certificate may be shown (then CN is the user), and need not be
    MUTUAL           TLS; the client must show a certificate
    SASL_PLAINTEXT   a login by user and password, in clear text
    SASL_SSL         the same over TLS

Users are alice and bob, who have no rights; admin, a super user; and broker, as whom brokers connect to each
other.
The settings bear Kafka's names, so that Apache Kafka can be started with them too: a test that is right is
right against both.

SCRAM credentials are metadata and not settings: they are made once a broker runs (`add_scram_users`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moldau.testing.authority import Authority, KeyPair
from moldau.testing.broker import SUPER_USER

PROTOCOLS: Mapping[str, str] = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
"""The listeners by name, each with its security protocol."""

BROKER_USER = "broker"
PLAIN, SCRAM_256, SCRAM_512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_MODULES = "org.apache.kafka.common.security"
_LOOPBACK = "127.0.0.1"
_ADMIN_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Login:
    """How a client connects to one listener, in the words of each client library."""

    protocol: str
    authority: Path
    pair: KeyPair | None = None
    mechanism: str = ""
    user: str = ""
    password: str = ""
    token: bool = False  # user and password are a delegation token's id and HMAC

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    def with_token(self) -> Login:
        """The same with a delegation token instead of a user (Java only)."""
        return replace(self, token=True)

    def librdkafka(self) -> dict[str, str]:
        """Settings of librdkafka, confluent-kafka and kcat."""
        settings = {"security.protocol": self.protocol}
        if self.tls:
            settings["ssl.ca.location"] = str(self.authority)
        if self.pair is not None:
            settings["ssl.key.location"] = str(self.pair.key)
            settings["ssl.certificate.location"] = str(self.pair.certificate)
        if self.mechanism:
            settings["sasl.mechanism"] = self.mechanism
            settings["sasl.username"], settings["sasl.password"] = self.user, self.password
        return settings

    def java(self) -> dict[str, str]:
        """Settings of the Java client, and of `--command-config` of Kafka's tools."""
        settings = {"security.protocol": self.protocol}
        if self.tls:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        if self.pair is not None:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.pair.store)}
        if self.mechanism:
            settings["sasl.mechanism"] = self.mechanism
            options = {"username": self.user, "password": self.password}
            if self.token:
                options["tokenauth"] = "true"
            settings["sasl.jaas.config"] = jaas_entry(self.mechanism, options)
        return settings

    def kafka_python(self) -> dict[str, Any]:
        """Keywords of kafka-python."""
        words: dict[str, Any] = {"security_protocol": self.protocol}
        if self.tls:
            words["ssl_cafile"] = str(self.authority)
        if self.pair is not None:
            words |= {"ssl_certfile": str(self.pair.certificate), "ssl_keyfile": str(self.pair.key)}
        if self.mechanism:
            words |= self._sasl_keywords()
        return words

    def aiokafka(self) -> dict[str, Any]:
        """Keywords of aiokafka."""
        import ssl

        words: dict[str, Any] = {"security_protocol": self.protocol}
        if self.tls:
            words["ssl_context"] = ssl.create_default_context(cafile=str(self.authority))
            if self.pair is not None:
                words["ssl_context"].load_cert_chain(self.pair.certificate, self.pair.key)
        if self.mechanism:
            words |= self._sasl_keywords()
        return words

    def _sasl_keywords(self) -> dict[str, str]:
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }

    def kafkajs(self) -> dict[str, Any]:
        """Options of KafkaJS, as JSON can tell them."""
        options: dict[str, Any] = {}
        if self.tls:
            options["ssl"] = {"ca": [self.authority.read_text()]}
            if self.pair is not None:
                options["ssl"] |= {
                    "key": self.pair.key.read_text(),
                    "cert": self.pair.certificate.read_text(),
                }
        if self.mechanism:
            mechanism = self.mechanism.lower()
            options["sasl"] = {"mechanism": mechanism, "username": self.user, "password": self.password}
        return options


class Security:
    """Certificates in `folder`, and a password for each user; none of them is ever the same twice."""

    def __init__(self, folder: Path, users: Sequence[str] = ("alice", "bob")) -> None:
        self.authority = Authority(folder)
        self.users = {name: secrets.token_hex(16) for name in (*users, SUPER_USER, BROKER_USER)}
        self._pairs = {name: self.authority.issue(name) for name in self.users}

    def pair(self, user: str) -> KeyPair:
        """The certificate of a user: common name and user name are the same."""
        return self._pairs[user]

    def login(self, listener: str, user: str = "", mechanism: str = PLAIN, *, password: str = "") -> Login:
        """How `user` connects to `listener`, by certificate or password; without a user, anonymously."""
        protocol = PROTOCOLS[listener]
        if not protocol.startswith("SASL"):
            pair = self._pairs[user] if user and protocol == "SSL" else None
            return Login(protocol, self.authority.certificate, pair)
        if not password:
            password = self.users[user]
        return Login(protocol, self.authority.certificate, None, mechanism, user, password)

    def secrets(self) -> dict[str, str]:
        """Every text that must not appear in a log, metric, error or dump, by what it is."""
        texts = {f"password of {user}": password for user, password in self.users.items()}
        for user, pair in self._pairs.items():
            texts[f"private key of {user}"] = pair.key.read_text().splitlines()[1]
        return texts

    def settings(
        self,
        ports: Mapping[str, int],
        *,
        mechanisms: Sequence[str] = (PLAIN, SCRAM_256, SCRAM_512),
        authorizer: bool = True,
    ) -> dict[str, str]:
        """The broker's settings, under Kafka's names. `ports`: of each listener that there shall be."""
        listeners = ",".join(f"{name}://{_LOOPBACK}:{port}" for name, port in ports.items())
        settings = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(f"{name}:{PROTOCOLS[name]}" for name in ports),
            "inter.broker.listener.name": "MUTUAL" if "MUTUAL" in ports else next(iter(ports)),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._pairs[BROKER_USER].store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "ssl.client.auth": "requested",
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": ",".join(mechanisms),
        }
        for name in ports:
            if PROTOCOLS[name].startswith("SASL"):
                for mechanism in mechanisms:
                    setting = f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config"
                    settings[setting] = jaas_entry(mechanism, self._jaas_options(mechanism))
        if authorizer:
            settings["authorizer.class.name"] = STANDARD_AUTHORIZER
            settings["super.users"] = f"User:{SUPER_USER};User:{BROKER_USER}"
        return settings

    def add_scram_users(
        self, admin: Mapping[str, Any], names: Sequence[str] = (), iterations: int = 4096
    ) -> None:
        """Give users (all, if none is named) the SCRAM credentials of their passwords.

        `admin`: librdkafka's settings of a client that may do that.
        """
        from confluent_kafka.admin import (
            AdminClient,
            ScramCredentialInfo,
            ScramMechanism,
            UserScramCredentialAlteration,
            UserScramCredentialUpsertion,
        )

        client = AdminClient(dict(admin))
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            changes: list[UserScramCredentialAlteration] = [
                UserScramCredentialUpsertion(
                    name,
                    ScramCredentialInfo(mechanism, iterations),
                    self.users[name].encode(),
                    secrets.token_hex(8).encode(),
                )
                for name in names or self.users
            ]  # one of each user: Kafka takes no more in a request
            for done in client.alter_user_scram_credentials(changes).values():
                done.result(_ADMIN_TIMEOUT_S)

    def _jaas_options(self, mechanism: str) -> dict[str, str]:
        if mechanism != PLAIN:
            return {}
        own = {"username": BROKER_USER, "password": self.users[BROKER_USER]}  # as which it logs in to others
        return own | {f"user_{user}": password for user, password in self.users.items()}


def jaas_entry(mechanism: str, options: Mapping[str, str]) -> str:
    """A login module with its options, in JAAS notation."""
    module = "plain.PlainLoginModule" if mechanism == PLAIN else "scram.ScramLoginModule"
    words = "".join(f' {name}="{value}"' for name, value in options.items())
    return f"{_MODULES}.{module} required{words};"
