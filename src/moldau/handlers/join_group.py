"""JoinGroup, versions 0-9: a member enters a classic group, or its next generation; answered when all have
joined.

    v1  rebalance_timeout_ms                v7  protocol_type in the answer
    v4  a first join gets a member id       v8  reason
    v5  static members                      v9  skip_assignment in the answer
Not here: the group's course (coordinator/group/classic_rebalance.py).
"""

from typing import Any

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.join_group import JoinGroupRequest


@handles(JoinGroupRequest)
def join_group(broker: Broker, context: RequestContext, request: JoinGroupRequest) -> Any:
    return broker.groups.join_group(request, context)
