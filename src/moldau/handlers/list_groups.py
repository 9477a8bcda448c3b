"""ListGroups, versions 0-5: the groups that this broker coordinates.

    v4  states, to filter by and in the answer
    v5  types (classic, consumer), to filter by and in the answer
Filters do not mind upper and lower case; a state or type that does not exist matches nothing.
"""

from typing import Any

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.list_groups import ListGroupsRequest


@handles(ListGroupsRequest)
def list_groups(broker: Broker, context: RequestContext, request: ListGroupsRequest) -> Any:
    return broker.groups.list_groups(request, context)
