"""OffsetDelete, version 0: delete committed offsets of topics that a group does not subscribe to now.

The client must have Delete on the group, and Read on each topic.
"""

from collections.abc import Generator
from typing import Any

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.pieces import by_rows, has_many_rows
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may, serve_permitted
from moldau.common.core.waiting import Answer, then
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.common.protocol.operations import Operation, ResourceType


@handles(OffsetDeleteRequest)
def offset_delete(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> Answer[OffsetDeleteResponse]:
    if not may(broker, context.session, Operation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return serve_permitted(
        broker,
        context,
        request,
        Operation.READ,
        ResourceType.TOPIC,
        lambda topic: topic.name,
        _refused,
        lambda: _delete(broker, context, request),
        OffsetDeleteResponse,
        many=has_many_rows(request.topics, "partitions"),
    )


def _refused(topic: Any) -> Generator[None, None, OffsetDeleteResponseTopic]:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = []
    for row in topic.partitions:
        rows.append(OffsetDeleteResponsePartition(partition_index=row.partition_index, error_code=code))
        yield
    return OffsetDeleteResponseTopic(name=topic.name, partitions=rows)


def _delete(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> Answer[OffsetDeleteResponse]:
    if not has_many_rows(request.topics, "partitions"):
        return broker.groups.offset_delete(request, context)
    return _in_pieces(broker, context, request)


async def _in_pieces(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    error_code = 0

    def ask(asked: list[Any]) -> Answer[list[OffsetDeleteResponseTopic]]:
        def topics_of(response: OffsetDeleteResponse) -> list[OffsetDeleteResponseTopic]:
            nonlocal error_code
            error_code = error_code or response.error_code
            return [OffsetDeleteResponseTopic() for _ in asked] if response.error_code else response.topics

        piece = OffsetDeleteRequest(group_id=request.group_id, topics=asked)
        return then(broker.groups.offset_delete(piece, context), topics_of)

    topics = await by_rows(broker.slow_lane, request.topics, "partitions", ask)
    return OffsetDeleteResponse(error_code=error_code, topics=[] if error_code else topics)
