"""DescribeConfigs, versions 1-4: settings with their sources, for topics, brokers, groups and the broker's
loggers.

    v3  types and documentation

A resource that is named twice is answered once. At most RESOURCES_MAX are described in one response, because
a name of a few bytes leads to kilobytes of settings. The client must have DescribeConfigs on the resource
(config_rights.py); it does not learn whether another one exists. Not here: client-metrics subscriptions
(KIP-714), which do not exist in this broker and are described as empty.
"""

from collections.abc import Generator

from moldau.broker.controller.decision import Outcome, Refusal
from moldau.broker.controller.names import check_name
from moldau.broker.handlers.apis.configs import logger_levels
from moldau.broker.handlers.apis.configs.config_rights import config_refusal
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.metadata.describe import (
    Entry,
    Source,
    describe_broker,
    describe_broker_defaults,
    describe_group,
    describe_topic,
)
from moldau.broker.metadata.image import ResourceType
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from moldau.common.protocol.operations import Operation

Configs = list[DescribeConfigsResourceResult]

RESOURCES_MAX = 10_000
_TOO_MANY = Outcome(
    ErrorCode.POLICY_VIOLATION,
    f"One request is told about {RESOURCES_MAX} resources at most; ask again for the rest.",
)


@handles(DescribeConfigsRequest)
def describe_configs(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest
) -> Generator[None, None, DescribeConfigsResponse]:
    told = _Told(request)
    answer = DescribeConfigsResponse()
    seen: set[tuple[int, str]] = set()
    for one in request.resources:
        yield
        resource = (one.resource_type, one.resource_name)
        if resource not in seen:
            seen.add(resource)
            refused = (
                _TOO_MANY
                if len(seen) > RESOURCES_MAX
                else config_refusal(broker, context.session, Operation.DESCRIBE_CONFIGS, *resource)
            )
            answer.results.append(_describe(broker, told, one, refused))
    return answer


class _Told:
    """Entries as this answer tells them. Resources that share a list of entries share what is made of it:
    console programs ask for all topics at once, and most topics have the same settings.
    """

    def __init__(self, request: DescribeConfigsRequest) -> None:
        self._synonyms = request.include_synonyms
        self._documentation = request.include_documentation
        self._known: dict[int, tuple[list[Entry], Configs]] = {}

    def of(self, entries: list[Entry]) -> Configs:
        """The entries, told. (They are kept, so that the identity which names them stays theirs.)"""
        known = self._known.get(id(entries))
        if known is None:
            known = self._known[id(entries)] = (entries, [self._one(entry) for entry in entries])
        return known[1]

    def _one(self, entry: Entry) -> DescribeConfigsResourceResult:
        synonyms = entry.synonyms if self._synonyms else ()
        return DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
            synonyms=[DescribeConfigsSynonym(name=n, value=v, source=source) for n, v, source in synonyms],
            config_type=entry.kind,
            documentation=entry.documentation if self._documentation else None,
        )


def _describe(
    broker: Broker, told: _Told, resource: DescribeConfigsResource, refused: Outcome | None
) -> DescribeConfigsResult:
    outcome, configs = refused or Outcome(), Configs()
    try:
        if refused is None:
            configs = _configs(broker, told, resource)
    except Refusal as refusal:
        outcome = refusal.outcome
    if resource.configuration_keys:
        wanted = set(resource.configuration_keys)
        configs = [config for config in configs if config.name in wanted]
    return DescribeConfigsResult(
        error_code=outcome.error_code,
        error_message=outcome.message or "",  # never null in Kafka
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def _configs(broker: Broker, told: _Told, resource: DescribeConfigsResource) -> Configs:
    name = resource.resource_name
    image, static = broker.metadata.image, broker.controller.static_settings
    entries: list[Entry]
    if resource.resource_type == ResourceType.TOPIC:
        check_name(name)
        if name not in image.topics:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        entries = describe_topic(image, static, broker.node_id, name)
    elif resource.resource_type == ResourceType.BROKER:
        if name:
            _check_node_id(broker, name)
            entries = describe_broker(image, static, broker.node_id)
        else:
            entries = describe_broker_defaults(image)
    elif resource.resource_type == ResourceType.BROKER_LOGGER:
        if not name:
            raise _bad_request("Broker id must not be empty")
        _check_node_id(broker, name)
        return _loggers()
    elif resource.resource_type == ResourceType.GROUP:
        if not name:
            raise _bad_request("Group name must not be empty")
        entries = describe_group(image, static, broker.node_id, name)
    elif resource.resource_type == ResourceType.CLIENT_METRICS:
        if not name:
            raise _bad_request("Client metrics subscription name must not be empty")
        entries = []
    else:
        raise _bad_request(f"Unsupported resource type: {resource.resource_type}")
    return told.of(entries)


def _loggers() -> Configs:
    return [
        DescribeConfigsResourceResult(
            name=name, value=level, config_source=Source.BROKER_LOGGER, synonyms=[], documentation=None
        )
        for name, level in logger_levels.levels().items()
    ]


def _check_node_id(broker: Broker, name: str) -> None:
    if not name.isdecimal():
        raise _bad_request(f"Broker id must be an integer, but it is: {name}")
    if int(name) != broker.node_id:
        raise _bad_request(
            f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}"
        )


def _bad_request(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
