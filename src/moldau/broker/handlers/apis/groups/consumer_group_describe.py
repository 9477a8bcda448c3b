"""ConsumerGroupDescribe, versions 0-1: consumer groups (KIP-848) with their members and assignments.

    v0  include_authorized_operations: what the client may do to the group
    v1  member_type: whether a member speaks the classic protocol (coordinator/group/migration/upgrade.py)
The client must have Describe on each group, and on all topics that are assigned in it: else it gets an error
instead of the members. Not here: classic groups (describe_groups.py).
"""

from collections.abc import Callable

from moldau.broker.handlers.apis.groups.consumer_group_heartbeat import serves_consumer_groups
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.pieces import ROWS_AT_ONCE, by_ids
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import authorized_operations, may, one_step, serve_permitted
from moldau.common.core.waiting import Answer, then
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from moldau.common.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from moldau.common.protocol.operations import Operation, ResourceType


@handles(ConsumerGroupDescribeRequest)
def consumer_group_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Answer[ConsumerGroupDescribeResponse]:
    if not serves_consumer_groups(broker):
        code = ErrorCode.UNSUPPORTED_VERSION
        return ConsumerGroupDescribeResponse(
            groups=[
                DescribedConsumerGroup(group_id=group_id, error_code=code, error_message=code.message)
                for group_id in request.group_ids[:ROWS_AT_ONCE]
            ]
        )
    return serve_permitted(
        broker,
        context,
        request,
        Operation.DESCRIBE,
        ResourceType.GROUP,
        str,
        one_step(_refused),
        lambda: _describe(broker, context, request),
        ConsumerGroupDescribeResponse,
        many=len(request.group_ids) > ROWS_AT_ONCE,
        field="group_ids",
        rows="groups",
    )


def _refused(group_id: str) -> DescribedConsumerGroup:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    return DescribedConsumerGroup(group_id=group_id, error_code=code, error_message=code.message)


def _describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Answer[ConsumerGroupDescribeResponse]:
    def told(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                _hide_members(broker, context, group)
            if group.error_code == ErrorCode.NONE and request.include_authorized_operations:
                group.authorized_operations = authorized_operations(
                    broker, context.session, ResourceType.GROUP, group.group_id
                )
        return response

    if len(request.group_ids) > 1:
        return _in_pieces(broker, context, request, told)
    return then(broker.groups.consumer_group_describe(request, context), told)


def _hide_members(broker: Broker, context: RequestContext, group: DescribedConsumerGroup) -> None:
    """An error takes the members' place if one has a topic that the client may not describe."""
    if broker.authorizer is None:
        return
    names = {
        topic.topic_name: None
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if not all(may(broker, context.session, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        group.error_message = "Members of the group have topics that the client may not describe."
        group.members = []


async def _in_pieces(
    broker: Broker,
    context: RequestContext,
    request: ConsumerGroupDescribeRequest,
    told: Callable[[ConsumerGroupDescribeResponse], ConsumerGroupDescribeResponse],
) -> ConsumerGroupDescribeResponse:
    """Several groups, each described once however often it is named."""

    def ask(ids: list[str]) -> Answer[list[DescribedConsumerGroup]]:
        piece = ConsumerGroupDescribeRequest(group_ids=ids)
        return then(
            broker.groups.consumer_group_describe(piece, context), lambda response: told(response).groups
        )

    return ConsumerGroupDescribeResponse(groups=await by_ids(broker.slow_lane, request.group_ids, ask))
