"""DescribeGroups, versions 0-6: classic groups with their members; consumer groups (KIP-848) have an API of
their own.

    v3  include_authorized_operations: all, as long as there is no access control
    v4  static members
    v6  a group that does not exist is an error, with a message; before, it is "Dead"
"""

from typing import Any

from moldau.core.waiting import then
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""read, delete, describe, describe configs, alter configs."""


@handles(DescribeGroupsRequest)
def describe_groups(broker: Broker, context: RequestContext, request: DescribeGroupsRequest) -> Any:
    outcome = broker.groups.describe_groups(request, context)
    return then(outcome, _permit) if request.include_authorized_operations else outcome


def _permit(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
    for group in response.groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
    return response
