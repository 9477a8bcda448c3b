"""DeleteGroups, versions 0-2: delete groups that have no members, with their offsets."""

from typing import Any

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest


@handles(DeleteGroupsRequest)
def delete_groups(broker: Broker, context: RequestContext, request: DeleteGroupsRequest) -> Any:
    return broker.groups.delete_groups(request, context)
