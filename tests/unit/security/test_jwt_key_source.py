"""An issuer's keys stay fresh, and nobody can have them fetched as often as they like."""

import asyncio
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_issuer import NOW_MS, Issuer, claims

from moldau.broker.security.login.oauthbearer import OAuthBearer, signed_tokens
from moldau.broker.security.login.steps import Accepted, Challenge, Denied
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.credentials.jwt.checks import Rules
from moldau.common.credentials.jwt.key_source import FILE_REFRESH_MS_MAX, UNKNOWN_KEY_PAUSE_MS, KeySource
from moldau.common.credentials.oauthbearer import (
    ClientMessage,
    OAuthSyntaxError,
    client_message,
    parse_client_message,
)

REFRESH_MS = 3_600_000
OLD, NEW = Issuer("old"), Issuer("new")


class World:
    """An issuer's URL, and a broker that loads its keys, with a clock that the test moves."""

    def __init__(self, url="https://issuer/keys"):
        self.clock = ManualClock(NOW_MS)
        self.timers = ManualTimers(self.clock)
        self.document = OLD.document()
        self.loads = 0
        self.held = None
        self.source = KeySource(
            url,
            self.load,
            self.run,
            self.clock,
            self.timers,
            refresh_ms=REFRESH_MS,
            retry_backoff_ms=100,
            retry_backoff_max_ms=10_000,
        )
        rules = Rules(("kafka",), "https://issuer")
        self.check = signed_tokens(self.source, rules, self.clock, self.run)

    def load(self):
        self.loads += 1
        if isinstance(self.document, Exception):
            raise self.document
        return self.document

    async def run(self, blocking):
        if self.held is not None and blocking == self.source._read:
            await self.held.wait()
        return blocking()

    async def pass_ms(self, duration_ms):
        self.timers.advance(duration_ms)
        await settle()

    async def log_in(self, token, user=""):
        """What a login with this token comes to."""
        mechanism = OAuthBearer(self.check)
        step = await answered(mechanism.step(client_message(ClientMessage(token, user))))
        if isinstance(step, Challenge):
            assert json.loads(step.token) == {"status": "invalid_token"}
            step = await answered(mechanism.step(b"\x01"))
        return step


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def answered(step):
    return await step if asyncio.iscoroutine(step) or isinstance(step, asyncio.Future) else step


def token(issuer, **changed):
    return issuer.signed(claims(**{"iat": NOW_MS // 1000, "exp": NOW_MS // 1000 + 10**6, **changed}))


def scenario(coroutine):
    asyncio.run(coroutine)


def test_a_login_gives_the_name_and_the_tokens_end():
    async def run():
        world = World()
        world.source.start()
        await settle()
        step = await world.log_in(token(OLD))
        assert step == Accepted("User:alice", b"", NOW_MS + 10**9)
        assert (await world.log_in(token(OLD), user="alice")) == step
        assert isinstance(await world.log_in(token(OLD), user="bob"), Denied)

    scenario(run())


def test_a_new_key_is_found_once_for_all_who_wait():
    async def run():
        world = World()
        world.source.start()
        await settle()
        world.document = NEW.document()
        world.held = asyncio.Event()
        logins = [asyncio.ensure_future(world.log_in(token(NEW))) for _ in range(50)]
        await settle()
        world.held.set()
        assert {type(each) for each in await asyncio.gather(*logins)} == {Accepted}
        assert world.loads == 2

    scenario(run())


def test_strangers_cannot_have_the_issuer_asked_again_and_again():
    async def run():
        world = World()
        world.source.start()
        await settle()
        for number in range(100):
            assert isinstance(await world.log_in(token(Issuer(f"x{number}"))), Denied)
        assert world.loads == 2
        await world.pass_ms(UNKNOWN_KEY_PAUSE_MS)
        world.document = NEW.document()
        assert isinstance(await world.log_in(token(NEW)), Accepted)
        assert world.loads == 3

    scenario(run())


def test_a_forged_signature_asks_nobody():
    async def run():
        world = World()
        world.source.start()
        await settle()
        assert isinstance(await world.log_in(token(Issuer("old"))), Denied)
        assert isinstance(await world.log_in(token(OLD, exp=1, iat=0)), Denied)
        assert world.loads == 1

    scenario(run())


def test_an_issuer_that_fails_is_tried_again_and_its_keys_stay(caplog):
    async def run():
        world = World()
        world.source.start()
        await settle()
        world.document = OSError("no route")
        await world.pass_ms(REFRESH_MS)
        assert world.source.error == "no route"
        for count, pause_ms in enumerate((100, 200, 400, 800), 3):
            assert isinstance(await world.log_in(token(OLD)), Accepted)
            await world.pass_ms(pause_ms)
            assert world.loads == count
        world.document = b"<html>login first</html>"
        await world.pass_ms(1_600)
        assert "no JWKS" in world.source.error
        world.document = NEW.document()
        await world.pass_ms(10_000)
        assert world.source.error is None
        assert isinstance(await world.log_in(token(OLD)), Denied)
        assert isinstance(await world.log_in(token(NEW)), Accepted)

    with caplog.at_level(logging.INFO, "moldau.security"):
        scenario(run())
    told = [record.getMessage() for record in caplog.records]
    assert [("no route" in each, "JWKS" in each) for each in told[:2]] == [(True, False), (False, True)]
    assert len(told) == 3


def test_a_broker_that_starts_before_its_issuer():
    async def run():
        world = World()
        world.document = OSError("connection refused")
        world.source.start()
        await settle()
        assert isinstance(await world.log_in(token(OLD)), Denied)
        world.document = OLD.document()
        await world.pass_ms(10_000)
        assert isinstance(await world.log_in(token(OLD)), Accepted)

    scenario(run())


def test_a_login_waits_for_the_first_keys_and_only_that_long():
    async def run():
        world = World()
        world.held = asyncio.Event()
        world.source.start()
        login = asyncio.ensure_future(world.log_in(token(OLD)))
        await settle()
        assert not login.done()
        world.held.set()
        assert isinstance(await login, Accepted)
        assert world.loads == 1

    scenario(run())


def test_a_file_is_read_again_soon():
    async def run():
        world = World("file:///keys.json")
        world.source.start()
        await settle()
        world.document = NEW.document()
        await world.pass_ms(FILE_REFRESH_MS_MAX)
        assert isinstance(await world.log_in(token(NEW)), Accepted)
        assert isinstance(await world.log_in(token(OLD)), Denied)  # withdrawn

    scenario(run())


def test_nothing_is_loaded_after_the_end():
    async def run():
        world = World()
        world.held = asyncio.Event()
        world.source.start()
        login = asyncio.ensure_future(world.log_in(token(OLD)))
        await settle()
        world.source.close()
        assert isinstance(await login, Denied)
        await world.pass_ms(REFRESH_MS * 2)
        assert world.loads == 0

    scenario(run())


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda more: b"n,,\x01auth=Bearer a.b.c" + more))
def test_any_bytes_are_a_message_or_refused(message):
    try:
        parsed = parse_client_message(message)
    except OAuthSyntaxError:
        return
    assert parse_client_message(client_message(parsed)) == parsed


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer d.e.f\x01\x01",
        b"n,a=,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01x\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_a_message_that_is_not_oauthbearers_ends_the_login(message):
    async def run():
        assert isinstance(OAuthBearer(World().check).step(message), Denied)

    scenario(run())


def test_after_a_refusal_nothing_but_the_end_is_taken():
    async def run():
        world = World()
        world.source.start()
        await settle()
        mechanism = OAuthBearer(world.check)
        good, bad = (client_message(ClientMessage(token(each))) for each in (OLD, Issuer("old")))
        assert isinstance(await mechanism.step(bad), Challenge)
        assert isinstance(mechanism.step(good), Denied)

    scenario(run())
