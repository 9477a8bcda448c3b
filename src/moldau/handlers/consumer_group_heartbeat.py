"""ConsumerGroupHeartbeat, versions 0-1: a member of a consumer group (KIP-848) joins, stays alive,
acknowledges its assignment, or leaves.

    v1  regular-expression subscriptions; the client chooses its member id
Not here: the protocol itself (coordinator/group/consumer_service.py).
"""

from moldau.core.waiting import Answer
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

TOPICS_MAX = 10_000
OWNED_MAX = 100_000
"""A heartbeat is handled in one slice of the loop, so its size is bounded."""


@handles(ConsumerGroupHeartbeatRequest)
def consumer_group_heartbeat(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Answer[ConsumerGroupHeartbeatResponse]:
    names = request.subscribed_topic_names
    if names is not None and len(names) > TOPICS_MAX:
        return _refused(f"A member can subscribe to {TOPICS_MAX} topics at most; use a regular expression.")
    owned = request.topic_partitions
    if owned is not None and sum(1 + len(topic.partitions) for topic in owned[: OWNED_MAX + 1]) > OWNED_MAX:
        return _refused(f"A member can own {OWNED_MAX} topics and partitions at most.")
    return broker.groups.consumer_group_heartbeat(request, context)


def _refused(message: str) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message)
