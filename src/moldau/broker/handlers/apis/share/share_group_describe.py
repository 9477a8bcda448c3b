"""ShareGroupDescribe, version 1: share groups (KIP-932) with their members and assignments.

The client must have Describe on each group, and on all topics that are assigned in it: else it gets an error
instead of the members.
"""

from moldau.broker.handlers.apis.share.share_access import is_served
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.pieces import ROWS_AT_ONCE, by_ids
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import authorized_operations, may, one_step, serve_permitted
from moldau.common.core.waiting import Answer, then
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from moldau.common.protocol.operations import Operation, ResourceType


@handles(ShareGroupDescribeRequest)
def share_group_describe(
    broker: Broker, context: RequestContext, request: ShareGroupDescribeRequest
) -> Answer[ShareGroupDescribeResponse]:
    if not is_served(broker):
        rows = [_refused(each, ErrorCode.UNSUPPORTED_VERSION) for each in request.group_ids[:ROWS_AT_ONCE]]
        return ShareGroupDescribeResponse(groups=rows)
    return serve_permitted(
        broker,
        context,
        request,
        Operation.DESCRIBE,
        ResourceType.GROUP,
        str,
        one_step(lambda group_id: _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)),
        lambda: _describe(broker, context, request),
        ShareGroupDescribeResponse,
        many=len(request.group_ids) > ROWS_AT_ONCE,
        field="group_ids",
        rows="groups",
    )


def _refused(group_id: str, code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=code, error_message=code.message)


def _describe(
    broker: Broker, context: RequestContext, request: ShareGroupDescribeRequest
) -> Answer[ShareGroupDescribeResponse]:
    def told(response: ShareGroupDescribeResponse) -> ShareGroupDescribeResponse:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                _hide_members(broker, context, group)
            if group.error_code == ErrorCode.NONE and request.include_authorized_operations:
                group.authorized_operations = authorized_operations(
                    broker, context.session, ResourceType.GROUP, group.group_id
                )
        return response

    def ask(ids: list[str]) -> Answer[list[DescribedGroup]]:
        piece = ShareGroupDescribeRequest(group_ids=ids)
        return then(
            broker.groups.share_group_describe(piece, context), lambda response: told(response).groups
        )

    async def in_pieces() -> ShareGroupDescribeResponse:
        return ShareGroupDescribeResponse(groups=await by_ids(broker.slow_lane, request.group_ids, ask))

    if len(request.group_ids) > 1:
        return in_pieces()
    return then(broker.groups.share_group_describe(request, context), told)


def _hide_members(broker: Broker, context: RequestContext, group: DescribedGroup) -> None:
    """An error takes the members' place if one has a topic that the client may not describe."""
    if broker.authorizer is None:
        return
    names = {row.topic_name: None for member in group.members for row in member.assignment.topic_partitions}
    if not all(may(broker, context.session, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        group.error_message = "Members of the group have topics that the client may not describe."
        group.members = []
