"""CreatePartitions, versions 0-3: give topics more partitions.

Not here: quotas on mutations (v3), timeout_ms (the response leaves when the partitions exist).
"""

from moldau.controller.partitions import MorePartitions
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


@handles(CreatePartitionsRequest)
async def create_partitions(
    broker: Broker, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    results = await broker.controller.create_partitions(
        [_wanted(topic) for topic in request.topics], validate_only=request.validate_only
    )
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=name, error_code=outcome.error_code, error_message=outcome.message
            )
            for name, outcome in results
        ]
    )


def _wanted(topic: CreatePartitionsTopic) -> MorePartitions:
    assignments = topic.assignments
    return MorePartitions(
        topic.name, topic.count, None if assignments is None else [one.broker_ids for one in assignments]
    )
