"""JoinGroup, versions 0-9: a member enters a classic group, or its next generation; answered when all
members have joined.

    v1  rebalance_timeout_ms                v7  protocol_type in the answer
    v4  a first join gets a member id       v8  reason
    v5  static members                      v9  skip_assignment in the answer
The client must have Read on the group. Not here: rebalances (coordinator/group/classic/rebalance.py).
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import group_client, may
from moldau.common.core.waiting import Answer, then
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.common.protocol.operations import Operation, ResourceType

NULL_PROTOCOL_SINCE = 7
PROTOCOLS_MAX = 1000
"""Each is compared with those of all members. Clients name a few."""


@handles(JoinGroupRequest)
def join_group(
    broker: Broker, context: RequestContext, request: JoinGroupRequest
) -> Answer[JoinGroupResponse]:
    outcome: Answer[JoinGroupResponse]
    if not may(broker, context.session, Operation.READ, ResourceType.GROUP, request.group_id):
        outcome = JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif len(request.protocols) > PROTOCOLS_MAX:
        outcome = JoinGroupResponse(
            error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=request.member_id
        )
    else:
        outcome = broker.groups.join_group(request, group_client(broker, context))
    return then(outcome, _without_protocol) if context.api_version >= NULL_PROTOCOL_SINCE else outcome


def _without_protocol(response: JoinGroupResponse) -> JoinGroupResponse:
    """Where there is no protocol (an error), newer versions have null; older ones the empty string."""
    response.protocol_name = response.protocol_name or None
    return response
