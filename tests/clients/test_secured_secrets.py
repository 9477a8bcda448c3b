"""No secret is in what a run says or leaves behind: logs, metrics, health, answers, data, command lines.

One broker, with its log at DEBUG, is logged in to by every mechanism, rightly and wrongly, and is asked for
everything that it tells; it is started with settings that are broken beside their passwords. Then all that
came of it is searched for every password, key and token, also in the usual disguises.

Not here: salted SCRAM keys, which are in the metadata as in Kafka's.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from secured_raw import ScramExchange, SecuredRaw

from bench.brokers import Moldau
from bench.secured import SecuredProcess, secured, write_settings
from moldau.testing.security import Security, jaas_entry

pytestmark = pytest.mark.xdist_group("secured-secrets")

TIMEOUT_S = 60
CREATE_DELEGATION_TOKEN = 38
STORE_PASSWORD = "store-3f81d2e6c0"
HTTP_TOKEN = "http-token-2f60b7d4"
TOKEN_SECRET = "token-secret-90be41aa"
TYPED_WRONGLY = "typed-wrongly-17c3e9"
SET_LATER = "set-later-b61f0d22"
SCRAM_PASSWORD = "scram-only-55d0a7f1"
NEW_USER_PASSWORD = "made-by-command-8c1e"


class Run(NamedTuple):
    """What one run left behind: texts by where they stood, and the secrets by what they are."""

    said: Mapping[str, bytes]
    secrets: Mapping[str, str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("secrets")
    security = Security(folder / "certificates")
    store = security.authority.pkcs12(security.pair("broker"), STORE_PASSWORD)
    settings = {
        "listener.name.ssl.ssl.keystore.type": "PKCS12",
        "listener.name.ssl.ssl.keystore.location": str(store),
        "listener.name.ssl.ssl.keystore.password": STORE_PASSWORD,
        "delegation.token.secret.key": TOKEN_SECRET,
        "moldau.http.token": HTTP_TOKEN,
        "connection.failed.authentication.delay.ms": "0",
    }
    broker = secured(Moldau(folder / "broker", settings), security)
    said: dict[str, bytes] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOLDAU_LOG_LEVEL", "DEBUG")
        broker.start()
        try:
            tokens = _use(broker, said, folder)
        finally:
            broker.stop()
        said["data"] = b"\n".join(path.read_bytes() for path in _data_files(broker))
        _start_with_broken_settings(broker, said)
    said["log"] = broker.output.read_bytes()
    secrets = {
        **security.secrets(),
        "password of the key store": STORE_PASSWORD,
        "secret of delegation tokens": TOKEN_SECRET,
        "token of the HTTP port": HTTP_TOKEN,
        "password that was typed wrongly": TYPED_WRONGLY,
        "password of a setting that was changed": SET_LATER,
        "SCRAM password": SCRAM_PASSWORD,
        "SCRAM password of a new user": NEW_USER_PASSWORD,
        **tokens,
    }
    return Run(said, secrets)


def _use(broker: SecuredProcess, said: dict[str, bytes], folder: Path) -> dict[str, str]:
    """Log in, be refused, administer, ask; what was seen is added to `said`. The secrets made meanwhile."""
    admin = AdminClient(broker.admin_settings())
    broker.security.users["gina"] = SCRAM_PASSWORD
    broker.security.add_scram_users(broker.admin_settings(), ["gina", "alice"])
    tokens: dict[str, str] = {}
    said["logins"] = b"\n".join(_logins(broker, tokens))
    resource = ConfigResource(ResourceType.BROKER, _broker_id(admin))
    name = "listener.name.sasl_ssl.plain.sasl.jaas.config"
    changed = ConfigEntry(
        name,
        jaas_entry("PLAIN", {"user_admin": SET_LATER}),
        incremental_operation=AlterConfigOpType.SET,
    )
    said["data before a setting was changed"] = b"\n".join(path.read_bytes() for path in _data_files(broker))
    change = ConfigResource(ResourceType.BROKER, resource.name, incremental_configs=[changed])
    admin.incremental_alter_configs([change])[change].result(TIMEOUT_S)
    entries = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    said["DescribeConfigs"] = repr({one.name: one.value for one in entries.values()}).encode()
    assert entries["sasl.jaas.config"].value is None
    producer = Producer({**broker.admin_settings(), "message.timeout.ms": 60_000})
    producer.produce("secrets", b"x")
    assert producer.flush(TIMEOUT_S) == 0
    http = re.search(r"http://127\.0\.0\.1:\d+", broker.said())
    assert http is not None
    for page in ("/", "/health", "/health?format=text", "/health/live", "/health/ready", "/metrics"):
        said[page] = _page(http[0] + page)
    said["command line"] = Path(f"/proc/{broker.pid}/cmdline").read_bytes()
    said["commands"] = _commands(broker, folder)
    return tokens


def _logins(broker: SecuredProcess, tokens: dict[str, str]) -> Iterator[bytes]:
    """Logins that succeed and that fail; what the broker said to each."""
    port = broker.ports["SASL_PLAINTEXT"]
    password = broker.security.users["alice"]
    for listener, mechanism in (("SASL_SSL", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-256")):
        login = broker.security.login(listener, "alice", mechanism)
        with SecuredRaw(broker.ports[listener], login) as one:
            yield repr(one.advertised()).encode()
    for token in (
        f"\0alice\0{TYPED_WRONGLY}",
        f"\0alice\0{password}\0more",
        f"{password}\0alice\0{password}",
        f"\0{password}\0alice",  # the name and the password in the wrong fields
        f"alice {password}",
    ):
        with SecuredRaw(port) as one:
            one.handshake("PLAIN")
            yield repr(one.authenticate(token.encode())).encode()
    with SecuredRaw(port) as one:
        one.handshake("SCRAM-SHA-256")
        exchange = ScramExchange("gina", SCRAM_PASSWORD)
        challenge = bytes(one.authenticate(exchange.first).auth_bytes)
        yield repr(one.authenticate(exchange.final(challenge, nonce="another"))).encode()
    login = broker.security.login("SASL_PLAINTEXT", "alice")
    with SecuredRaw(port, login) as one:
        made = one.call(CREATE_DELEGATION_TOKEN, 2, renewers=[], max_lifetime=-1)
        assert made.error_code == 0
        hmac = base64.b64encode(bytes(made.hmac)).decode()
        tokens["HMAC of a delegation token"] = hmac
    exchange = ScramExchange(made.token_id, hmac[:-1], extensions=",tokenauth=true")
    with SecuredRaw(port) as one:
        one.handshake("SCRAM-SHA-256")
        challenge = bytes(one.authenticate(exchange.first).auth_bytes)
        answer = one.authenticate(exchange.final(challenge))
        assert answer.error_code
        yield repr(answer).encode()
    for broken in (f"n,,n=gina,r={SCRAM_PASSWORD}\xff", f"p={SCRAM_PASSWORD}", f"n,,{SCRAM_PASSWORD}"):
        with SecuredRaw(port) as one:
            one.handshake("SCRAM-SHA-256")
            answer = one.authenticate(broken.encode("latin-1"))
            assert answer.error_code
            yield repr(answer.error_message).encode()
    with SecuredRaw(port) as one:  # the handshake's version 0, and then nonsense
        one.handshake("PLAIN", version=0)
        one.send(len(password).to_bytes(4, "big") + password.encode())
        with contextlib.suppress(Exception):
            yield one.receive()


def _commands(broker: SecuredProcess, folder: Path) -> bytes:
    """What Moldau's own commands print, with and without a password that holds."""
    output = b""
    right = broker.security.login("MUTUAL", "admin").java()
    wrong = broker.security.login("SASL_PLAINTEXT", "alice", password=TYPED_WRONGLY).java()
    for name, listener, login in (("right", "MUTUAL", right), ("wrong", "SASL_PLAINTEXT", wrong)):
        config = write_settings(folder / f"{name}.properties", login)
        where = ["-b", broker.at(listener), "--command-config", str(config)]
        for words in (
            ["topics", "list"],
            ["configs", "describe", "--broker", "1"],
            ["users", "list"],
            ["users", "add", "henry", "--password", NEW_USER_PASSWORD],
            ["acls", "list"],
            ["quotas", "list"],
            ["tokens", "list"],
            ["doctor"],
        ):
            done = subprocess.run(
                [broker.command()[0], "-m", "moldau", *words, *where],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=2 * TIMEOUT_S,
                check=False,
                env={**os.environ, "MOLDAU_CONTACT_SECONDS": "10"},
            )
            output += b" ".join(word.encode() for word in words[:2]) + done.stdout + done.stderr
    return output


def _start_with_broken_settings(broker: SecuredProcess, said: dict[str, bytes]) -> None:
    """Each start must fail, and say what is wrong without the value."""
    password = broker.security.users["alice"]
    listener = "listener.name.sasl_ssl.plain.sasl.jaas.config"
    for number, broken in enumerate(
        (
            {listener: jaas_entry("PLAIN", {"user_alice": password}).removesuffix('";')},
            {listener: f"{password} required;"},
            {"listener.name.ssl.ssl.keystore.password": TYPED_WRONGLY},
            {"listener.name.ssl.ssl.keystore.location": "/nowhere/store.p12"},
        )
    ):
        again = secured(Moldau(broker.data_dir.parent / f"broken-{number}", broker.settings), broker.security)
        again.settings = {**broker.settings, **broken}
        with pytest.raises(RuntimeError) as failed:
            again.start()
        text = str(failed.value)
        assert "Traceback" not in text
        assert next(iter(broken)) in text or "keystore" in text, text
        said[f"failed start {number}"] = text.encode()


def _broker_id(admin: AdminClient) -> str:
    return str(next(iter(admin.list_topics(timeout=TIMEOUT_S).brokers)))


def _data_files(broker: SecuredProcess) -> list[Path]:
    return [path for path in broker.log_dir().rglob("*") if path.is_file()]


def _page(url: str) -> bytes:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url.replace("/live", ""), timeout=TIMEOUT_S)
    assert refused.value.code == 401
    asking = urllib.request.Request(url, headers={"Authorization": f"Bearer {HTTP_TOKEN}"})
    with urllib.request.urlopen(asking, timeout=TIMEOUT_S) as answer:
        found: bytes = answer.read()
    return found


def _disguises(secret: str) -> set[bytes]:
    plain = secret.encode()
    shifted = {base64.b64encode(bytes(count) + plain)[4 : -4 or None] for count in range(3)}
    return {plain, plain.hex().encode(), plain[::-1], *(one for one in shifted if len(one) > 7)}


def test_no_secret_is_left_anywhere(run: Run) -> None:
    later = run.secrets["password of a setting that was changed"]
    found = [
        f"{what} in {where}"
        for where, text in run.said.items()
        for what, secret in run.secrets.items()
        for disguise in _disguises(secret)
        if disguise in text and not (where == "data" and secret == later)  # dynamic settings are as in Kafka
    ]
    assert not found


def test_the_search_finds_what_is_there(run: Run) -> None:
    """It would be of no use if nothing had been said, or if a secret in it were overlooked."""
    assert b"moldau" in run.said["log"]
    assert b"alice" in run.said["log"]  # names may stand there
    assert len(run.said["/metrics"]) > 1000
    assert b"sasl.jaas.config" in run.said["DescribeConfigs"]
    assert all(run.said.values())
    assert len(run.secrets) >= 16
    for secret in run.secrets.values():
        for carrier in (secret.encode(), base64.b64encode(f"\0alice\0{secret}".encode())):
            assert any(disguise in carrier for disguise in _disguises(secret))
