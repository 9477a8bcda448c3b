"""ConsumerGroupHeartbeat, versions 0-1: a member of a consumer group (KIP-848) joins, lives, confirms or
leaves.

    v1  regular-expression subscriptions; the client makes up its member id
Not here: the protocol itself (coordinator/group/consumer_service.py).
"""

from typing import Any

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


@handles(ConsumerGroupHeartbeatRequest)
def consumer_group_heartbeat(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Any:
    return broker.groups.consumer_group_heartbeat(request, context)
