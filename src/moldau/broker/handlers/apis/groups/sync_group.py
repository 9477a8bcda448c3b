"""SyncGroup, versions 0-5: a member gets its assignment; the group's leader sends those of all.

    v3  static members
    v5  protocol type and name, checked in the request, returned in the response
The client must have Read on the group. Not here: rebalances (coordinator/group/classic/rebalance.py).
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may
from moldau.common.core.waiting import Answer
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from moldau.common.protocol.operations import Operation, ResourceType

ASSIGNMENTS_MAX = 20_000
"""One a member; they are stored in one slice of the loop."""


@handles(SyncGroupRequest)
def sync_group(
    broker: Broker, context: RequestContext, request: SyncGroupRequest
) -> Answer[SyncGroupResponse]:
    if not may(broker, context.session, Operation.READ, ResourceType.GROUP, request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if len(request.assignments) > ASSIGNMENTS_MAX:
        return SyncGroupResponse(error_code=ErrorCode.INVALID_REQUEST)
    return broker.groups.sync_group(request, context)
