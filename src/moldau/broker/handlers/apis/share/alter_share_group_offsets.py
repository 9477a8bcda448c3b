"""AlterShareGroupOffsets, version 0: move the start of an empty share group (KIP-932).

The client must have Read on the group and on each topic.
"""

from moldau.broker.handlers.apis.share.share_access import is_served
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    RequestTopic,
    ResponsePartition,
    ResponseTopic,
)
from moldau.common.protocol.operations import Operation, ResourceType

PARTITIONS_MAX = 20_000


@handles(AlterShareGroupOffsetsRequest)
async def alter_share_group_offsets(
    broker: Broker, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    session = context.session
    if not is_served(broker):
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    if not may(broker, session, Operation.READ, ResourceType.GROUP, request.group_id):
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if sum(1 + len(topic.partitions) for topic in request.topics) > PARTITIONS_MAX:
        return _refused(ErrorCode.INVALID_REQUEST)
    administration = broker.groups.share
    if administration is None:
        return _refused(ErrorCode.GROUP_ID_NOT_FOUND)
    asked = [
        (topic, may(broker, session, Operation.READ, ResourceType.TOPIC, topic.topic_name))
        for topic in request.topics
    ]
    request.topics = [topic for topic, granted in asked if granted]
    response = AlterShareGroupOffsetsResponse()
    if request.topics or not asked:
        response = await administration.alter_offsets(request)
    if not response.error_code:
        response.responses += [_hidden(topic) for topic, granted in asked if not granted]
    return response


def _refused(code: ErrorCode) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=code.message)


def _hidden(topic: RequestTopic) -> ResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [
        ResponsePartition(partition_index=row.partition_index, error_code=code, error_message=code.message)
        for row in topic.partitions
    ]
    return ResponseTopic(topic_name=topic.topic_name, partitions=rows)
