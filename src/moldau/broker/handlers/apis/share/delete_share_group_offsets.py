"""DeleteShareGroupOffsets, version 0: forget topics of an empty share group (KIP-932).

The client must have Delete on the group, and Read on each topic.
"""

from moldau.broker.handlers.apis.share.share_access import is_served
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    ResponseTopic,
)
from moldau.common.protocol.operations import Operation, ResourceType

TOPICS_MAX = 10_000


@handles(DeleteShareGroupOffsetsRequest)
async def delete_share_group_offsets(
    broker: Broker, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    session = context.session
    if not is_served(broker):
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    if not may(broker, session, Operation.DELETE, ResourceType.GROUP, request.group_id):
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if len(request.topics) > TOPICS_MAX:
        return _refused(ErrorCode.INVALID_REQUEST)
    administration = broker.groups.share
    if administration is None:
        return _refused(ErrorCode.GROUP_ID_NOT_FOUND)
    asked = [
        (topic, may(broker, session, Operation.READ, ResourceType.TOPIC, topic.topic_name))
        for topic in request.topics
    ]
    request.topics = [topic for topic, granted in asked if granted]
    response = DeleteShareGroupOffsetsResponse()
    if request.topics or not asked:
        response = await administration.delete_offsets(request)
    if not response.error_code:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        response.responses += [
            ResponseTopic(topic_name=topic.topic_name, error_code=code, error_message=code.message)
            for topic, granted in asked
            if not granted
        ]
    return response


def _refused(code: ErrorCode) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=code, error_message=code.message)
