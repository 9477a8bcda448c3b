"""DeleteTopics, versions 1-6: delete topics, by name or (v6) by id.

    v5  error messages        v6  topics by id

Not here: quotas on mutations (v5).
"""

from moldau.core.ids import ZERO_UUID
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


@handles(DeleteTopicsRequest)
async def delete_topics(
    broker: Broker, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    asked: list[tuple[str | None, bytes]]
    if context.api_version >= 6:
        asked = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        asked = [(name, ZERO_UUID) for name in request.topic_names]
    responses = []
    for deleted in await broker.controller.delete_topics(asked):
        error_code, message = deleted.outcome
        if error_code is ErrorCode.TOPIC_DELETION_DISABLED and context.api_version < 3:
            error_code = ErrorCode.INVALID_REQUEST
        responses.append(
            DeletableTopicResult(
                name=deleted.name, topic_id=deleted.topic_id, error_code=error_code, error_message=message
            )
        )
    return DeleteTopicsResponse(responses=responses)
