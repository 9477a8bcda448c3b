"""DeleteTopics, versions 1-6: delete topics, by name or (v6) by id.

    v5  error messages; a topic beyond the client's quota is refused (KIP-599)        v6  topics by id

The client must have Delete on the cluster, or on each topic. Of a topic that it may not describe it does not
learn whether it exists, nor the name of an id.
"""

from collections import Counter

from moldau.core.ids import ZERO_UUID
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.mutation_quota import mutation_delay_ms, mutations_of
from moldau.handlers.registry import handles
from moldau.handlers.rights import may, may_on_cluster
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from moldau.protocol.operations import Operation, ResourceType


@handles(DeleteTopicsRequest)
async def delete_topics(
    broker: Broker, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    asked: list[tuple[str | None, bytes]]
    if context.api_version >= 6:
        asked = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        asked = [(name, ZERO_UUID) for name in request.topic_names]
    limit = mutations_of(context, strict_from=5)
    responses = []
    if not may_on_cluster(broker, context.session, Operation.DELETE, quiet=True):
        permitted = []
        counts = Counter(asked)
        slices = broker.slow_lane.slices()
        async for name, topic_id in slices.each(counts):
            refused = _refusal(broker, context, name, topic_id)
            if refused is None:
                permitted += [(name, topic_id)] * counts[name, topic_id]
            else:
                responses.append(refused)
        asked = permitted

    def may_delete(name: str) -> bool:
        session = context.session
        return may_on_cluster(broker, session, Operation.DELETE, quiet=True) or may(
            broker, session, Operation.DELETE, ResourceType.TOPIC, name
        )

    for deleted in await broker.controller.delete_topics(asked, limit, may_delete):
        error_code, message = deleted.outcome
        if error_code is ErrorCode.TOPIC_DELETION_DISABLED and context.api_version < 3:
            error_code = ErrorCode.INVALID_REQUEST
        responses.append(
            DeletableTopicResult(
                name=deleted.name, topic_id=deleted.topic_id, error_code=error_code, error_message=message
            )
        )
    return DeleteTopicsResponse(throttle_time_ms=mutation_delay_ms(limit), responses=responses)


def _refusal(
    broker: Broker, context: RequestContext, name: str | None, topic_id: bytes
) -> DeletableTopicResult | None:
    """The row of a topic that the client may not delete; None if it may, or if no topic has the id."""
    image = broker.metadata.image
    found = image.topic_names.get(topic_id) if name is None else name
    session, kind = context.session, ResourceType.TOPIC
    if found is None or may(broker, session, Operation.DELETE, kind, found):
        return None
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    may_describe = may(broker, session, Operation.DESCRIBE, kind, found, quiet=True)
    if name is not None and may_describe and name not in image.topics:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    told = name or (found if may_describe else None)
    return DeletableTopicResult(name=told, topic_id=topic_id, error_code=code, error_message=code.message)
