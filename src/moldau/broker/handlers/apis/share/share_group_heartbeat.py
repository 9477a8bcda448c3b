"""ShareGroupHeartbeat, version 1: a member of a share group (KIP-932) joins, stays alive, or leaves.

The client must have Read on the group, and Describe on each topic that it names, as in Kafka. Not here: the
protocol itself (coordinator/group/share/service.py).
"""

from moldau.broker.handlers.apis.share.share_access import MEMBER_ID_MAX, is_served
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import ASKED_AT_ONCE, apart, group_client, may
from moldau.common.core.slow_lane import all_steps
from moldau.common.core.waiting import Answer
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from moldau.common.protocol.operations import Operation, ResourceType

TOPICS_MAX = 10_000
"""A heartbeat is handled in one slice of the loop, so its size is bounded."""


@handles(ShareGroupHeartbeatRequest)
def share_group_heartbeat(
    broker: Broker, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> Answer[ShareGroupHeartbeatResponse]:
    if not is_served(broker):
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    if not may(broker, context.session, Operation.READ, ResourceType.GROUP, request.group_id):
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = request.subscribed_topic_names
    if names is not None and len(names) > TOPICS_MAX:
        message = f"A member can subscribe to {TOPICS_MAX} topics at most."
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message)
    if len(request.member_id) > MEMBER_ID_MAX:
        return _refused(ErrorCode.INVALID_REQUEST)
    if not names or broker.authorizer is None:
        return broker.groups.share_group_heartbeat(request, group_client(broker, context))
    return _permitted(broker, context, request, names)


async def _permitted(
    broker: Broker, context: RequestContext, request: ShareGroupHeartbeatRequest, names: list[str]
) -> ShareGroupHeartbeatResponse:
    steps = apart(broker, context.session, Operation.DESCRIBE, ResourceType.TOPIC, names, str)
    if len(names) <= ASKED_AT_ONCE:
        _, hidden = all_steps(steps)
    else:
        _, hidden = await broker.slow_lane.slices().run(steps)
    if hidden:
        return _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return await broker.groups.share_group_heartbeat(request, group_client(broker, context))


def _refused(code: ErrorCode) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code, error_message=code.message)
