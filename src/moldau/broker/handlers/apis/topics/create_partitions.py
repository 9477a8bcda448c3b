"""CreatePartitions, versions 0-3: give topics more partitions.

    v3  a topic beyond the client's quota is refused (KIP-599); older versions wait afterwards

The client must have Alter on each topic. Not here: timeout_ms (the response leaves when the partitions
exist).
"""

from moldau.broker.controller.partitions import MorePartitions
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.mutation_quota import mutation_delay_ms, mutations_of
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import apart
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from moldau.common.protocol.operations import Operation, ResourceType


@handles(CreatePartitionsRequest)
async def create_partitions(
    broker: Broker, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    topics = request.topics
    slices = broker.slow_lane.slices()
    refused: list[CreatePartitionsTopic] = []
    if broker.authorizer is not None:
        steps = apart(
            broker,
            context.session,
            Operation.ALTER,
            ResourceType.TOPIC,
            topics,
            lambda topic: topic.name,
        )
        topics, refused = await slices.run(steps)
    limit = mutations_of(context, strict_from=3)
    results = await broker.controller.create_partitions(
        [_wanted(topic) for topic in topics], validate_only=request.validate_only, limit=limit
    )
    rows = [
        CreatePartitionsTopicResult(name=name, error_code=outcome.error_code, error_message=outcome.message)
        for name, outcome in results
    ]
    told: set[str] = set()
    async for topic in slices.each(refused):
        if topic.name not in told:
            told.add(topic.name)
            rows.append(_refused(topic.name))
    return CreatePartitionsResponse(throttle_time_ms=mutation_delay_ms(limit), results=rows)


def _refused(name: str) -> CreatePartitionsTopicResult:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=code.message)


def _wanted(topic: CreatePartitionsTopic) -> MorePartitions:
    assignments = topic.assignments
    return MorePartitions(
        topic.name, topic.count, None if assignments is None else [one.broker_ids for one in assignments]
    )
