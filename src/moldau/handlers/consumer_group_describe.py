"""ConsumerGroupDescribe, versions 0-1: consumer groups (KIP-848) with their members and assignments.

    v0  include_authorized_operations: all, as long as there is no access control
    v1  member_type: whether a member speaks the classic protocol (coordinator/group/upgrade.py)
Not here: classic groups (describe_groups.py).
"""

from collections.abc import Callable

from moldau.core.waiting import Answer, then
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.describe_groups import GROUP_OPERATIONS
from moldau.handlers.pieces import by_ids
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from moldau.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)


@handles(ConsumerGroupDescribeRequest)
def consumer_group_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Answer[ConsumerGroupDescribeResponse]:
    permit = _permit if request.include_authorized_operations else _as_it_is
    if len(request.group_ids) > 1:
        return _in_pieces(broker, context, request, permit)
    return then(broker.groups.consumer_group_describe(request, context), permit)


async def _in_pieces(
    broker: Broker,
    context: RequestContext,
    request: ConsumerGroupDescribeRequest,
    permit: Callable[[ConsumerGroupDescribeResponse], ConsumerGroupDescribeResponse],
) -> ConsumerGroupDescribeResponse:
    """Several groups, each described once however often it is named."""

    def ask(ids: list[str]) -> Answer[list[DescribedConsumerGroup]]:
        piece = ConsumerGroupDescribeRequest(group_ids=ids)
        return then(
            broker.groups.consumer_group_describe(piece, context), lambda response: permit(response).groups
        )

    return ConsumerGroupDescribeResponse(groups=await by_ids(broker.slow_lane, request.group_ids, ask))


def _as_it_is(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
    return response


def _permit(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
    for group in response.groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
    return response
