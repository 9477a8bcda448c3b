"""The four APIs of delegation tokens: who may ask, what comes of it, and what every broker then knows."""

import asyncio
import base64
import inspect
import random
from contextlib import asynccontextmanager
from types import SimpleNamespace

import admin_world
import pytest
from jumping_time import until
from kept import kept

from moldau.broker.controller.delegation_tokens import NewToken, create_token
from moldau.broker.handlers import load_all
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.broker.security.tokens.signing import TokenSigner
from moldau.common.core.clock import ManualClock
from moldau.common.core.slow_lane import all_steps
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from moldau.common.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from moldau.common.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from moldau.common.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from moldau.common.protocol.operations import Operation, ResourceType
from moldau.common.settings.sources import from_texts

load_all()
DAY_MS, WEEK_MS, HOUR_MS = 86_400_000, 604_800_000, 3_600_000
SECRET = "the cluster's secret"


def user(name, **more):
    session = Session("CLIENTS", "SASL_SSL", client_host="127.0.0.1")
    session.authenticate(f"User:{name}", 0, **more)
    return session


class Rights:
    """An authorizer with a list of what is allowed."""

    def __init__(self, *allowed):
        self.allowed = allowed

    def allows(self, session, operation, resource_type, name, *, quiet=False):
        del quiet
        return (session.principal, operation, resource_type, name) in self.allowed


class World:
    """One broker with a clock that the test moves."""

    def __init__(self, broker, timers):
        self.broker = broker
        self.timers = timers
        self.clock = broker.clock

    async def ask(self, session, request, version=None):
        entry = TABLE[type(request).KEY]
        version = entry.max_version if version is None else version
        request = type(request).decode(request.encode(version), version)
        answer = entry.handler(self.broker, RequestContext(version, 1, session), request)
        answer = all_steps(answer) if inspect.isgenerator(answer) else await answer
        return type(request).RESPONSE.decode(answer.encode(version), version)

    async def create(self, session, renewers=(), version=None, **fields):
        rows = [CreatableRenewers(principal_type="User", principal_name=name) for name in renewers]
        return await self.ask(session, CreateDelegationTokenRequest(renewers=rows, **fields), version)

    async def describe(self, session, owners=None, version=None):
        rows = None
        if owners is not None:
            rows = [
                DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners
            ]
        return await self.ask(session, DescribeDelegationTokenRequest(owners=rows), version)

    async def renew(self, session, hmac, period_ms=-1):
        return await self.ask(session, RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms))

    async def expire(self, session, hmac, period_ms=-1):
        return await self.ask(
            session, ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        )

    @property
    def tokens(self):
        return self.broker.metadata.image.delegation_tokens


@asynccontextmanager
async def world(folder, **texts):
    texts.setdefault("delegation_token_secret_key", SECRET)
    timers = ManualTimers(ManualClock())
    static = from_texts({name.replace("_", "."): value for name, value in texts.items() if value is not None})
    view = admin_world.MetadataView()
    controller = admin_world.Controller(
        1,
        admin_world.EmbeddedStore(folder),
        view,
        static,
        random.Random(3),
        timers=timers,
        clock=timers._clock,
    )
    await controller.this_broker.open()
    await controller.this_broker.register({"CLIENTS": ("127.0.0.1", 9092)}, None)
    broker = SimpleNamespace(controller=controller, metadata=view, clock=timers._clock, authorizer=None)
    try:
        yield World(broker, timers)
    finally:
        await controller.this_broker.close()


def scenario(folder, story, **texts):
    async def run():
        async with world(folder, **texts) as one:
            await story(one)

    asyncio.run(run())


def test_the_times_of_a_refusal_are_zero(tmp_path):
    """As in Kafka; decoders of times refuse -1."""

    async def story(world):
        anonymous = Session("P", "PLAINTEXT")
        for nobody in (user("alice"), anonymous):
            for answer in (
                await world.renew(nobody, b"no such token"),
                await world.expire(nobody, b"no such token"),
            ):
                assert answer.error_code
                assert answer.expiry_timestamp_ms == 0
        refused = await world.create(anonymous)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        times = (refused.issue_timestamp_ms, refused.expiry_timestamp_ms, refused.max_timestamp_ms)
        assert times == (0, 0, 0)

    scenario(tmp_path, story)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_is_created(tmp_path, version):
    async def story(world):
        answer = await world.create(user("alice"), ["bob", "bob"], version)
        now_ms = world.clock.now_ms()
        assert answer.error_code == 0
        assert (answer.principal_type, answer.principal_name) == ("User", "alice")
        times = (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
        assert times == (now_ms, now_ms + DAY_MS, now_ms + WEEK_MS)
        assert bytes(answer.hmac) == TokenSigner(SECRET).hmac_of(answer.token_id)
        token = world.tokens[answer.token_id]
        assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:bob",))
        (described,) = (await world.describe(user("alice"), version=version)).tokens
        assert (described.token_id, bytes(described.hmac)) == (answer.token_id, bytes(answer.hmac))
        assert [row.principal_name for row in described.renewers] == ["bob"]
        if version >= 3:
            assert (
                answer.token_requester_principal_name == described.token_requester_principal_name == "alice"
            )

    scenario(tmp_path, story)


def test_the_hmac_is_kafkas():
    """HmacSHA512 of the id's text, with the secret's UTF-8 bytes as the key; this one is of OpenSSL."""
    hmac = TokenSigner("secret").hmac_of("IzQUzbBpTQ6o8y9dJKMGVw")
    assert base64.b64encode(hmac).decode() == (
        "NUg2ZlUOQKGO9dyXgnOxTOVaZ3XEEAq9VUUwEsNMrnhTQDo8jTrxgYZjqdCUHEEMxNl5c97WcpRYXtrvK1n7ww=="
    )


def test_lifetimes_are_bounded_by_the_settings(tmp_path):
    async def story(world):
        now_ms = world.clock.now_ms()
        for asked_ms, max_ms, expiry_ms in (
            (HOUR_MS, HOUR_MS, HOUR_MS),
            (3 * DAY_MS, 3 * DAY_MS, DAY_MS),
            (2**63 - 1, WEEK_MS, DAY_MS),
            (0, WEEK_MS, DAY_MS),
            (-(2**63), WEEK_MS, DAY_MS),
        ):
            answer = await world.create(user("alice"), max_lifetime_ms=asked_ms)
            assert answer.max_timestamp_ms == now_ms + max_ms
            assert answer.expiry_timestamp_ms == now_ms + expiry_ms

    scenario(tmp_path, story)


@pytest.mark.parametrize(
    "session",
    [
        Session("P", "PLAINTEXT"),
        Session("S", "SSL"),
        user("alice", token_id="abc"),
    ],
    ids=["plaintext", "tls without a certificate", "logged in by a token"],
)
def test_who_may_not_ask(tmp_path, session):
    async def story(world):
        hmac = (await world.create(user("alice"))).hmac
        for answer in (
            await world.create(session),
            await world.renew(session, hmac),
            await world.expire(session, hmac),
            await world.describe(session),
        ):
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert len(world.tokens) == 1

    scenario(tmp_path, story)


def test_a_certificate_suffices(tmp_path):
    async def story(world):
        session = Session("S", "SSL")
        session.authenticate("User:CN=alice", 0)
        assert (await world.create(session)).principal_name == "CN=alice"

    scenario(tmp_path, story)


def test_without_a_secret_tokens_are_not_enabled(tmp_path):
    async def story(world):
        for answer in (
            await world.create(user("alice")),
            await world.renew(user("alice"), b"x"),
            await world.expire(user("alice"), b"x"),
            await world.describe(user("alice")),
        ):
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    scenario(tmp_path, story, delegation_token_secret_key=None)


def test_a_token_for_somebody_else_takes_a_right(tmp_path):
    async def story(world):
        asked = {"owner_principal_type": "User", "owner_principal_name": "bob"}
        world.broker.authorizer = Rights()
        refused = await world.create(user("alice"), **asked)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.hmac, refused.token_id, world.tokens) == (b"", "", {})
        world.broker.authorizer = Rights(
            ("User:alice", Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")
        )
        answer = await world.create(user("alice"), **asked)
        assert (answer.error_code, answer.principal_name) == (0, "bob")
        token = world.tokens[answer.token_id]
        assert (token.owner, token.requester) == ("User:bob", "User:alice")
        # Who asked for it sees it, and may not prolong it, as in Kafka.
        assert (await world.renew(user("alice"), answer.hmac)).error_code == (
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        )
        assert (await world.renew(user("bob"), answer.hmac)).error_code == 0
        assert len((await world.describe(user("alice"))).tokens) == 1

    scenario(tmp_path, story)


def test_renewers_are_users(tmp_path):
    async def story(world):
        rows = [CreatableRenewers(principal_type="Group", principal_name="g")]
        answer = await world.ask(user("alice"), CreateDelegationTokenRequest(renewers=rows))
        assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        rows = [CreatableRenewers(principal_type="User", principal_name=str(n)) for n in range(1_001)]
        answer = await world.ask(user("alice"), CreateDelegationTokenRequest(renewers=rows))
        assert answer.error_code == ErrorCode.INVALID_REQUEST

    scenario(tmp_path, story)


def test_renewing(tmp_path):
    async def story(world):
        token = await world.create(user("alice"), ["bob"])
        world.timers.advance(HOUR_MS)
        now_ms = world.clock.now_ms()
        for name, period_ms, expected_ms in (
            ("alice", -1, DAY_MS),
            ("bob", 0, DAY_MS),
            ("bob", HOUR_MS, HOUR_MS),
            ("alice", 2**63 - 1, DAY_MS),
        ):
            answer = await world.renew(user(name), token.hmac, period_ms)
            assert (answer.error_code, answer.expiry_timestamp_ms) == (0, now_ms + expected_ms)
            assert world.tokens[token.token_id].expires_ms == now_ms + expected_ms
        assert (await world.renew(user("eve"), token.hmac)).error_code == (
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        )
        for _ in range(7):
            world.timers.advance(DAY_MS - HOUR_MS)
            answer = await world.renew(user("alice"), token.hmac)
        assert answer.expiry_timestamp_ms == token.max_timestamp_ms

    scenario(tmp_path, story)


def test_expiring(tmp_path):
    async def story(world):
        token = await world.create(user("alice"), ["bob"])
        now_ms = world.clock.now_ms()
        assert (await world.expire(user("eve"), token.hmac)).error_code == (
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        )
        assert (await world.expire(user("bob"), token.hmac, HOUR_MS)).expiry_timestamp_ms == now_ms + HOUR_MS
        assert (await world.expire(user("bob"), token.hmac, 2**63 - 1)).expiry_timestamp_ms == (
            token.max_timestamp_ms
        )
        assert (await world.expire(user("alice"), token.hmac, 0)).expiry_timestamp_ms == now_ms
        world.timers.advance(1)
        assert (await world.expire(user("alice"), token.hmac, 5)).error_code == (
            ErrorCode.DELEGATION_TOKEN_EXPIRED
        )
        other = await world.create(user("alice"))
        assert (await world.expire(user("alice"), other.hmac, -1)).expiry_timestamp_ms == -1
        assert other.token_id not in world.tokens
        assert (await world.expire(user("alice"), other.hmac, -1)).error_code == (
            ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        )

    scenario(tmp_path, story)


def test_an_hmac_is_right_as_a_whole_or_not_at_all(tmp_path):
    async def story(world):
        hmac = bytes((await world.create(user("alice"))).hmac)
        for wrong in (b"", hmac[:-1], hmac + b"\0", bytes(64), hmac[:-1] + bytes([hmac[-1] ^ 1])):
            assert (await world.renew(user("alice"), wrong)).error_code == (
                ErrorCode.DELEGATION_TOKEN_NOT_FOUND
            )

    scenario(tmp_path, story)


def test_an_expired_token_is_nobodys_and_is_removed(tmp_path):
    async def story(world):
        short = await world.create(user("alice"), max_lifetime_ms=1_000)
        long = await world.create(user("alice"))
        world.timers.advance(1_001)
        assert (await world.renew(user("alice"), short.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
        assert [each.token_id for each in (await world.describe(user("alice"))).tokens] == [long.token_id]
        assert len(world.tokens) == 2
        world.timers.advance(HOUR_MS)  # delegation.token.expiry.check.interval.ms
        await until(lambda: len(world.tokens) == 1)  # the store writes on a worker
        assert list(world.tokens) == [long.token_id]

    scenario(tmp_path, story)


def test_describing_shows_what_the_client_may_see(tmp_path):
    async def story(world):
        mine = await world.create(user("alice"), ["carol"])
        other = await world.create(user("bob"))
        hidden = await world.create(user("dave"))
        by_user = ("User:alice", Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob")
        by_id = ("User:alice", Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, hidden.token_id)
        rights = Rights()

        async def seen(session, owners=None):
            world.broker.authorizer = rights
            return [each.token_id for each in (await world.describe(session, owners)).tokens]

        assert await seen(user("alice")) == [mine.token_id]
        assert await seen(user("carol")) == [mine.token_id]
        assert await seen(user("eve")) == []
        assert await seen(user("alice"), ["bob", "dave"]) == []
        assert await seen(user("alice"), ["carol"]) == [mine.token_id]
        assert await seen(user("alice"), []) == []
        rights = Rights(by_user)
        assert await seen(user("alice")) == [mine.token_id, other.token_id]
        rights = Rights(by_id)
        assert await seen(user("alice"), ["dave"]) == [hidden.token_id]
        rights = None
        assert len(await seen(user("eve"))) == 3

    scenario(tmp_path, story)


def test_tokens_survive_a_restart_and_hold_no_secret(tmp_path):
    async def first(world):
        kept.append(bytes((await world.create(user("alice"))).hmac))

    async def second(world):
        assert (await world.renew(user("alice"), kept[0])).error_code == 0

    kept = []
    scenario(tmp_path, first)
    scenario(tmp_path, second)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"delegation-token-changed" in written
    for secret in (SECRET.encode(), kept[0], kept[0].hex().encode(), base64.b64encode(kept[0])):
        assert secret not in written
    assert SECRET not in repr(TokenSigner(SECRET))


def test_many_tokens_are_followed_a_few_at_a_step():
    signer = TokenSigner(SECRET)
    settings = from_texts({}).broker
    tokens = {}
    for _ in range(2_000):
        (change,) = create_token(
            EMPTY_IMAGE, NewToken("User:a", "User:a", ()), settings, 0, random.Random()
        ).changes
        tokens[change.token.token_id] = change.token
    steps = sum(1 for _ in signer.follow(tokens))
    assert steps >= 30
    one = next(iter(tokens))
    assert all_steps(signer.find(tokens, signer.hmac_of(one))).token_id == one
    everything = kept(signer)
    fewer = {token_id: token for token_id, token in tokens.items() if token_id != one}
    assert all_steps(signer.find(fewer, signer.hmac_of(one))) is None
    assert 1_999 <= kept(signer) < everything
