"""DescribeShareGroupOffsets, versions 0-1: where the share-partitions of groups begin (KIP-932).

    v1  lag: records that are not dealt with yet (KIP-1226)
Topics null: all of the group's. The client must have Describe on each group and topic; where all topics are
asked for, the others are left out.
"""

from typing import Any

from moldau.broker.handlers.apis.share.share_access import is_served
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    RequestGroup,
    ResponseGroup,
    ResponsePartition,
    ResponseTopic,
)
from moldau.common.protocol.operations import Operation, ResourceType

GROUPS_MAX = 1000
PARTITIONS_MAX = 20_000
"""More rows are refused: each may be asked of another broker."""


@handles(DescribeShareGroupOffsetsRequest)
async def describe_share_group_offsets(
    broker: Broker, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    rows = sum(len(topic.partitions) for group in request.groups for topic in group.topics or ())
    if len(request.groups) > GROUPS_MAX or rows > PARTITIONS_MAX:
        refused = [
            _refused(group.group_id, ErrorCode.INVALID_REQUEST) for group in request.groups[:GROUPS_MAX]
        ]
        return DescribeShareGroupOffsetsResponse(groups=refused)
    response = DescribeShareGroupOffsetsResponse()
    for group in request.groups:
        response.groups.append(await _group(broker, context, group))
    return response


async def _group(broker: Broker, context: RequestContext, group: RequestGroup) -> ResponseGroup:
    session, group_id = context.session, group.group_id
    if not is_served(broker):
        return _refused(group_id, ErrorCode.UNSUPPORTED_VERSION)
    if not may(broker, session, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def permitted(topic: Any, *, quiet: bool) -> bool:
        return may(broker, session, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic_name, quiet=quiet)

    administration = broker.groups.share
    if administration is None:
        return _refused(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
    if group.topics is None:
        answered = await administration.describe_offsets(group_id, None)
        answered.topics = [topic for topic in answered.topics if permitted(topic, quiet=True)]
        return answered
    asked = [(topic, permitted(topic, quiet=False)) for topic in group.topics]
    answered = await administration.describe_offsets(group_id, [topic for topic, granted in asked if granted])
    if not answered.error_code:
        answered.topics += [_hidden(topic) for topic, granted in asked if not granted]
    return answered


def _refused(group_id: str, code: ErrorCode) -> ResponseGroup:
    return ResponseGroup(group_id=group_id, error_code=code, error_message=code.message)


def _hidden(topic: Any) -> ResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [
        ResponsePartition(partition_index=index, start_offset=-1, error_code=code, error_message=code.message)
        for index in topic.partitions
    ]
    return ResponseTopic(topic_name=topic.topic_name, partitions=rows)
