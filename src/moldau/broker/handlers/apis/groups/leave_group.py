"""LeaveGroup, versions 0-5: members leave a group, or an administrator removes them.

    v3  several members at once, static ones also without their member id
    v5  reason
Up to version 2 there is one member, and its error is the response's. The client must have Read on the group.
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.pieces import ROWS_AT_ONCE
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may
from moldau.common.core.waiting import Answer, settled, then
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from moldau.common.protocol.operations import Operation, ResourceType

SEVERAL_MEMBERS_SINCE = 3


@handles(LeaveGroupRequest)
def leave_group(
    broker: Broker, context: RequestContext, request: LeaveGroupRequest
) -> Answer[LeaveGroupResponse]:
    if not may(broker, context.session, Operation.READ, ResourceType.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if len(request.members) > ROWS_AT_ONCE:
        return _in_pieces(broker, context, request)
    if context.api_version >= SEVERAL_MEMBERS_SINCE:
        return broker.groups.leave_group(request, context)
    several = LeaveGroupRequest(
        group_id=request.group_id, members=[MemberIdentity(member_id=request.member_id)]
    )
    return then(broker.groups.leave_group(several, context), _single)


async def _in_pieces(
    broker: Broker, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse:
    """Many members leave some at a time."""
    slices = broker.slow_lane.slices()
    together = LeaveGroupResponse()
    for start in range(0, len(request.members), ROWS_AT_ONCE):
        piece = LeaveGroupRequest(
            group_id=request.group_id, members=request.members[start : start + ROWS_AT_ONCE]
        )
        response = await settled(broker.groups.leave_group(piece, context))
        if response.error_code:
            return LeaveGroupResponse(error_code=response.error_code)
        together.members += response.members
        if slices.spent():
            await slices.next_slice()
    return together


def _single(response: LeaveGroupResponse) -> LeaveGroupResponse:
    errors = [response.error_code, *(member.error_code for member in response.members)]
    return LeaveGroupResponse(error_code=next((code for code in errors if code), 0))
