"""DescribeGroups, versions 0-6: classic groups with their members; for consumer groups (KIP-848) see
consumer_group_describe.py.

    v3  include_authorized_operations: all, as long as there is no access control
    v4  static members
    v6  a group that does not exist is an error, with a message; before, it is "Dead"
"""

from collections.abc import Callable

from moldau.core.waiting import Answer, then
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.pieces import by_ids
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""read, delete, describe, describe configs, alter configs."""


@handles(DescribeGroupsRequest)
def describe_groups(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> Answer[DescribeGroupsResponse]:
    permit = _permit if request.include_authorized_operations else _as_it_is
    if len(request.groups) > 1:
        return _in_pieces(broker, context, request, permit)
    return then(broker.groups.describe_groups(request, context), permit)


async def _in_pieces(
    broker: Broker,
    context: RequestContext,
    request: DescribeGroupsRequest,
    permit: Callable[[DescribeGroupsResponse], DescribeGroupsResponse],
) -> DescribeGroupsResponse:
    """Several groups, each described once however often it is named."""

    def ask(ids: list[str]) -> Answer[list[DescribedGroup]]:
        piece = DescribeGroupsRequest(groups=ids)
        return then(broker.groups.describe_groups(piece, context), lambda response: permit(response).groups)

    return DescribeGroupsResponse(groups=await by_ids(broker.slow_lane, request.groups, ask))


def _as_it_is(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
    return response


def _permit(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
    for group in response.groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
    return response
