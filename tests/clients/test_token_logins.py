"""Logins by what somebody else vouches for: an issuer, a delegation token, a Kerberos ticket; over real
connections, by our own client, confluent-kafka and the commands."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client_model import eventually
from confluent_kafka import Consumer, KafkaError, Producer
from joserfc import jws
from joserfc.jwk import ECKey

from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.tokens import Token, create_token, describe_tokens, expire_token, renew_token
from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.client.options import parse_options
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.metadata import MetadataRequest
from moldau.testing import Broker
from moldau.testing.kerberos import KerberosRealm, missing_programs
from moldau.testing.ports import reserve_port
from moldau.tools.kafka.running import run
from moldau.tools.main import main

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"
SECRET = "a secret of all brokers"
USERS = ("alice", "bob")
KEY = ECKey.generate_key("P-256")


class Secured:
    """A broker with a listener for logins, and what its clients need."""

    def __init__(self, broker: Broker, folder: Path, address: str, realm: KerberosRealm | None) -> None:
        self.broker = broker
        self.folder = folder
        self.address = address
        self.realm = realm

    def settings(self, mechanism: str, jaas: str, **more: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{jaas};",
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def plain(self, user: str = "alice") -> dict[str, str]:
        return self.settings("PLAIN", f'{PLAIN} username="{user}" password="{user}-secret"')

    def by_token(self, token: Token, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        login = f'username="{token.token_id}" password="{token.hmac_text}" tokenauth="true"'
        return self.settings(mechanism, f"{SCRAM} {login}")

    def by_issuer(self, **claims: Any) -> dict[str, str]:
        path = self.folder / "token"
        path.write_text(issued(**claims))
        return self.settings("OAUTHBEARER", OAUTH, sasl_oauthbearer_token_endpoint_url=path.as_uri())

    def by_ticket(self, principal: str = "carol") -> dict[str, str]:
        assert self.realm is not None
        login = f'useKeyTab=true keyTab="{self.realm.keytab(principal)}" principal="{principal}"'
        return self.settings("GSSAPI", f"{KRB5} {login}", sasl_kerberos_service_name="kafka")

    def cluster(self, settings: dict[str, str]) -> Cluster:
        limits = {"default.api.timeout.ms": "60000", "client.id": "test"}
        return Cluster(self.address, parse_options({**limits, **settings}))

    def can_log_in(self, settings: dict[str, str]) -> bool:
        with self.cluster(settings) as cluster:
            try:
                cluster.any_broker().ask(MetadataRequest(topics=[]))
            except (ClientError, OSError):
                return False
        return True

    def command_config(self, settings: dict[str, str]) -> str:
        path = self.folder / f"{abs(hash(tuple(settings.items())))}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return str(path)


def issued(**changed: Any) -> str:
    now = int(time.time())
    claims = {
        "iss": "https://issuer",
        "aud": "kafka",
        "sub": "dora",
        "iat": now,
        "exp": now + 3_600,
        **changed,
    }
    return jws.serialize_compact({"alg": "ES256", "kid": "k"}, json.dumps(claims), KEY)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    (folder / "keys.json").write_text(json.dumps({"keys": [{**KEY.as_dict(private=False), "kid": "k"}]}))
    port, login_port = reserve_port(), reserve_port()
    users = " ".join(f'user_{name}="{name}-secret"' for name in USERS)
    listener = "listener.name.logins"
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port.number},LOGINS://127.0.0.1:{login_port.number}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{listener}.plain.sasl.jaas.config": f"{PLAIN} {users};",
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "delegation.token.secret.key": SECRET,
    }
    with pytest.MonkeyPatch.context() as patch:
        realm = None
        if not missing_programs() and _has_gssapi():
            realm = KerberosRealm(folder / "realm").__enter__()
            # Java asks for a ticket of the host name that the address has.
            realm.add("kafka/127.0.0.1", "kafka/localhost", keytab=realm.keytab("kafka"))
            realm.add("carol")
            for name in ("KRB5_CONFIG", "KRB5RCACHENAME"):
                patch.setenv(name, realm.environment[name])
            settings["sasl.enabled.mechanisms"] += ",GSSAPI"
            settings[f"{listener}.gssapi.sasl.jaas.config"] = (
                f'{KRB5} useKeyTab=true storeKey=true keyTab="{realm.keytab("kafka")}";'
            )
        try:
            with Broker(settings) as broker:
                yield Secured(broker, folder, f"127.0.0.1:{login_port.number}", realm)
        finally:
            if realm is not None:
                realm.__exit__(None, None, None)
            port.release()
            login_port.release()


def _has_gssapi() -> bool:
    try:
        import gssapi  # noqa: F401
    except (ImportError, OSError):
        return False
    return True


def test_an_issuers_token(secured: Secured) -> None:
    assert secured.can_log_in(secured.by_issuer())
    now = int(time.time())
    for wrong in ({"aud": "other"}, {"iss": "other"}, {"exp": now - 60, "iat": now - 90}, {"sub": ""}):
        assert not secured.can_log_in(secured.by_issuer(**wrong))


def test_an_issuers_token_of_confluent_kafka(secured: Secured) -> None:
    def settings(token: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": secured.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token, time.time() + 3_000),
            "log_level": 2,
        }

    secured.broker.create_topic("issued")
    producer = Producer(settings(issued()))
    producer.produce("issued", b"value")
    assert producer.flush(120) == 0
    consumer = Consumer({**settings(issued()), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["issued"])
    found = consumer.poll(120)
    consumer.close()
    assert found is not None
    assert found.value() == b"value"
    errors: list[KafkaError] = []
    refused = Consumer({**settings(issued(aud="other")), "group.id": "g", "error_cb": errors.append})

    def was_refused() -> bool:
        assert refused.poll(0.1) is None
        return any(each.code() == KafkaError._AUTHENTICATION for each in errors)

    refused.subscribe(["issued"])
    eventually(was_refused, 120)
    refused.close()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_delegation_token_from_its_creation_to_its_end(secured: Secured, mechanism: str) -> None:
    with secured.cluster(secured.plain("alice")) as alice, secured.cluster(secured.plain("bob")) as bob:
        token = create_token(alice, ["User:bob"], -1)
        assert (token.owner, token.requester) == ("User:alice", "User:alice")
        assert token in describe_tokens(bob, ["User:alice"])
        with secured.cluster(secured.by_token(token, mechanism)) as holder:
            holder.any_broker().ask(MetadataRequest(topics=[]))
            for refused in (
                lambda: create_token(holder, [], -1),
                lambda: describe_tokens(holder, None),
                lambda: renew_token(holder, token.hmac, -1),
            ):
                with pytest.raises(KafkaProblem) as raised:
                    refused()
                assert raised.value.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert renew_token(bob, token.hmac, 60_000) < token.expires_ms
        other = SCRAM_OF_THE_OTHER[mechanism]
        assert secured.can_log_in(secured.by_token(token, other))
        forged = token._replace(hmac=bytes(64))
        assert not secured.can_log_in(secured.by_token(forged, mechanism))
        expire_token(alice, token.hmac, -1)
        assert not secured.can_log_in(secured.by_token(token, mechanism))
    # A token's id and HMAC are no user and password.
    as_user = secured.by_token(token, mechanism)
    as_user["sasl.jaas.config"] = as_user["sasl.jaas.config"].replace(' tokenauth="true"', "")
    assert not secured.can_log_in(as_user)


SCRAM_OF_THE_OTHER = {"SCRAM-SHA-256": "SCRAM-SHA-512", "SCRAM-SHA-512": "SCRAM-SHA-256"}


def test_a_login_ends_with_its_token(secured: Secured) -> None:
    with secured.cluster(secured.plain()) as alice:
        token = create_token(alice, [], 2_000)
        with secured.cluster(secured.by_token(token)) as holder:
            broker = holder.any_broker()
            broker.ask(MetadataRequest(topics=[]))

            def ended() -> bool:
                try:
                    broker.ask(MetadataRequest(topics=[]))
                except (ClientError, OSError):
                    return True
                return False

            eventually(ended, 120)
        eventually(lambda: not secured.can_log_in(secured.by_token(token)), 120)


def test_a_ticket(secured: Secured) -> None:
    if secured.realm is None:
        pytest.skip("no Kerberos here (krb5-kdc, krb5-user, the package gssapi)")
    with secured.cluster(secured.by_ticket()) as carol:
        token = create_token(carol, [], -1)
        assert token.owner == "User:carol"
    secured.realm.add("stranger")
    assert secured.can_log_in(secured.by_ticket("stranger"))
    without = secured.by_ticket()
    without["sasl.kerberos.service.name"] = "nobody"
    assert not secured.can_log_in(without)


def test_kafkas_command(secured: Secured, capsys: pytest.CaptureFixture[str]) -> None:
    def tool(*words: str) -> str:
        config = secured.command_config(secured.plain())
        line = ["--bootstrap-server", secured.address, "--command-config", config, *words]
        assert run("kafka-delegation-tokens.sh", line) == 0
        return capsys.readouterr().out

    made = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    assert made.startswith(
        "Calling create token operation with renewers :[User:bob] , max-life-time-period :-1\n"
    )
    hmac = next(word for word in made.split() if word.endswith("=="))
    assert hmac in tool("--describe", "--owner-principal", "User:alice")
    assert "New expiry date : 20" in tool("--renew", "--renew-time-period", "-1", "--hmac", hmac)
    tool("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert hmac not in tool("--describe")
    assert run("kafka-delegation-tokens", ["--bootstrap-server", secured.address, "--create"]) == 1
    assert 'Missing required argument "[command-config]"' in capsys.readouterr().err


def test_our_own_command(secured: Secured, capsys: pytest.CaptureFixture[str]) -> None:
    def moldau(*words: str, code: int = 0) -> str:
        config = secured.command_config(secured.plain())
        assert main(["tokens", *words, "-b", secured.address, "--command-config", config]) == code
        said = capsys.readouterr()
        return said.out if code == 0 else said.err

    (made,) = json.loads(moldau("create", "--renewer", "User:bob", "--max-lifetime", "2h", "--json"))
    assert (made["owner"], made["renewers"]) == ("User:alice", ["User:bob"])
    assert made["hmac"] not in moldau("list")
    assert made["hmac"] in moldau("list", "--show-hmacs", "--owner", "User:bob")
    assert "expires at 20" in moldau("renew", made["hmac"], "--for", "30s")
    assert "removed" in moldau("remove", made["hmac"])
    assert "moldau tokens list" in moldau("remove", made["hmac"], code=1)
    assert "no principal" in moldau("create", "--renewer", "bob", code=2)
    assert main(["tokens", "list", "-b", secured.broker.bootstrap_servers]) == 1
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in capsys.readouterr().err
