"""DescribeGroups, versions 0-6: classic groups with their members; consumer groups (KIP-848) have an API of
their own.

v3  include_authorized_operations (left unknown until there is access control)
v4  static members
v6  a group that does not exist is an error, with a message; before, it is "Dead"
"""

from typing import Any

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest


@handles(DescribeGroupsRequest)
def describe_groups(broker: Broker, context: RequestContext, request: DescribeGroupsRequest) -> Any:
    return broker.groups.describe_groups(request, context)
