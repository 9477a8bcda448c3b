"""ConsumerGroupDescribe, versions 0-1: consumer groups (KIP-848) with their members and assignments.

    v1  member_type: whether a member speaks the classic protocol (none does here)
Not here: classic groups (describe_groups.py); authorised operations, which come with access control.
"""

from typing import Any

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest


@handles(ConsumerGroupDescribeRequest)
def consumer_group_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Any:
    return broker.groups.consumer_group_describe(request, context)
