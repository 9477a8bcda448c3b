"""Heartbeat, versions 0-4: a member is alive; the response may tell it to join again.

    v3  static members
Not here: session expiry (coordinator/group/classic_rebalance.py).
"""

from moldau.core.waiting import Answer
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(HeartbeatRequest)
def heartbeat(
    broker: Broker, context: RequestContext, request: HeartbeatRequest
) -> Answer[HeartbeatResponse]:
    return broker.groups.heartbeat(request, context)
