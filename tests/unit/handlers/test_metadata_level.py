"""The metadata level and the removal of brokers, as administrators' tools ask for them."""

import asyncio

import pytest
from admin_world import ask, start

from moldau.broker.controller.decision import Decision
from moldau.broker.handlers.apis.cluster import api_versions, unregister_broker, update_features  # noqa: F401
from moldau.broker.metadata.changes import BrokerFenced, BrokerRegistered, FeatureLevelChanged, TopicCreated
from moldau.broker.metadata.image import PartitionState
from moldau.broker.metadata.levels import FEATURE, LEVEL_MAX
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.api_versions import ApiVersionsRequest
from moldau.common.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.common.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


def scenario(tmp_path, body):
    async def run():
        broker = await start(tmp_path)
        try:
            await body(broker)
        finally:
            await broker.controller.this_broker.close()

    asyncio.run(run())


async def change(broker, *changes):
    await broker.controller.decide(lambda image: Decision(changes, None))


async def level_shown(broker):
    answer = await ask(broker, ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    (supported,) = [each for each in answer.supported_features if each.name == FEATURE]
    assert (supported.min_version, supported.max_version) == (1, LEVEL_MAX)
    (found,) = [each for each in answer.finalized_features if each.name == FEATURE]
    return found.max_version_level


async def raise_to(broker, level, version=2, *, dry=False, also=()):
    updates = [*also, FeatureUpdateKey(feature=FEATURE, max_version_level=level)]
    return await ask(broker, UpdateFeaturesRequest(feature_updates=updates, validate_only=dry), version)


def test_a_new_cluster_has_the_highest_level(tmp_path):
    async def body(broker):
        assert await level_shown(broker) == broker.metadata.image.level == LEVEL_MAX
        assert broker.metadata.image.brokers[1].levels == (1, LEVEL_MAX)

    scenario(tmp_path, body)


def test_an_older_one_is_raised_when_asked_to(tmp_path):
    async def body(broker):
        await change(broker, FeatureLevelChanged(1))
        assert await level_shown(broker) == 1
        assert not (await raise_to(broker, LEVEL_MAX, dry=True)).error_code
        assert await level_shown(broker) == 1
        bad = FeatureUpdateKey(feature="nonsense", max_version_level=1)
        assert (await raise_to(broker, LEVEL_MAX, also=[bad])).error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert await level_shown(broker) == 1
        answer = await raise_to(broker, LEVEL_MAX, 1)
        assert [(row.feature, row.error_code) for row in answer.results] == [(FEATURE, 0)]
        assert await level_shown(broker) == LEVEL_MAX
        assert broker.metadata.image.brokers[1].levels == (1, LEVEL_MAX), "written down with it"
        assert not (await raise_to(broker, LEVEL_MAX)).error_code

    scenario(tmp_path, body)


@pytest.mark.parametrize(
    ("level", "complaint"),
    [
        (0, f"only supports versions 1-{LEVEL_MAX}"),
        (LEVEL_MAX + 1, f"1-{LEVEL_MAX}"),
        (1, "Can't downgrade"),
        (-1, "less"),
    ],
)
def test_not_every_level_is_one(tmp_path, level, complaint):
    async def body(broker):
        answer = await raise_to(broker, level)
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert complaint in answer.error_message
        assert FEATURE in answer.error_message

    scenario(tmp_path, body)


def test_a_broker_of_an_older_release_holds_the_level_back(tmp_path):
    async def body(broker):
        older = BrokerRegistered(7, 9, {}, None)
        await change(broker, older, BrokerFenced(7, True))
        assert broker.controller.view.image.level == LEVEL_MAX
        outcome = await broker.controller.raise_level(LEVEL_MAX + 1)
        assert outcome.error_code is ErrorCode.INVALID_UPDATE_VERSION
        assert outcome.message == f"Broker 1 only supports versions 1-{LEVEL_MAX}"

    scenario(tmp_path, body)


def test_a_broker_that_is_gone_is_removed_once_nothing_is_on_it(tmp_path):
    async def body(broker):
        replicas = (PartitionState.fresh((1, 7)), PartitionState.fresh((1,)))
        await change(broker, BrokerRegistered(7, 9, {}, None), TopicCreated("a", b"a" * 16, replicas))

        async def removed(node_id):
            answer = await ask(broker, UnregisterBrokerRequest(broker_id=node_id))
            return answer.error_code, answer.error_message

        assert await removed(1) == (ErrorCode.INVALID_REQUEST, "Broker 1 is running; stop it first.")
        assert await removed(7) == (ErrorCode.INVALID_REQUEST, "Broker 7 is running; stop it first.")
        assert await removed(8) == (ErrorCode.BROKER_ID_NOT_REGISTERED, "Broker 8 is not registered.")
        await change(broker, BrokerFenced(7, True))
        code, message = await removed(7)
        assert code == ErrorCode.INVALID_REQUEST
        assert "1 replicas, such as that of a-0" in message
        await broker.controller.delete_topics([("a", bytes(16))])
        assert await removed(7) == (0, None)
        assert list(broker.metadata.image.brokers) == [1]

    scenario(tmp_path, body)
