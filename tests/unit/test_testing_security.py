"""`moldau.testing.Security`: certificates that TLS accepts, and settings under Kafka's names.

That brokers take the settings is shown with real clients (tests/clients/test_secured_*.py).
"""

from __future__ import annotations

import datetime
import ssl
import stat
from pathlib import Path

import pytest

from moldau.common.settings.sources import from_texts
from moldau.testing import Security
from moldau.testing.authority import Authority, KeyPair
from moldau.testing.security import PROTOCOLS, jaas_entry


@pytest.fixture(scope="module")
def security(tmp_path_factory: pytest.TempPathFactory) -> Security:
    return Security(tmp_path_factory.mktemp("certificates"))


def shake_hands(authority: Path, server: KeyPair, client: KeyPair | None, name: str = "localhost") -> str:
    """A TLS handshake in memory; the common name of the client as the server sees it."""
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority))
    serving.verify_mode = ssl.CERT_REQUIRED if client else ssl.CERT_NONE
    serving.load_cert_chain(server.store)
    asking = ssl.create_default_context(cafile=str(authority))
    if client:
        asking.load_cert_chain(client.certificate, client.key)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        serving.wrap_bio(there, back, server_side=True),
        asking.wrap_bio(back, there, server_hostname=name),
    ]
    waiting = list(ends)
    for end in ends * 4:
        try:
            if end in waiting:
                end.do_handshake()
                waiting.remove(end)
        except ssl.SSLWantReadError:
            pass
    assert not waiting
    shown = ends[0].getpeercert()
    return dict(pair for part in shown["subject"] for pair in part)["commonName"] if shown else ""


def test_both_ends_accept_the_certificates(security: Security) -> None:
    authority, server = security.authority.certificate, security.pair("broker")
    assert shake_hands(authority, server, None) == ""
    assert shake_hands(authority, server, security.pair("alice"), "127.0.0.1") == "alice"


def test_refused_are_other_hosts_other_authorities_and_expired_certificates(
    security: Security, tmp_path: Path
) -> None:
    authority, server = security.authority.certificate, security.pair("broker")
    other = Authority(tmp_path)
    expired = security.authority.issue("old", lifetime=-datetime.timedelta(minutes=1))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(authority, server, None, "kafka.example")
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        shake_hands(authority, server, other.issue("alice"))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake_hands(authority, expired, None)


def test_a_pkcs12_store_opens_with_its_password(security: Security) -> None:
    from cryptography.hazmat.primitives.serialization import pkcs12

    store = security.authority.pkcs12(security.pair("bob"), "changeit").read_bytes()
    _, certificate, more = pkcs12.load_key_and_certificates(store, b"changeit")
    assert certificate is not None
    assert "CN=bob" in certificate.subject.rfc4514_string()
    assert len(more) == 1


def test_keys_are_for_their_owner_alone(security: Security) -> None:
    for path in (security.pair("alice").key, security.pair("alice").store):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_passwords_are_never_the_same_twice(security: Security, tmp_path: Path) -> None:
    assert len({*security.users.values(), *Security(tmp_path).users.values()}) == 8


def test_every_setting_is_known(security: Security) -> None:
    ports = {name: 9092 + number for number, name in enumerate(PROTOCOLS)}
    settings = security.settings(ports)
    assert settings["super.users"] == "User:admin;User:broker"
    assert (
        f'user_alice="{security.users["alice"]}"' in settings["listener.name.sasl_ssl.plain.sasl.jaas.config"]
    )
    static = from_texts({name: value for name, value in settings.items() if not name.startswith("listener.")})
    assert not [sentence for sentence in static.warnings if "unknown" in sentence]


def test_jaas_notation() -> None:
    said = jaas_entry("SCRAM-SHA-256", {"username": "alice", "password": "p"})
    assert said == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="p";'
    )
