"""Delegation tokens in a cluster: what one broker decides, all know; a cluster of an older level has none."""

import asyncio

from controller_cluster import Cluster

from moldau.broker.controller.delegation_tokens import NewToken
from moldau.broker.metadata.changes import FeatureLevelChanged, replay
from moldau.broker.security.tokens.signing import TokenSigner
from moldau.common.protocol.errors import ErrorCode

ASKED = NewToken("User:alice", "User:alice", ("User:bob",))


def story(steps):
    async def run():
        cluster = Cluster()
        controllers = await cluster.start(1, 2, 3)
        for each in controllers:
            each.token_signer = TokenSigner("secret")
        await steps(cluster, *controllers)

    asyncio.run(run())


def test_every_broker_knows_a_token_and_may_prolong_it():
    async def steps(cluster, one, two, three):
        token = (await one.create_delegation_token(ASKED, 1_000)).token
        await cluster.settle()
        assert all(each.view.image.delegation_tokens == {token.token_id: token} for each in (one, two, three))
        hmac = two.token_signer.hmac_of(token.token_id)
        renewed = await two.renew_delegation_token(hmac, "User:bob", 5_000, 2_000)
        assert renewed.expires_ms == 7_000
        await cluster.settle()
        assert three.view.image.delegation_tokens[token.token_id].expires_ms == 7_000
        expired = await three.expire_delegation_token(hmac, "User:alice", -1, 3_000)
        assert not expired.outcome.failed
        await cluster.settle()
        assert cluster.image.delegation_tokens == {}

    story(steps)


def test_two_brokers_prolong_and_end_a_token_at_once():
    async def steps(cluster, one, two, three):
        token = (await one.create_delegation_token(ASKED, 1_000)).token
        await cluster.settle()
        hmac = one.token_signer.hmac_of(token.token_id)
        ended, renewed = await asyncio.gather(
            two.expire_delegation_token(hmac, "User:alice", -1, 2_000),
            three.renew_delegation_token(hmac, "User:bob", 5_000, 2_000),
        )
        await cluster.settle()
        assert not ended.outcome.failed
        assert cluster.image.delegation_tokens == {}  # whichever came first
        assert renewed.outcome.error_code in (ErrorCode.NONE, ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    story(steps)


def test_a_cluster_of_an_older_level_says_how_to_raise_it():
    async def steps(cluster, one, two, three):
        older = replay(one.view.image, one.view.image.version, [FeatureLevelChanged(2)])
        one.view.publish(older, ())
        refused = await one.create_delegation_token(ASKED, 1_000)
        assert refused.outcome.error_code is ErrorCode.UNSUPPORTED_VERSION
        assert "kafka-features upgrade" in refused.outcome.message
        assert refused.token is None

    story(steps)
