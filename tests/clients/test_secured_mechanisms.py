"""Client libraries with an issuer's token (OAUTHBEARER) and a Kerberos ticket (GSSAPI), over TLS.

The issuer is a key of this test, and its tokens are files or functions, as each library wants them; the KDC
is a real one. Not here: what the broker refuses of tokens and tickets (test_token_logins.py, unit tests).
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from client_agents import Agent, java_command, java_missing, kafkajs_command, kafkajs_missing
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType
from joserfc import jws
from joserfc.jwk import ECKey
from secured_clients import Clients
from secured_fixtures import SETTINGS, SecuredBroker

from bench import apache_kafka
from bench.brokers import Moldau
from bench.secured import secured
from moldau.testing.kerberos import KerberosRealm, missing_programs
from moldau.testing.security import PLAIN, Login, Security

pytestmark = pytest.mark.xdist_group("secured-mechanisms")

LISTENER = "SASL_SSL"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
KEY = ECKey.generate_key("P-256")


def issued(user: str, **changed: Any) -> str:
    """A token of the issuer, signed."""
    now = int(time.time())
    claims = {"iss": "https://issuer", "aud": "kafka", "sub": user, "iat": now, "exp": now + 3_600, **changed}
    return jws.serialize_compact({"alg": "ES256", "kid": "k"}, json.dumps(claims), KEY)


@dataclass(frozen=True, slots=True)
class OAuthLogin(Login):
    """A login by token, in the words of each library. `password` is the token, `file` where it stands."""

    file: Path = Path()

    def librdkafka(self) -> dict[str, Any]:  # type: ignore[override]
        ends = time.time() + 3_000
        return {
            "security.protocol": self.protocol,
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (self.password, ends),
        }

    def java(self) -> dict[str, str]:
        package = OAUTH_MODULE.rpartition(".")[0]
        return {
            "security.protocol": self.protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{OAUTH_MODULE} required;",
            "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": self.file.as_uri(),
        }

    def kafka_python(self) -> dict[str, Any]:
        from kafka.net.sasl.oauth import AbstractTokenProvider

        token = self.password

        class Provider(AbstractTokenProvider):
            def token(self) -> str:
                return token

        return self._python() | {"ssl_cafile": str(self.authority), "sasl_oauth_token_provider": Provider()}

    def aiokafka(self) -> dict[str, Any]:
        import ssl

        from aiokafka.abc import AbstractTokenProvider

        token = self.password

        class Provider(AbstractTokenProvider):
            async def token(self) -> str:
                return token

        context = ssl.create_default_context(cafile=str(self.authority))
        return self._python() | {"ssl_context": context, "sasl_oauth_token_provider": Provider()}

    def _python(self) -> dict[str, Any]:
        return {"security_protocol": self.protocol, "sasl_mechanism": "OAUTHBEARER"}

    def kafkajs(self) -> dict[str, Any]:
        return {
            "ssl": {"ca": [self.authority.read_text()]},
            "sasl": {"mechanism": "oauthbearer", "token": self.password},
        }


@dataclass(frozen=True, slots=True)
class TicketLogin(Login):
    """A login by ticket; `password` is the path of the keytab. Libraries in Python find it by themselves."""

    def java(self) -> dict[str, str]:
        options = f'useKeyTab=true storeKey=true keyTab="{self.password}" principal="{self.user}"'
        return {
            "security.protocol": self.protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "sasl.mechanism": "GSSAPI",
            "sasl.jaas.config": f"{KRB5_MODULE} required {options};",
            "sasl.kerberos.service.name": "kafka",
        }

    def kafka_python(self) -> dict[str, Any]:
        return self._python() | {"ssl_cafile": str(self.authority)}

    def aiokafka(self) -> dict[str, Any]:
        import ssl

        return self._python() | {"ssl_context": ssl.create_default_context(cafile=str(self.authority))}

    def _python(self) -> dict[str, Any]:
        return {
            "security_protocol": self.protocol,
            "sasl_mechanism": "GSSAPI",
            "sasl_kerberos_service_name": "kafka",
        }


class Bench:
    """A broker that offers both mechanisms, and the clients."""

    def __init__(self, broker: SecuredBroker, folder: Path, clients: Clients, kerberos: KerberosRealm | None):
        self.broker, self.folder, self.clients, self.kerberos = broker, folder, clients, kerberos

    def by_token(self, user: str, **claims: Any) -> OAuthLogin:
        token = issued(user, **claims)
        file = self.folder / "token"
        file.write_text(token)
        certificate = self.broker.security.authority.certificate
        return OAuthLogin(LISTENER, certificate, None, "OAUTHBEARER", user, token, file=file)

    def by_ticket(self, user: str) -> TicketLogin:
        if self.kerberos is None:
            pytest.skip("no Kerberos here (krb5-kdc, krb5-user, the package gssapi)")
        keytab = str(self.kerberos.keytab(user))
        return TicketLogin(LISTENER, self.broker.security.authority.certificate, None, "GSSAPI", user, keytab)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm | None]:
    """A realm with the broker and carol, whose keytab the libraries in Python use; None without Kerberos."""
    if missing_programs() or importlib.util.find_spec("gssapi") is None:
        yield None
        return
    with KerberosRealm(tmp_path_factory.mktemp("realm")) as made, pytest.MonkeyPatch.context() as patch:
        made.add("kafka/127.0.0.1", "kafka/localhost", keytab=made.keytab("kafka"))
        made.add("carol")
        for name in ("KRB5_CONFIG", "KRB5RCACHENAME"):
            patch.setenv(name, made.environment[name])
        patch.setenv("KRB5_CLIENT_KTNAME", str(made.keytab("carol")))
        yield made


@pytest.fixture(scope="module")
def bench(realm: KerberosRealm | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("mechanisms")
    security = Security(folder / "certificates")
    keys = folder / "keys.json"
    keys.write_text(json.dumps({"keys": [{**KEY.as_dict(private=False), "kid": "k"}]}))
    settings = {
        **SETTINGS,
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER" + (",GSSAPI" if realm else ""),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
    }
    if realm:
        keytab = f'useKeyTab=true storeKey=true keyTab="{realm.keytab("kafka")}"'
        settings["listener.name.sasl_ssl.gssapi.sasl.jaas.config"] = f"{KRB5_MODULE} required {keytab};"
    process = secured(Moldau(folder / "broker", settings), security, "SASL_SSL", "MUTUAL", mechanisms=[PLAIN])
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    flags = [f"{allowed}.urls={(folder / 'token').as_uri()}", f"{allowed}.files={folder / 'token'}"]
    if realm:
        flags.append(f"-Djava.security.krb5.conf={realm.environment['KRB5_CONFIG']}")
    process.start()
    clients = Clients(_java(process.at(LISTENER), flags, folder), _kafkajs(process.at(LISTENER), folder))
    try:
        broker = SecuredBroker(process)
        for user in ("carol", "dora"):
            for resource in (ResourceType.TOPIC, ResourceType.GROUP):
                broker.allow(user, resource, "*", AclOperation.ALL, pattern=ResourcePatternType.LITERAL)
        yield Bench(broker, folder, clients, realm)
    finally:
        clients.close()
        process.stop()


def _java(address: str, flags: list[str], folder: Path) -> Callable[[], Agent]:
    def start() -> Agent:
        if reason := java_missing() or apache_kafka.available():
            pytest.skip(reason)
        java, *rest = java_command(address)
        at = rest.index("-cp") + 1
        rest[at] += f":{apache_kafka.libraries()}/*"  # what reads JWTs is no dependency of kafka-clients
        return Agent([java, *flags, *rest], folder / "java.log")

    return start


def _kafkajs(address: str, folder: Path) -> Callable[[], Agent]:
    def start() -> Agent:
        if reason := kafkajs_missing():
            pytest.skip(reason)
        return Agent(kafkajs_command(address), folder / "kafkajs.log")

    return start


@pytest.fixture(scope="module")
def topic(bench: Bench) -> str:
    return bench.broker.create_topic("mechanisms")


@pytest.mark.parametrize("client", ["confluent", "kafka-python", "aiokafka", "kafkajs", "java"])
def test_an_issuers_token(bench: Bench, topic: str, client: str) -> None:
    login, address = bench.by_token("dora"), bench.broker.address(LISTENER)
    assert bench.clients.exchange(client, address, login, topic, f"token {client}") == f"token {client}"


REFUSED: Mapping[str, str] = {"confluent": "_AUTHENTICATION", "java": "SaslAuthenticationException"}


@pytest.mark.parametrize("client", REFUSED)
def test_a_token_for_somebody_else_is_refused(bench: Bench, topic: str, client: str) -> None:
    login = bench.by_token("dora", aud="another-service")
    assert REFUSED[client] in bench.clients.said(client, bench.broker.address(LISTENER), login, topic)


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka", "java"])
def test_a_ticket(bench: Bench, topic: str, client: str) -> None:
    login, address = bench.by_ticket("carol"), bench.broker.address(LISTENER)
    assert bench.clients.exchange(client, address, login, topic, f"ticket {client}") == f"ticket {client}"
