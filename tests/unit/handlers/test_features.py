"""Kafka's features: how they are shown and changed, and eligible leader replicas that are switched off."""

import asyncio

import pytest
from admin_world import ask, start

from moldau.broker.controller.decision import Decision
from moldau.broker.handlers.apis.cluster import api_versions, update_features  # noqa: F401
from moldau.broker.handlers.apis.configs import alter_configs, incremental_alter_configs  # noqa: F401
from moldau.broker.handlers.apis.topics import describe_topic_partitions  # noqa: F401
from moldau.broker.metadata.changes import (
    BrokerFenced,
    BrokerRegistered,
    ConfigsChanged,
    FeatureLevelChanged,
    TopicCreated,
)
from moldau.broker.metadata.features import ELIGIBLE, METADATA, SHARE, serves_share_groups
from moldau.broker.metadata.image import NO_LEADER, PartitionState, ResourceType
from moldau.broker.metadata.levels import FEATURE, LEVEL_MAX
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import alter_configs as legacy
from moldau.common.protocol.messages import describe_topic_partitions as described
from moldau.common.protocol.messages import incremental_alter_configs as altered
from moldau.common.protocol.messages.api_versions import ApiVersionsRequest
from moldau.common.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE, UNSAFE = 1, 2, 3
SET, DELETE = 0, 1
FAILED = "The update failed for all features since the following feature had an error: "
REPLICAS = (1, 7, 8)


def scenario(tmp_path, body, **texts):
    async def run():
        broker = await start(tmp_path, **texts)
        try:
            await body(broker)
        finally:
            await broker.controller.this_broker.close()

    asyncio.run(run())


async def change(broker, *changes):
    await broker.controller.decide(lambda image: Decision(changes, None))


async def shown(broker):
    answer = await ask(broker, ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    return supported, {each.name: each.max_version_level for each in answer.finalized_features}


async def update(broker, kind=UPGRADE, dry=False, version=2, **levels):
    rows = [
        FeatureUpdateKey(feature=name.replace("_", "."), max_version_level=level, upgrade_type=kind)
        for name, level in levels.items()
    ]
    answer = await ask(broker, UpdateFeaturesRequest(feature_updates=rows, validate_only=dry), version)
    return ErrorCode(answer.error_code), answer.error_message


async def with_topic(broker, *states):
    fenced = [
        change
        for node in (7, 8)
        for change in (BrokerRegistered(node, 9, {}, None), BrokerFenced(node, True))
    ]
    await change(broker, *fenced, TopicCreated("a", b"a" * 16, states))


async def rows(broker):
    topics = [described.TopicRequest(name="a")]
    answer = await ask(broker, described.DescribeTopicPartitionsRequest(topics=topics))
    return [
        (each.leader_id, each.isr_nodes, each.eligible_leader_replicas, each.last_known_elr)
        for each in answer.topics[0].partitions
    ]


def test_features_are_shown_as_kafka_shows_them(tmp_path):
    async def body(broker):
        supported, finalized = await shown(broker)
        assert supported == {
            METADATA: (7, 30),
            "group.version": (0, 1),
            "transaction.version": (0, 2),
            SHARE: (0, 1),
            ELIGIBLE: (0, 1),
            "share.version": (0, 1),
            FEATURE: (1, LEVEL_MAX),
        }
        assert finalized == {
            METADATA: 30,
            "group.version": 1,
            "transaction.version": 2,
            SHARE: 1,
            ELIGIBLE: 1,
            "share.version": 1,
            FEATURE: LEVEL_MAX,
        }

    scenario(tmp_path, body)


INVALID = "Invalid update version {level} for feature {name}. "
FLAG = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
    "downgrade."
)
FROM = "Unsupported metadata.version downgrade from 30 to 29. "


@pytest.mark.parametrize(
    ("name", "level", "kind", "complaint"),
    [
        (METADATA, 30, UPGRADE, None),
        (METADATA, 30, UNSAFE, None),
        (METADATA, 6, SAFE, INVALID + "Local controller 1 only supports versions 7-30"),
        (METADATA, 31, UPGRADE, INVALID + "Local controller 1 only supports versions 7-30"),
        (METADATA, 29, UPGRADE, INVALID + FLAG),
        (
            METADATA,
            29,
            SAFE,
            FROM
            + "Refusing to perform the requested downgrade because it might delete metadata information.",
        ),
        (METADATA, 29, UNSAFE, FROM + "Unsafe metadata downgrade is not supported in this version."),
        (ELIGIBLE, 1, UPGRADE, None),
        (ELIGIBLE, 1, SAFE, None),
        (ELIGIBLE, 0, SAFE, None),
        (ELIGIBLE, 0, UNSAFE, None),
        (ELIGIBLE, -1, SAFE, INVALID + "A feature version cannot be less than 0."),
        (ELIGIBLE, 0, UPGRADE, INVALID + FLAG),
        (ELIGIBLE, 2, UPGRADE, INVALID + "Local controller 1 only supports versions 0-1"),
        (ELIGIBLE, 0, 9, INVALID + "The controller does not support the given upgrade type."),
    ],
)
def test_updates_are_answered_as_kafka_4_3_answers_them(tmp_path, name, level, kind, complaint):
    async def body(broker):
        code, message = await update(broker, kind, dry=True, **{name: level})
        if complaint is None:
            assert (code, message) == (ErrorCode.NONE, None)
        else:
            assert code is ErrorCode.INVALID_UPDATE_VERSION
            assert message == FAILED + complaint.format(level=level, name=name)
        assert (await shown(broker))[1][ELIGIBLE] == 1

    scenario(tmp_path, body)


def test_eligible_replicas_are_switched_off_and_on(tmp_path):
    async def body(broker):
        led = PartitionState(1, 3, 5, REPLICAS, (1,), elr=(7, 8))
        waiting = PartitionState(NO_LEADER, 3, 5, REPLICAS, (), elr=(7, 8))
        await with_topic(broker, led, waiting)
        assert await rows(broker) == [(1, [1], [7, 8], []), (NO_LEADER, [], [7, 8], [])]
        assert (await update(broker, SAFE, **{ELIGIBLE: 0}))[0] is ErrorCode.NONE
        assert await rows(broker) == [(1, [1], [], []), (NO_LEADER, [7, 8], [], [])]
        assert ELIGIBLE not in (await shown(broker))[1]
        assert broker.controller.rules("a").min_isr == 0
        code, message = await update(broker, SAFE, **{ELIGIBLE: 1})
        assert code is ErrorCode.INVALID_UPDATE_VERSION
        assert "Can't downgrade to a newer version." in message
        assert (await update(broker, UPGRADE, **{ELIGIBLE: 1}))[0] is ErrorCode.NONE
        assert (await shown(broker))[1][ELIGIBLE] == 1
        assert broker.controller.rules("a").min_isr == 1

    scenario(tmp_path, body)


def test_share_groups_are_switched_off_and_on(tmp_path):
    async def body(broker):
        assert serves_share_groups(broker.metadata.image)
        assert (await update(broker, SAFE, **{SHARE: 0}))[0] is ErrorCode.NONE
        assert not serves_share_groups(broker.metadata.image)
        assert SHARE not in (await shown(broker))[1]
        assert (await update(broker, UPGRADE, **{SHARE: 1}))[0] is ErrorCode.NONE
        assert serves_share_groups(broker.metadata.image)

    scenario(tmp_path, body)


def test_who_waits_for_the_longest_log_must_be_led_first(tmp_path):
    async def body(broker):
        await with_topic(broker, PartitionState(NO_LEADER, 3, 5, REPLICAS, (), doubtful=(7, 8)))
        code, message = await update(broker, SAFE, **{ELIGIBLE: 0})
        assert code is ErrorCode.INVALID_UPDATE_VERSION
        assert "a-0 has no leader, and waits for the longest log of the brokers 7, 8" in message
        assert (await shown(broker))[1][ELIGIBLE] == 1
        assert await rows(broker) == [(NO_LEADER, [], [], [7, 8])]

    scenario(tmp_path, body)


def test_an_older_metadata_level_keeps_them_on(tmp_path):
    async def body(broker):
        await change(broker, FeatureLevelChanged(4))
        assert (await shown(broker))[1][ELIGIBLE] == 1
        for dry in (True, False):
            code, message = await update(broker, SAFE, dry, **{ELIGIBLE: 0})
            assert code is ErrorCode.INVALID_UPDATE_VERSION
            assert message.endswith(f"It depends on {FEATURE}=5.")
        assert (await shown(broker))[1][ELIGIBLE] == 1
        both = [
            FeatureUpdateKey(feature=ELIGIBLE, max_version_level=0, upgrade_type=SAFE),
            FeatureUpdateKey(feature=FEATURE, max_version_level=5),
        ]
        assert not (await ask(broker, UpdateFeaturesRequest(feature_updates=both), 2)).error_code
        assert broker.metadata.image.level == 5
        assert ELIGIBLE not in (await shown(broker))[1]

    scenario(tmp_path, body)


def test_nothing_is_changed_when_one_of_several_is_refused(tmp_path):
    async def body(broker):
        code, _ = await update(broker, SAFE, **{ELIGIBLE: 0, METADATA: 29})
        assert code is ErrorCode.INVALID_UPDATE_VERSION
        assert (await shown(broker))[1][ELIGIBLE] == 1

    scenario(tmp_path, body)


async def alter(broker, name, operation, value=None):
    config = altered.AlterableConfig(name="min.insync.replicas", config_operation=operation, value=value)
    one = altered.AlterConfigsResource(resource_type=4, resource_name=name, configs=[config])
    answer = await ask(broker, altered.IncrementalAlterConfigsRequest(resources=[one]))
    return ErrorCode(answer.responses[0].error_code), answer.responses[0].error_message


def test_a_single_broker_has_no_min_insync_replicas_of_its_own_while_they_are_on(tmp_path):
    """The leader would commit without those that the controller takes for eligible."""

    async def body(broker):
        def own():
            return broker.metadata.image.configs.get((ResourceType.BROKER, "1"), {})

        message = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        assert await alter(broker, "1", SET, "2") == (ErrorCode.INVALID_CONFIG, message)
        assert (await alter(broker, "", SET, "2"))[0] is ErrorCode.NONE
        assert broker.controller.rules("a").min_isr == 2
        await update(broker, SAFE, **{ELIGIBLE: 0})
        assert (await alter(broker, "1", SET, "3"))[0] is ErrorCode.NONE
        assert own() == {"min.insync.replicas": "3"}
        await update(broker, UPGRADE, **{ELIGIBLE: 1})
        assert not own()
        assert broker.controller.rules("a").min_isr == 2
        assert await alter(broker, "1", DELETE) == (ErrorCode.INVALID_CONFIG, message)

    scenario(tmp_path, body)


def test_what_an_older_cluster_has_for_a_single_broker_may_be_removed(tmp_path):
    async def body(broker):
        await change(broker, ConfigsChanged(ResourceType.BROKER, "1", {"min.insync.replicas": "3"}))
        assert (await alter(broker, "1", SET, "2"))[0] is ErrorCode.INVALID_CONFIG
        assert (await alter(broker, "1", SET, "3"))[0] is ErrorCode.NONE
        assert (await alter(broker, "1", DELETE))[0] is ErrorCode.NONE
        assert not broker.metadata.image.configs.get((ResourceType.BROKER, "1"))

    scenario(tmp_path, body)


def test_all_brokers_have_one_min_insync_replicas_from_the_first_moment(tmp_path):
    """That of the file of the broker that makes the cluster; a later change of the file has no effect."""

    async def body(broker):
        def of_all():
            return broker.metadata.image.configs.get((ResourceType.BROKER, ""), {})

        message = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        assert of_all() == {"min.insync.replicas": "2"}
        assert await alter(broker, "", DELETE) == (ErrorCode.INVALID_CONFIG, message)
        row = legacy.AlterConfigsResource(
            resource_type=4,
            resource_name="",
            configs=[legacy.AlterableConfig(name="message.max.bytes", value="9999")],
        )
        (answer,) = (await ask(broker, legacy.AlterConfigsRequest(resources=[row]))).responses
        assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_CONFIG, message)
        await update(broker, SAFE, **{ELIGIBLE: 0})
        assert (await alter(broker, "", DELETE))[0] is ErrorCode.NONE
        assert not of_all()
        code, _ = await update(broker, UPGRADE, dry=True, **{ELIGIBLE: 1})
        assert code is ErrorCode.NONE
        assert not of_all()
        await update(broker, UPGRADE, **{ELIGIBLE: 1})
        assert of_all() == {"min.insync.replicas": "2"}
        await alter(broker, "", SET, "3")
        await update(broker, UPGRADE, **{ELIGIBLE: 1})
        assert of_all() == {"min.insync.replicas": "3"}

    async def again(broker):
        assert broker.controller.settings.min_insync_replicas == 3

    scenario(tmp_path, body, min_insync_replicas="2")
    scenario(tmp_path, again, min_insync_replicas="1")


def test_the_level_is_there_after_a_restart(tmp_path):
    async def body(broker):
        assert (await update(broker, SAFE, **{ELIGIBLE: 0}))[0] is ErrorCode.NONE

    async def again(broker):
        assert ELIGIBLE not in (await shown(broker))[1]

    scenario(tmp_path, body)
    scenario(tmp_path, again)
