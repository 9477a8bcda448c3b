"""DescribeGroups, versions 0-6: classic groups with their members; for consumer groups (KIP-848) see
consumer_group_describe.py.

    v3  include_authorized_operations: what the client may do to the group
    v4  static members
    v6  a group that does not exist is an error, with a message; before, it is "Dead"
The client must have Describe on each group.
"""

from collections.abc import Callable

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.pieces import ROWS_AT_ONCE, by_ids
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import authorized_operations, one_step, serve_permitted
from moldau.common.core.waiting import Answer, then
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from moldau.common.protocol.operations import Operation, ResourceType


@handles(DescribeGroupsRequest)
def describe_groups(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> Answer[DescribeGroupsResponse]:
    return serve_permitted(
        broker,
        context,
        request,
        Operation.DESCRIBE,
        ResourceType.GROUP,
        str,
        one_step(_refused),
        lambda: _describe(broker, context, request),
        DescribeGroupsResponse,
        many=len(request.groups) > ROWS_AT_ONCE,
        field="groups",
        rows="groups",
    )


def _refused(group_id: str) -> DescribedGroup:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    return DescribedGroup(group_id=group_id, error_code=code)


def _describe(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> Answer[DescribeGroupsResponse]:
    def told(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            for group in response.groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = authorized_operations(
                        broker, context.session, ResourceType.GROUP, group.group_id
                    )
        return response

    if len(request.groups) > 1:
        return _in_pieces(broker, context, request, told)
    return then(broker.groups.describe_groups(request, context), told)


async def _in_pieces(
    broker: Broker,
    context: RequestContext,
    request: DescribeGroupsRequest,
    told: Callable[[DescribeGroupsResponse], DescribeGroupsResponse],
) -> DescribeGroupsResponse:
    """Several groups, each described once however often it is named."""

    def ask(ids: list[str]) -> Answer[list[DescribedGroup]]:
        piece = DescribeGroupsRequest(groups=ids)
        return then(broker.groups.describe_groups(piece, context), lambda response: told(response).groups)

    return DescribeGroupsResponse(groups=await by_ids(broker.slow_lane, request.groups, ask))
