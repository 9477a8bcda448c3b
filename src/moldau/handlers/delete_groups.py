"""DeleteGroups, versions 0-2: delete groups that have no members, with their offsets."""

from moldau.core.waiting import Answer, then
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.pieces import by_ids
from moldau.handlers.registry import handles
from moldau.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@handles(DeleteGroupsRequest)
def delete_groups(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> Answer[DeleteGroupsResponse]:
    if len(request.groups_names) == 1:
        return broker.groups.delete_groups(request, context)
    return _in_pieces(broker, context, request)


async def _in_pieces(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    def ask(ids: list[str]) -> Answer[list[DeletableGroupResult]]:
        piece = DeleteGroupsRequest(groups_names=ids)
        return then(broker.groups.delete_groups(piece, context), lambda response: response.results)

    return DeleteGroupsResponse(results=await by_ids(broker.slow_lane, request.groups_names, ask))
