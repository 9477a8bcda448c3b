"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources, through their bytes."""

import asyncio
import logging

import pytest
from admin_world import ask, every_version, start

from moldau.broker.controller.topics import NewTopic
from moldau.broker.handlers.apis.configs import (
    alter_configs,  # noqa: F401
    describe_configs,  # noqa: F401
    incremental_alter_configs,  # noqa: F401
    list_config_resources,  # noqa: F401
)
from moldau.broker.metadata.image import ResourceType
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import alter_configs as whole
from moldau.common.protocol.messages import incremental_alter_configs as step
from moldau.common.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.common.protocol.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2


def scenario(tmp_path, body, **texts):
    async def run():
        broker = await start(tmp_path, **texts)
        try:
            await broker.controller.create_topics([NewTopic("a")])
            await body(broker)
        finally:
            await broker.controller.this_broker.close()

    asyncio.run(run())


async def describe(broker, kind, name, keys=None, version=None, **options):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    answer = await ask(broker, DescribeConfigsRequest(resources=[resource], **options), version)
    (result,) = answer.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def change(broker, kind, name, *operations, version=None, validate_only=False):
    configs = [step.AlterableConfig(name=n, config_operation=op, value=value) for n, op, value in operations]
    resource = step.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = step.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (response,) = (await ask(broker, request, version)).responses
    return response


@pytest.mark.parametrize("version", every_version(DescribeConfigsRequest))
def test_describe_a_topic_in_every_version(tmp_path, version):
    async def body(broker):
        await change(broker, TOPIC, "a", ("retention.ms", SET, "7"))
        options = {"include_synonyms": True}
        if version >= 3:
            options["include_documentation"] = True
        result = await describe(broker, TOPIC, "a", ["retention.ms"], version, **options)
        (config,) = result.configs
        assert (config.name, config.value, config.config_source) == ("retention.ms", "7", 1)
        assert [(s.name, s.value, s.source) for s in config.synonyms] == [
            ("retention.ms", "7", 1),
            ("log.retention.hours", "5", 4),
            ("log.retention.hours", "168", 5),
        ]
        if version >= 3:
            assert config.config_type == 5
            assert config.documentation.startswith("How long a record")
        assert len((await describe(broker, TOPIC, "a", None, version)).configs) > 25
        assert len((await describe(broker, TOPIC, "a", [], version)).configs) > 25

    scenario(tmp_path, body, log_retention_hours="5")


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "?", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (METRICS, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described(tmp_path, kind, name, code):
    async def body(broker):
        result = await describe(broker, kind, name)
        assert (result.error_code, result.configs) == (code, [])

    scenario(tmp_path, body)


def test_describe_broker_group_loggers_metrics(tmp_path):
    async def body(broker):
        await change(broker, BROKER, "", ("message.max.bytes", SET, "9999"))
        configs = {config.name: config for config in (await describe(broker, BROKER, "1")).configs}
        assert (configs["message.max.bytes"].value, configs["message.max.bytes"].config_source) == ("9999", 3)
        assert not configs["message.max.bytes"].read_only
        assert configs["num.partitions"].read_only
        assert configs["ssl.key.password"].is_sensitive
        assert configs["ssl.key.password"].value is None
        defaults = (await describe(broker, BROKER, "")).configs
        assert [(config.name, config.value) for config in defaults] == [
            ("min.insync.replicas", "1"),
            ("message.max.bytes", "9999"),
        ]
        group = {config.name: config for config in (await describe(broker, GROUP, "g")).configs}
        assert group["consumer.session.timeout.ms"].value == "45000"
        loggers = {config.name: config for config in (await describe(broker, LOGGER, "1")).configs}
        assert loggers["moldau.controller"].config_source == 6
        assert (await describe(broker, METRICS, "m")).configs == []

    scenario(tmp_path, body, ssl_key_password="secret")


@pytest.mark.parametrize("version", every_version(step.IncrementalAlterConfigsRequest))
def test_incremental_changes_in_every_version(tmp_path, version):
    async def body(broker):
        operations = [("retention.ms", SET, "7"), ("cleanup.policy", APPEND, "compact")]
        response = await change(broker, TOPIC, "a", *operations, version=version, validate_only=True)
        assert response.error_code == 0
        assert (ResourceType.TOPIC, "a") not in broker.metadata.image.configs
        response = await change(broker, TOPIC, "a", *operations, version=version)
        assert (response.error_code, response.error_message) == (0, None)
        key = (ResourceType.TOPIC, "a")
        assert broker.metadata.image.configs[key] == {"retention.ms": "7", "cleanup.policy": "delete,compact"}
        response = await change(broker, TOPIC, "a", ("retention.ms", DELETE, None), version=version)
        assert broker.metadata.image.configs[key] == {"cleanup.policy": "delete,compact"}
        response = await change(broker, TOPIC, "a", ("segment.bytes", SET, "1"), version=version)
        assert response.error_code == ErrorCode.INVALID_CONFIG
        assert response.error_message == (
            "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"
        )

    scenario(tmp_path, body)


@pytest.mark.parametrize("version", every_version(whole.AlterConfigsRequest))
def test_replacing_all_settings_in_every_version(tmp_path, version):
    async def body(broker):
        await change(broker, TOPIC, "a", ("retention.ms", SET, "7"))
        request = whole.AlterConfigsRequest(
            resources=[
                whole.AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name="a",
                    configs=[whole.AlterableConfig(name="segment.ms", value="8")],
                ),
                whole.AlterConfigsResource(resource_type=LOGGER, resource_name="1", configs=[]),
            ]
        )
        answer = await ask(broker, request, version)
        assert [one.error_code for one in answer.responses] == [0, ErrorCode.INVALID_REQUEST]
        assert broker.metadata.image.configs[(ResourceType.TOPIC, "a")] == {"segment.ms": "8"}

    scenario(tmp_path, body)


def test_levels_of_loggers(tmp_path):
    name = "moldau.test.levels"
    logger = logging.getLogger(name)

    async def body(broker):
        assert (await change(broker, LOGGER, "1", (name, SET, "TRACE"))).error_code == 0
        assert logger.level == 5
        loggers = {config.name: config.value for config in (await describe(broker, LOGGER, "1")).configs}
        assert loggers[name] == "TRACE"
        assert (await change(broker, LOGGER, "1", (name, SET, "ERROR"), validate_only=True)).error_code == 0
        assert logger.level == 5
        assert (await change(broker, LOGGER, "1", (name, DELETE, None))).error_code == 0
        assert logger.level == logging.NOTSET
        for operation, code in [
            ((name, SET, "LOUD"), ErrorCode.INVALID_CONFIG),
            (("moldau.nothing.such", SET, "INFO"), ErrorCode.INVALID_CONFIG),
            ((name, APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
            (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        ]:
            assert (await change(broker, LOGGER, "1", operation)).error_code == code
        assert (
            await change(broker, LOGGER, "2", (name, SET, "INFO"))
        ).error_code == ErrorCode.INVALID_REQUEST

    scenario(tmp_path, body)


def test_listing_what_has_settings(tmp_path):
    async def body(broker):
        await change(broker, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
        assert (await ask(broker, ListConfigResourcesRequest(), 0)).config_resources == []
        everything = (await ask(broker, ListConfigResourcesRequest(resource_types=[]))).config_resources
        assert [(one.resource_type, one.resource_name) for one in everything] == [
            (TOPIC, "a"),
            (BROKER, "1"),
            (LOGGER, "1"),
            (GROUP, "g"),
        ]
        some = await ask(broker, ListConfigResourcesRequest(resource_types=[GROUP]))
        assert [one.resource_name for one in some.config_resources] == ["g"]
        bad = await ask(broker, ListConfigResourcesRequest(resource_types=[3]))
        assert bad.error_code == ErrorCode.UNSUPPORTED_VERSION

    scenario(tmp_path, body)
