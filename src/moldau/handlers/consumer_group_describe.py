"""ConsumerGroupDescribe, versions 0-1: consumer groups (KIP-848) with their members and assignments.

    v0  include_authorized_operations: all, as long as there is no access control
    v1  member_type: whether a member speaks the classic protocol (none does here)
Not here: classic groups (describe_groups.py).
"""

from typing import Any

from moldau.core.waiting import then
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.describe_groups import GROUP_OPERATIONS
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)


@handles(ConsumerGroupDescribeRequest)
def consumer_group_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Any:
    outcome = broker.groups.consumer_group_describe(request, context)
    return then(outcome, _permit) if request.include_authorized_operations else outcome


def _permit(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
    for group in response.groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
    return response
