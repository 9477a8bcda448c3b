"""CreateTopics, versions 2-7: create topics, each with its own result.

    v4  -1 stands for the broker's default counts
    v5  counts and settings in the response        v7  the topic id
    v6  a topic beyond the client's quota is refused (KIP-599); older versions wait afterwards

The client must have Create on the cluster, or on each topic. Without DescribeConfigs on the topic, counts and
settings are left out. Not here: timeout_ms (the response leaves when the topics exist).
"""

from collections.abc import Mapping

from moldau.broker.controller.topics import NewTopic, TopicResult
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.mutation_quota import mutation_delay_ms, mutations_of
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import apart, may, may_on_cluster
from moldau.broker.metadata.describe import describe_topic_configs
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.common.protocol.operations import Operation, ResourceType


@handles(CreateTopicsRequest)
async def create_topics(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    topics, session = request.topics, context.session
    slices = broker.slow_lane.slices()
    refused: list[CreatableTopic] = []
    if not may_on_cluster(broker, session, Operation.CREATE, quiet=True):
        steps = apart(broker, session, Operation.CREATE, ResourceType.TOPIC, topics, lambda topic: topic.name)
        topics, refused = await slices.run(steps)
    results = []
    limit = mutations_of(context, strict_from=6)
    if topics or not refused:
        results = await broker.controller.create_topics(
            [_wanted(topic) for topic in topics], validate_only=request.validate_only, limit=limit
        )
    described = _Configs(broker) if context.api_version >= 5 else None
    answer = CreateTopicsResponse(
        throttle_time_ms=mutation_delay_ms(limit),
        topics=[_answer_row(result, described) for result in results],
    )
    if described is not None and broker.authorizer is not None:
        async for row in slices.each(answer.topics):
            _hide_configs(broker, context, row)
    told: set[str] = set()
    async for topic in slices.each(refused):
        if topic.name not in told:
            told.add(topic.name)
            answer.topics.append(_refused(topic.name))
    return answer


def _refused(name: str) -> CreatableTopicResult:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return CreatableTopicResult(name=name, error_code=code, error_message=code.message, configs=[])


def _hide_configs(broker: Broker, context: RequestContext, row: CreatableTopicResult) -> None:
    describe = Operation.DESCRIBE_CONFIGS
    if not row.error_code and not may(
        broker, context.session, describe, ResourceType.TOPIC, row.name, quiet=True
    ):
        row.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        row.num_partitions = row.replication_factor = -1
        row.configs = []


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        {config.name: config.value for config in topic.configs},
    )


class _Configs:
    """Describes settings of new topics; topics with equal ones share the description."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._known: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}

    def of(self, own: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """The settings of a topic that has these of its own."""
        key = frozenset(own.items())
        if key not in self._known:
            image, static = self._broker.metadata.image, self._broker.controller.static_settings
            self._known[key] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.sensitive,
                )
                for entry in describe_topic_configs(image, static, self._broker.node_id, own)
            ]
        return self._known[key]


def _answer_row(result: TopicResult, described: _Configs | None) -> CreatableTopicResult:
    if result.outcome.failed:
        return CreatableTopicResult(
            name=result.name,
            error_code=result.outcome.error_code,
            error_message=result.outcome.message,
            configs=[],
        )
    return CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_message=None,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=[] if described is None else described.of(result.configs),
    )
