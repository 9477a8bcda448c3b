"""A login on a connection: what is handled when, failed logins answered late, logins that end.

Requests of clients that are logged in go to the scripted dispatcher, which echoes them.
"""

import asyncio
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from login_world import api_versions, authenticate, authenticate_answer, handshake, plain

from moldau.broker.handlers import load_all
from moldau.broker.security.login.plain import PlainUsers
from moldau.broker.security.login.steps import Accepted, Challenge, Denied, Offer, Step
from moldau.broker.server.connection import Connection
from moldau.broker.server.login_gate import LoginGate
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import frame_request

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))
from server_world import FakeListener, FakeTransport, Script, feed, framed

GOOD = plain("alice", "alice-secret")
BAD = plain("alice", "wrong")
LOGIN = (handshake("PLAIN"), authenticate(GOOD))


class FakeLogins:
    def __init__(self, reauthentication_ms: int) -> None:
        users = PlainUsers({"alice": "alice-secret", "bob": "bob-secret"}, random.Random(1))
        self.mechanisms = {"PLAIN": Offer(users.begin, reauthentication_ms)}

    def offered(self, listener: str) -> dict[str, Offer]:
        return self.mechanisms

    def receive_bytes_max(self, listener: str) -> int:
        return 512 * 1024

    def delay_ms(self) -> int:
        return 100


class Client:
    """A connection behind its gate."""

    def __init__(self, reauthentication_ms: int = 0) -> None:
        load_all()
        self.listener, self.served, self.transport = FakeListener(), Script(), FakeTransport()
        self.logins = FakeLogins(reauthentication_ms)
        broker: Any = SimpleNamespace(clock=self.listener.clock)
        self.connection = Connection(self.listener, self.served)  # type: ignore[arg-type]
        self.transport.connection = self.connection
        self.connection.transport = self.transport  # type: ignore[assignment]
        self.gate = LoginGate(self.connection, broker, self.logins, self.served)  # type: ignore[arg-type]
        self.connection.dispatcher = self.gate

    def send(self, *contents: bytes) -> bytes:
        """What is answered at once."""
        before = len(self.transport.sent)
        feed(self.connection, framed(*contents))
        return bytes(self.transport.sent[before:])

    def advance(self, duration_ms: int) -> bytes:
        before = len(self.transport.sent)
        self.listener.timers.advance(duration_ms)
        return bytes(self.transport.sent[before:])

    @property
    def principal(self) -> str:
        return self.connection.session.principal


def counts(client: Client) -> dict[str, int]:
    """The counts that are not 0."""
    of = client.listener.logins
    return {name: value for name in of.__slots__ if (value := getattr(of, name))}


def test_after_a_login_requests_are_handled_and_the_gate_is_gone() -> None:
    client = Client()
    client.send(api_versions(), *LOGIN)
    assert client.principal == "User:alice"
    assert client.send(b"echo") == b"echo"
    assert client.connection.dispatcher is client.served
    assert client.connection.session.expires_ms is None


def test_requests_behind_a_login_in_one_piece_are_handled_after_it() -> None:
    client = Client()
    assert client.send(*LOGIN, b"e1", b"e2").endswith(b"e1e2")
    assert client.served.seen == [b"e1", b"e2"]


def test_requests_behind_a_login_that_fails_are_not_handled() -> None:
    client = Client()
    client.send(handshake("PLAIN"), authenticate(BAD), b"e1", b"e2", authenticate(GOOD))
    client.advance(1000)
    assert client.served.seen == []
    assert client.transport.closed
    assert client.principal == "User:ANONYMOUS"


@pytest.mark.parametrize("request_frame", [b"e", frame_request(3, 1, 5, "c", b"\0\0\0\0")[4:], b"\x60\x82"])
def test_a_request_before_the_login_ends_the_connection_without_an_answer(request_frame: bytes) -> None:
    client = Client()
    assert client.send(request_frame, b"e") == b""
    assert client.transport.closed
    assert client.served.seen == []
    assert len(client.listener.failures) == 1


def test_a_failed_login_is_answered_after_the_delay_then_closed() -> None:
    client = Client()
    client.send(handshake("PLAIN"))
    assert client.send(authenticate(BAD)) == b""
    assert client.advance(99) == b""
    assert not client.transport.closed
    answer = client.advance(1)
    assert authenticate_answer(answer).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.transport.closed
    assert client.listener.failed_logins == ["the name or the password is wrong"]
    assert counts(client) == {"failed": 1}


def test_a_client_that_goes_during_the_delay_leaves_nothing_behind() -> None:
    client = Client()
    client.send(handshake("PLAIN"), authenticate(BAD))
    (timer,) = [each for _, _, each in client.listener.timers._due]
    assert timer.callback is not None
    client.connection.connection_lost(None)
    assert timer.callback is None  # it holds the connection no longer
    assert client.advance(1000) == b""


def test_a_broker_that_stops_during_the_delay_does_not_wait_for_it() -> None:
    client = Client()
    client.send(handshake("PLAIN"), authenticate(BAD))
    client.connection.close()  # as Listener.close does
    assert client.transport.closed
    client.connection.connection_lost(None)
    assert client.advance(1000) == b""


def test_no_more_is_read_during_the_delay_than_has_come() -> None:
    client = Client()
    client.send(handshake("PLAIN"), authenticate(BAD))
    client.send(b"x" * 1000)
    assert not client.transport.reading


def test_before_the_login_a_frame_has_512_kib_at_most() -> None:
    client = Client()
    feed(client.connection, (512 * 1024 + 1).to_bytes(4, "big"))
    assert client.transport.closed
    assert client.connection.received_bytes < 5000
    assert "sasl.server.max.receive.size" in client.listener.failures[0]
    client = Client()
    client.send(*LOGIN)
    assert client.send(b"e" + bytes(600_000)) == b"e" + bytes(600_000)


def test_bare_tokens_may_be_empty() -> None:
    client = Client()

    class Twice:
        def __init__(self) -> None:
            self.tokens: list[bytes] = []

        def step(self, token: bytes) -> Step:
            self.tokens.append(token)
            if len(self.tokens) < 3:
                return Challenge(b"" if token else b"more")
            return Accepted("User:x", None)

    client.logins.mechanisms = {"TWICE": Offer(Twice)}
    client.gate._begin(None)
    client.send(handshake("TWICE", 0))
    for byte in framed(b""):  # cut into single bytes
        feed(client.connection, bytes([byte]))
    assert client.transport.sent.endswith(framed(b"more"))
    assert client.send(b"token") == framed(b"")
    assert client.send(b"last", b"e1") == b"e1"
    assert client.principal == "User:x"
    client.send(b"")
    assert client.served.foreign_bytes == bytes(4)  # an empty frame is none of a client that is logged in


def test_while_a_mechanism_waits_nothing_else_is_handled() -> None:
    asyncio.run(_nothing_else_is_handled())


async def _nothing_else_is_handled() -> None:
    client = Client()
    gate: asyncio.Future[Step] = asyncio.get_running_loop().create_future()

    class Waits:
        async def step(self, token: bytes) -> Step:
            return await gate

    client.logins.mechanisms = {"WAITS": Offer(Waits)}
    client.gate._begin(None)
    client.send(handshake("WAITS"), authenticate(b""), b"e1")
    await asyncio.sleep(0)
    assert client.served.seen == []
    gate.set_result(Accepted("User:waited"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert client.served.seen == [b"e1"]
    assert client.principal == "User:waited"


def test_a_mechanism_that_waits_refuses_late_too_and_is_called_off_with_the_connection() -> None:
    asyncio.run(_refused_late())
    asyncio.run(_called_off())


async def _refused_late() -> None:
    client = Client()
    refusal: asyncio.Future[Step] = asyncio.get_running_loop().create_future()

    class Waits:
        async def step(self, token: bytes) -> Step:
            return await refusal

    client.logins.mechanisms = {"WAITS": Offer(Waits)}
    client.gate._begin(None)
    client.send(handshake("WAITS"))
    assert client.send(authenticate(b"")) == b""
    refusal.set_result(Denied("no"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not client.transport.closed
    assert authenticate_answer(client.advance(100)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.transport.closed


async def _called_off() -> None:
    client = Client()
    never: asyncio.Future[Step] = asyncio.get_running_loop().create_future()

    class Never:
        async def step(self, token: bytes) -> Step:
            return await never

    client.logins.mechanisms = {"NEVER": Offer(Never)}
    client.gate._begin(None)
    client.send(handshake("NEVER"), authenticate(b""))
    await asyncio.sleep(0)
    client.connection.connection_lost(None)
    for _ in range(3):
        await asyncio.sleep(0)
    assert never.cancelled()


# Logins that end


def test_a_request_after_the_end_of_the_login_closes_the_connection() -> None:
    client = Client(reauthentication_ms=5000)
    client.send(handshake("PLAIN"))
    assert authenticate_answer(client.send(authenticate(GOOD))).session_lifetime_ms == 5000
    now_ms = client.listener.clock.now_ms()
    assert client.connection.session.expires_ms == now_ms + 5000
    client.advance(5000)
    assert client.send(b"e1") == b"e1"  # at the end, not after it
    client.advance(1)
    assert client.send(b"e2") == b""
    assert client.transport.closed
    assert counts(client) == {"succeeded": 1, "expired": 1}
    assert client.served.seen == [b"e1"]


def test_re_authentication_goes_on_with_the_connection() -> None:
    client = Client(reauthentication_ms=5000)
    client.send(*LOGIN, b"e1")
    for _ in range(4):
        client.advance(4000)
        client.send(*LOGIN, b"e2")
        assert client.principal == "User:alice"
    assert client.served.seen == [b"e1", *[b"e2"] * 4]
    assert counts(client) == {"succeeded": 1, "succeeded_again": 4}


def test_an_answer_that_waits_from_before_leaves_before_that_of_the_re_authentication() -> None:
    client = Client(reauthentication_ms=5000)
    client.send(*LOGIN, b"p1")
    client.advance(2000)
    assert client.send(*LOGIN) == b""
    (_, slot) = client.served.slots[0]
    before = len(client.transport.sent)
    slot.fill(b"answer to p1")
    assert client.transport.sent[before:].startswith(b"answer to p1\0")
    assert client.connection.session.version == 2


@pytest.mark.parametrize(
    "frames",
    [
        (handshake("PLAIN"), authenticate(plain("bob", "bob-secret"))),
        (handshake("PLAIN"), authenticate(BAD)),
        (handshake("SCRAM-SHA-256"),),
        (handshake("PLAIN"), b"e"),
    ],
    ids=["somebody else", "wrong password", "other mechanism", "a request between"],
)
def test_a_failed_re_authentication_closes_the_connection(frames: tuple[bytes, ...]) -> None:
    client = Client(reauthentication_ms=5000)
    client.send(*LOGIN, b"e1")
    client.advance(2000)
    client.send(*frames, b"e2")
    client.advance(1000)
    assert client.transport.closed
    assert client.served.seen == [b"e1"]
    assert client.principal == "User:alice"
    assert counts(client) == {"succeeded": 1, "failed_again": 1}


def test_a_client_re_authenticates_once_a_second_at_most() -> None:
    client = Client(reauthentication_ms=5000)
    client.served.request = lambda *arguments: b"handled"  # type: ignore[method-assign]
    client.send(*LOGIN)
    client.send(*LOGIN)
    client.advance(999)
    assert client.send(handshake("PLAIN")) == b"handled"  # as any request: with ILLEGAL_SASL_STATE
    client.advance(1)
    client.send(*LOGIN)
    assert counts(client) == {"succeeded": 1, "succeeded_again": 2}


def test_a_login_that_does_not_end_is_not_renewed() -> None:
    client = Client()
    client.served.request = lambda *arguments: b"handled"  # type: ignore[method-assign]
    client.send(*LOGIN)
    assert client.send(handshake("PLAIN")) == b"handled"


def test_a_login_that_no_longer_has_to_end_loses_its_gate() -> None:
    client = Client(reauthentication_ms=5000)
    client.send(*LOGIN)
    client.logins.mechanisms = {"PLAIN": Offer(client.logins.mechanisms["PLAIN"].begin, 0)}
    client.advance(2000)
    client.send(*LOGIN)
    assert client.connection.dispatcher is client.served
