"""Heartbeat, versions 0-4: a member is alive; the response may tell it to join again.

    v3  static members
The client must have Read on the group. Not here: session expiry (coordinator/group/classic/rebalance.py).
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may
from moldau.common.core.waiting import Answer
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.common.protocol.operations import Operation, ResourceType


@handles(HeartbeatRequest)
def heartbeat(
    broker: Broker, context: RequestContext, request: HeartbeatRequest
) -> Answer[HeartbeatResponse]:
    if not may(broker, context.session, Operation.READ, ResourceType.GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return broker.groups.heartbeat(request, context)
