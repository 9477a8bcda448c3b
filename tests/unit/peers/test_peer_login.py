"""Connections to other brokers that want a login: it comes first, is repeated, and its failures are told."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from peer_world import Here, Wire, turns

from moldau.broker.peers.peers import PeerError
from moldau.broker.peers.security import PeerSecurity, check
from moldau.common.credentials.client.options import ClientSecurity, SaslOptions
from moldau.common.protocol.frames import parse_request_header
from moldau.common.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.common.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from moldau.common.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import from_texts

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="hush";'


class Credentials:
    """What the broker logs in with, which a test may change."""

    def __init__(self) -> None:
        self.password = "hush"

    def secure(self, listener: str) -> Callable[[], ClientSecurity]:
        return lambda: ClientSecurity(
            "SASL_PLAINTEXT",
            sasl=SaslOptions("PLAIN", "", {"username": "broker", "password": self.password}),
        )


def on_a_loop(test: Callable[[Here, Credentials], Awaitable[None]]) -> None:
    async def run() -> None:
        credentials = Credentials()
        here = Here(credentials.secure)
        await test(here, credentials)
        here.peers.close()
        await turns()

    asyncio.run(run())


def _kind(request: bytes) -> int:
    return parse_request_header(request).api_key


async def _log_in(wire: Wire, password: str = "hush", **answer: object) -> None:
    await turns()
    assert [_kind(each) for each in wire.sent] == [SaslHandshakeRequest.KEY]
    wire.respond(wire.sent.pop(), SaslHandshakeResponse(mechanisms=["PLAIN"]))
    await turns()
    assert [_kind(each) for each in wire.sent] == [SaslAuthenticateRequest.KEY]
    assert wire.sent[0].endswith(f"\0broker\0{password}".encode() + b"\0")
    wire.respond(wire.sent.pop(), SaslAuthenticateResponse(**answer))  # type: ignore[arg-type]
    await turns()


def test_the_login_comes_before_the_first_request():
    async def run(here: Here, credentials: Credentials) -> None:
        asked = here.ask()
        wire = await here.network.accept()
        wire.greet()
        await _log_in(wire)
        assert [_kind(each) for each in wire.sent] == [EndTxnRequest.KEY]
        wire.respond(wire.sent.pop(), EndTxnResponse(error_code=7))
        assert (await asked).error_code == 7

    on_a_loop(run)


def test_a_refused_login_is_told_once_and_tried_again_with_the_password_of_then(caplog):
    async def run(here: Here, credentials: Credentials) -> None:
        for _ in range(3):
            asked = here.ask()
            wire = await here.network.accept()
            wire.greet()
            await _log_in(wire, error_code=58, error_message="Authentication failed")
            with pytest.raises(PeerError, match="refused the user broker: Authentication failed"):
                await asked
            assert wire.ended
            await here.pass_ms(1500)
        credentials.password = "renewed"
        asked = here.ask()
        wire = await here.network.accept()
        wire.greet()
        await _log_in(wire, "renewed")
        wire.respond(wire.sent.pop(), EndTxnResponse())
        await asked

    with caplog.at_level(logging.WARNING, "moldau.peers"):
        on_a_loop(run)
    assert len(caplog.records) == 1
    assert "hush" not in caplog.text


def test_a_mechanism_that_is_not_offered_is_named():
    async def run(here: Here, credentials: Credentials) -> None:
        asked = here.ask()
        wire = await here.network.accept()
        wire.greet()
        await turns()
        offered = SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-512"])
        wire.respond(wire.sent.pop(), offered)
        await turns()
        with pytest.raises(PeerError, match="does not offer SASL/PLAIN, but SCRAM-SHA-512"):
            await asked

    on_a_loop(run)


def test_a_listener_without_sasl_is_named():
    async def run(here: Here, credentials: Credentials) -> None:
        asked = here.ask()
        wire = await here.network.accept()
        wire.greet(SaslHandshake=(0, -1))
        await turns()
        with pytest.raises(PeerError, match="a listener without SASL"):
            await asked

    on_a_loop(run)


def test_a_login_that_is_not_answered_ends_the_connection():
    async def run(here: Here, credentials: Credentials) -> None:
        asked = here.ask(timeout_ms=60_000)
        wire = await here.network.accept()
        wire.greet()
        await turns()
        await here.pass_ms(10_001)
        with pytest.raises(PeerError, match="within 10000 ms"):
            await asked
        assert wire.ended

    on_a_loop(run)


def test_a_session_is_renewed_in_time_and_nothing_else_is_sent_meanwhile():
    async def run(here: Here, credentials: Credentials) -> None:
        asked = here.ask()
        wire = await here.network.accept()
        wire.greet()
        await _log_in(wire, session_lifetime_ms=100_000)
        wire.respond(wire.sent.pop(), EndTxnResponse())
        await asked
        before = here.ask(timeout_ms=300_000)
        in_flight = wire.sent.pop()
        await here.pass_ms(84_000)
        assert not wire.sent
        await here.pass_ms(11_500)
        during = here.ask(timeout_ms=300_000)
        await turns()
        assert [_kind(each) for each in wire.sent] == [SaslHandshakeRequest.KEY]
        wire.respond(in_flight, EndTxnResponse(error_code=1))  # it is answered as usual
        assert (await before).error_code == 1
        await _log_in(wire, session_lifetime_ms=100_000)
        assert [_kind(each) for each in wire.sent] == [EndTxnRequest.KEY]
        wire.respond(wire.sent.pop(), EndTxnResponse(error_code=2))
        assert (await during).error_code == 2
        await here.pass_ms(95_500)
        await _log_in(wire)
        await here.pass_ms(1_000_000)
        assert not wire.sent
        assert not wire.ended

    on_a_loop(run)


def test_a_renewal_that_is_refused_ends_the_connection():
    async def run(here: Here, credentials: Credentials) -> None:
        asked = here.ask()
        wire = await here.network.accept()
        wire.greet()
        await _log_in(wire, session_lifetime_ms=1_000)
        wire.respond(wire.sent.pop(), EndTxnResponse())
        await asked
        await here.pass_ms(960)
        held = here.ask(timeout_ms=60_000)
        await _log_in(wire, error_code=58)
        assert wire.ended
        with pytest.raises(PeerError, match="the login failed"):
            await held

    on_a_loop(run)


SASL = {
    "listeners": "CLIENTS://127.0.0.1:9092,INTERNAL://127.0.0.1:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
}


def test_settings_of_the_listener_and_of_its_mechanism():
    name = "listener.name.internal.plain.sasl.jaas.config"
    settings = from_texts({**SASL, name: JAAS, "sasl.jaas.config": "never read"}).broker
    check(settings)
    security = PeerSecurity(lambda: settings)
    assert security.secure("CLIENTS") is None
    how = security.secure("INTERNAL")
    assert how is not None
    sasl = how().sasl
    assert sasl is not None
    assert sasl.user_and_password() == ("b", "hush")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "no username"),
        ({"sasl.jaas.config": JAAS.replace(";", "")}, "';' is missing"),
        ({"sasl.jaas.config": JAAS, "sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "does not offer"),
        ({"sasl.jaas.config": JAAS, "sasl.mechanism.inter.broker.protocol": "X"}, "does not offer"),
    ],
)
def test_settings_that_cannot_work_are_told_before_the_start(more, says):
    with pytest.raises(SettingError, match=says) as caught:
        check(from_texts({**SASL, **more}).broker)
    assert "hush" not in str(caught.value)


def test_a_password_that_is_changed_while_the_broker_runs_counts_from_then_on():
    name = "listener.name.internal.plain.sasl.jaas.config"
    settings = [from_texts({**SASL, name: JAAS}).broker]
    how = PeerSecurity(lambda: settings[0]).secure("INTERNAL")
    assert how is not None
    before = how()
    assert how() is before
    settings[0] = from_texts({**SASL, name: JAAS.replace("hush", "renewed")}).broker
    sasl = how().sasl
    assert sasl is not None
    assert sasl.user_and_password() == ("b", "renewed")
