"""Logins by delegation token: its credential is the same on every broker, and gone with the token. And what a
listener's settings must have for OAUTHBEARER and GSSAPI."""

import asyncio
import base64
import random
import sys

import pytest
from kept import kept
from login_world import ScramClient
from token_issuer import Issuer, claims, unsigned

from moldau.broker.metadata.delegation_tokens import DelegationToken
from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.broker.security.login.logins import Logins
from moldau.broker.security.login.outside import Outside
from moldau.broker.security.login.steps import Accepted, Challenge, Denied
from moldau.broker.security.login.token_credentials import TokenCredentials
from moldau.broker.security.tokens.signing import TokenSigner
from moldau.common.core.clock import ManualClock
from moldau.common.core.files import OsFiles
from moldau.common.core.timers import ManualTimers
from moldau.common.core.waiting import settled
from moldau.common.core.workers import inline_pool
from moldau.common.credentials.http_fetch import Response
from moldau.common.credentials.jwt.key_source import DOCUMENT_BYTES_MAX
from moldau.common.credentials.jwt.key_sources import KeySources
from moldau.common.credentials.oauthbearer import ClientMessage, client_message
from moldau.common.credentials.scram import BY_NAME
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import from_texts

HOUR_MS = 3_600_000
SHA_256 = BY_NAME["SCRAM-SHA-256"]
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {};"
UNSECURED = "org.apache.kafka.common.security.oauthbearer.internals.unsecured.{}"
ISSUER = Issuer()


class World:
    """A broker's logins, with a clock that the test moves; `hashed` counts the slow computations."""

    def __init__(self, secret="secret", **texts):
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.image = EMPTY_IMAGE
        self.signer = TokenSigner(secret)
        self.hashed = 0
        self.fetched = []
        self.answer = Response(200, ISSUER.document())
        self.settings = from_texts({name.replace("_", "."): value for name, value in texts.items()}).broker

    async def run(self, blocking):
        self.hashed += 1
        return blocking()

    def fetch(self, url, **limits):
        self.fetched.append((url, limits))
        return self.answer

    def add(self, token_id="abc", lifetime_ms=HOUR_MS):
        now_ms = self.clock.now_ms()
        ends_ms = now_ms + lifetime_ms
        token = DelegationToken(token_id, "User:alice", "User:bob", (), now_ms, ends_ms, ends_ms)
        self.image = self.image._replace(delegation_tokens={**self.image.delegation_tokens, token_id: token})
        return token

    def remove(self):
        self.image = self.image._replace(delegation_tokens={})

    def password(self, token_id="abc"):
        return base64.b64encode(self.signer.hmac_of(token_id)).decode()

    def logins(self):
        """Inside a running event loop."""
        loop = asyncio.get_running_loop()
        keys = KeySources(self.fetch, OsFiles(), inline_pool, loop, self.clock, self.timers)
        outside = Outside(self.run, keys, self.signer)
        return Logins(lambda: self.settings, lambda: self.image, self.clock, random.Random(1), outside)

    async def log_in(self, mechanism, token_id="abc", password=None, token=True):
        """What comes of a login by SCRAM."""
        client = ScramClient(BY_NAME[mechanism], token_id, password or self.password(token_id))
        client.extensions = ",tokenauth=true" if token else ""
        login = self.logins().offered("L")[mechanism].begin()
        first = await settled(login.step(client.first()))
        assert isinstance(first, Challenge)
        return await settled(login.step(client.final(first.token)))


def both(**texts):
    return World(sasl_enabled_mechanisms="SCRAM-SHA-256,SCRAM-SHA-512", **texts)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_logs_its_owner_in_until_it_ends(mechanism):
    async def run():
        world = both()
        token = world.add()
        step = await world.log_in(mechanism)
        assert isinstance(step, Accepted)
        assert (step.principal, step.expires_ms, step.token_id) == ("User:alice", token.expires_ms, "abc")
        world.clock.advance(HOUR_MS)
        assert isinstance(await world.log_in(mechanism), Accepted)
        world.clock.advance(1)
        assert isinstance(await world.log_in(mechanism), Denied)

    asyncio.run(run())


def test_what_is_no_login_by_token():
    async def run():
        world = both()
        world.add()
        for refused in (
            world.log_in("SCRAM-SHA-256", password="guessed"),
            world.log_in("SCRAM-SHA-256", password=base64.b64encode(bytes(64)).decode()),
            world.log_in("SCRAM-SHA-256", token=False),
            world.log_in("SCRAM-SHA-256", token_id="abd"),
        ):
            assert isinstance(await refused, Denied)
        world.remove()
        assert isinstance(await world.log_in("SCRAM-SHA-256"), Denied)

    asyncio.run(run())


def test_without_a_secret_nobody_logs_in_by_token():
    async def run():
        world = both()
        password = world.password()
        world.add()
        world.signer = TokenSigner(None)
        assert isinstance(await world.log_in("SCRAM-SHA-256", password=password), Denied)

    asyncio.run(run())


def test_every_broker_with_the_secret_has_the_same_credential_and_computes_it_once():
    async def run():
        found = []
        for secret in ("secret", "secret", "another"):
            world = both(secret=secret)
            world.add()
            of = TokenCredentials(SHA_256, world.signer, lambda w=world: w.image, world.clock, world.run)
            found.append((await settled(of.find("abc"))).credential)
            assert (await settled(of.find("abc"))).credential == found[-1]
            assert world.hashed == 1
            assert await settled(of.find("abd")) is None
            assert world.hashed == 1
        assert found[0] == found[1]
        assert found[0].salt != found[2].salt

    asyncio.run(run())


def test_a_token_that_is_removed_while_its_credential_is_computed():
    async def run():
        world = both()
        world.add()

        async def slow(blocking):
            world.remove()
            return blocking()

        of = TokenCredentials(SHA_256, world.signer, lambda: world.image, world.clock, slow)
        assert await settled(of.find("abc")) is None

    asyncio.run(run())


def test_credentials_that_are_kept_are_bounded():
    async def run():
        world = both()
        of = TokenCredentials(SHA_256, world.signer, lambda: world.image, world.clock, world.run)
        of._credential = lambda token_id: token_id
        tokens = {f"t{number}": world.add()._replace(token_id=f"t{number}") for number in range(1_100)}
        world.image = world.image._replace(delegation_tokens=tokens)
        for token_id in tokens:
            await settled(of.find(token_id))
        assert 1_024 <= kept(of) < 1_100

    asyncio.run(run())


# Settings


def oauth(**texts):
    return World(sasl_enabled_mechanisms="OAUTHBEARER", **texts)


async def by_issuer(world, logins, token=None, **changed):
    now = world.clock.now_ms() // 1_000
    token = token or ISSUER.signed(claims(**{"iat": now, "exp": now + 60, **changed}))
    login = logins.offered("L")["OAUTHBEARER"].begin()
    return await settled(login.step(client_message(ClientMessage(token))))


def test_the_settings_of_oauthbearer_are_the_rules():
    async def run():
        world = oauth(
            **{
                "sasl.oauthbearer.jwks.endpoint.url": "https://issuer/keys",
                "sasl.oauthbearer.expected.audience": "kafka,other",
                "sasl.oauthbearer.expected.issuer": "https://issuer",
                "sasl.oauthbearer.sub.claim.name": "name",
                "sasl.oauthbearer.clock.skew.seconds": "5",
            }
        )
        logins = world.logins()
        step = await by_issuer(world, logins, name="dora")
        assert isinstance(step, Accepted)
        assert step.principal == "User:dora"
        for wrong in ({"name": None}, {"name": "x", "aud": "z"}, {"name": "x", "iss": "z"}):
            assert isinstance(await by_issuer(world, logins, **wrong), Challenge)
        now = world.clock.now_ms() // 1_000
        assert isinstance(await by_issuer(world, logins, name="x", exp=now - 4, iat=0), Accepted)
        assert isinstance(await by_issuer(world, logins, name="x", exp=now - 5, iat=0), Challenge)
        ((url, limits),) = world.fetched
        assert (url, limits["bytes_max"], limits["tls"]) == ("https://issuer/keys", DOCUMENT_BYTES_MAX, None)
        # Another setting changes: nobody waits for keys that are known.
        world.settings = world.settings.replace(num_partitions=7)
        assert isinstance(await by_issuer(world, logins, name="dora"), Accepted)
        assert len(world.fetched) == 1

    asyncio.run(run())


def test_what_a_key_server_may_answer_instead():
    async def run():
        world = oauth(**{"sasl.oauthbearer.jwks.endpoint.url": "https://issuer/keys"})
        world.answer = Response(404, ISSUER.document())
        assert isinstance(await by_issuer(world, world.logins(), aud=None), Challenge)
        world.answer = Response(200, b"{}")
        assert isinstance(await by_issuer(world, world.logins(), aud=None), Challenge)

    asyncio.run(run())


def test_a_key_file(tmp_path):
    async def run():
        path = tmp_path / "the keys.json"
        world = oauth(**{"sasl.oauthbearer.jwks.endpoint.url": path.as_uri()})
        path.write_bytes(b" " * (DOCUMENT_BYTES_MAX + 1))
        assert isinstance(await by_issuer(world, world.logins(), aud=None), Challenge)
        path.write_bytes(ISSUER.document())
        assert isinstance(await by_issuer(world, world.logins(), aud=None), Accepted)
        assert world.fetched == []

    asyncio.run(run())


def test_unsigned_tokens_only_where_they_are_asked_for_by_name(caplog):
    async def run():
        handler = UNSECURED.format("OAuthBearerUnsecuredValidatorCallbackHandler")
        now = ManualClock().now_ms() // 1_000
        token = unsigned({"sub": "dora", "exp": now + 60, "scope": ["s"]})
        world = oauth(
            **{
                "listener.name.l.oauthbearer.sasl.server.callback.handler.class": handler,
                "listener.name.l.oauthbearer.sasl.jaas.config": OAUTH.format(
                    'unsecuredValidatorRequiredScope="s"'
                ),
            }
        )
        step = await by_issuer(world, world.logins(), token)
        assert isinstance(step, Accepted)
        assert "anyone can log in as anybody" in caplog.text
        secured = oauth(**{"sasl.oauthbearer.jwks.endpoint.url": "https://issuer/keys"})
        assert isinstance(await by_issuer(secured, secured.logins(), token), Challenge)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "set sasl.oauthbearer.jwks.endpoint.url"),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "ftp://x"},
            "must begin with https:",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": "https://x",
                "sasl.server.callback.handler.class": UNSECURED.format(
                    "OAuthBearerUnsecuredValidatorCallbackHandler"
                ),
            },
            "take one away",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.server.callback.handler.class": "com.example.Own",
            },
            "Java class",
        ),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "has no keytab"),
        (
            {
                "sasl.enabled.mechanisms": "GSSAPI",
                "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
                'keyTab="/nowhere/kafka.keytab" principal="kafka/localhost@REALM";',
            },
            "cannot offer GSSAPI",
        ),
    ],
)
def test_settings_that_lack_something(texts, sentence):
    async def run():
        with pytest.raises(SettingError) as raised:
            World(**texts).logins().offered("L")
        assert sentence in raised.value.sentence

    asyncio.run(run())


@pytest.mark.parametrize(
    ("package", "texts", "line"),
    [
        (
            "joserfc.jwk",
            {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "https://x"},
            "pip install 'moldau[security]'",
        ),
        (
            "gssapi",
            {
                "sasl.enabled.mechanisms": "GSSAPI",
                "sasl.jaas.config": 'com.sun.security.auth.module.Krb5LoginModule required keyTab="/k";',
            },
            "pip install 'moldau[kerberos]'",
        ),
    ],
)
def test_a_missing_package_is_named_with_its_pip_line(monkeypatch, package, texts, line):
    async def run():
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(SettingError) as raised:
            World(**texts).logins().offered("L")
        assert line in raised.value.sentence

    asyncio.run(run())
