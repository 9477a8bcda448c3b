"""Mutated handshakes: whatever a client sends, in whatever pieces and order, only its password logs it in,
nothing of it reaches a handler before, and no bug shows.

Real messages of a login are taken, and bytes of them changed, cut out, doubled or exchanged; the result goes
through a connection. `Script` stands for the handlers; the connection logs "this is a bug" for an exception.
"""

import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from login_world import (
    ScramClient,
    ScramWorld,
    api_versions,
    authenticate,
    handshake,
    plain,
)

from moldau.broker.handlers import load_all
from moldau.broker.security.login.plain import PlainUsers
from moldau.broker.security.login.steps import Offer
from moldau.broker.server.connection import Connection
from moldau.broker.server.login_gate import LoginGate
from moldau.common.credentials.scram import SHA_256
from moldau.common.protocol.frames import frame_request

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))
from server_world import FakeListener, FakeTransport, Script, feed, framed

REQUEST = b"e-request"
SCRAM = ScramWorld(SHA_256, alice="alice-secret")
PLAIN = PlainUsers({"alice": "alice-secret"}, random.Random(1))
GOOD_PLAIN = plain("alice", "alice-secret")


class Logins:
    def offered(self, listener: str) -> dict[str, Offer]:
        return {"PLAIN": Offer(PLAIN.begin, 1000), "SCRAM-SHA-256": Offer(SCRAM.begin)}

    def receive_bytes_max(self, listener: str) -> int:
        return 512 * 1024

    def delay_ms(self) -> int:
        return 100


class Client:
    def __init__(self) -> None:
        load_all()
        self.listener, self.served, self.transport = FakeListener(), Script(), FakeTransport()
        broker: Any = SimpleNamespace(clock=self.listener.clock)
        self.connection = Connection(self.listener, self.served)  # type: ignore[arg-type]
        self.transport.connection = self.connection
        self.connection.transport = self.transport  # type: ignore[assignment]
        self.connection.dispatcher = LoginGate(
            self.connection,
            broker,
            Logins(),  # type: ignore[arg-type]
            self.served,
        )

    def send(self, data: bytes) -> None:
        if not (self.transport.closed or self.connection.paused):
            feed(self.connection, data)


def _scram_messages() -> list[bytes]:
    """Messages of a whole SCRAM login that did succeed; in another login its nonce is wrong."""
    client, login = ScramClient(SHA_256, "alice", "alice-secret"), SCRAM.begin()
    challenge: Any = login.step(client.first())
    return [client.first(), client.final(challenge.token)]


MESSAGES = [
    api_versions(0),
    api_versions(2),
    handshake("PLAIN", 0),
    handshake("PLAIN", 1),
    handshake("SCRAM-SHA-256", 0),
    handshake("SCRAM-SHA-256", 1),
    authenticate(plain("alice", "wrong"), 0),
    authenticate(plain("alice", "wrong"), 2),
    plain("alice", "wrong"),
    *_scram_messages(),
    *[authenticate(each, version) for each in _scram_messages() for version in (0, 1, 2)],
    frame_request(3, 1, 5, "c", b"\0\0\0\0")[4:],
    frame_request(0, 3, 5, "c", b"")[4:],
    b"",
    REQUEST,
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A message, perhaps with something wrong in it."""
    message = draw(st.sampled_from(MESSAGES))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(message)))
        more = draw(st.binary(max_size=4))
        message = message[:at] + more + message[at + draw(st.integers(0, 6)) :]
    return message


@given(st.lists(mutated(), max_size=6), st.integers(1, 40))
def test_no_password_no_login(messages: list[bytes], piece_bytes: int) -> None:
    client = Client()
    data = framed(*messages)
    for start in range(0, len(data), piece_bytes):
        client.send(data[start : start + piece_bytes])
    assert client.connection.session.principal == "User:ANONYMOUS"
    assert client.served.seen == []
    client.listener.timers.advance(1000)
    assert client.served.seen == []


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes(data: bytes, after_handshake: bool) -> None:
    client = Client()
    if after_handshake:
        client.send(framed(handshake("SCRAM-SHA-256", 0)))
    client.send(data)
    client.listener.timers.advance(1000)
    assert client.connection.session.principal == "User:ANONYMOUS"
    assert client.served.seen == []


@given(st.lists(mutated(), max_size=4), st.integers(1, 40))
def test_whatever_comes_after_a_login_the_principal_stays(messages: list[bytes], piece_bytes: int) -> None:
    """Re-authentication included: it ends as the same user, or closes the connection."""
    client = Client()
    client.send(framed(handshake("PLAIN"), authenticate(GOOD_PLAIN)))
    assert client.connection.session.principal == "User:alice"
    client.listener.timers.advance(500)
    data = framed(*messages)
    for start in range(0, len(data), piece_bytes):
        client.send(data[start : start + piece_bytes])
    assert client.connection.session.principal == "User:alice"


@pytest.fixture(autouse=True)
def _no_bug(caplog: pytest.LogCaptureFixture) -> Any:
    yield
    assert "this is a bug" not in caplog.text


def test_the_messages_do_log_in_when_they_are_right() -> None:
    """What the others change is a login, not something that never could be one."""
    client, scram = Client(), ScramClient(SHA_256, "alice", "alice-secret")
    client.send(framed(api_versions(0), handshake("SCRAM-SHA-256", 0)))
    before = len(client.transport.sent)
    client.send(framed(scram.first()))
    challenge = bytes(client.transport.sent[before + 4 :])
    client.send(framed(scram.final(challenge), REQUEST))
    assert client.connection.session.principal == "User:alice"
    assert client.served.seen == [REQUEST]
    assert bytes(client.transport.sent).endswith(framed(scram.expected()) + REQUEST)


# Refused logins take the same work whoever is named


def test_a_wrong_password_and_an_unknown_name_take_the_same_computation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted, not timed: every digest that a login computes, and over how many bytes."""
    import hmac

    computed: list[tuple[int, str]] = []
    digest = hmac.digest

    def counted(key: bytes, message: bytes, name: Any) -> bytes:
        computed.append((len(message), str(name)))
        return digest(key, message, name)

    monkeypatch.setattr(hmac, "digest", counted)
    seen = {}
    for name in ("alice", "nobdy"):  # names of one length, as it is in what is digested
        client, login = ScramClient(SHA_256, name, "wrong"), SCRAM.begin()
        computed.clear()
        challenge: Any = login.step(client.first())
        on_first = list(computed)
        final = client.final(challenge.token)
        computed.clear()
        login.step(final)
        seen[name] = (on_first, list(computed))
        computed.clear()
        PLAIN.begin().step(plain(name, "wrong"))
        seen[name] += (list(computed),)
    assert seen["alice"] == seen["nobdy"]
    assert all(seen["alice"])
