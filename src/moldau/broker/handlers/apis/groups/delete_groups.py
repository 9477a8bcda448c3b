"""DeleteGroups, versions 0-2: delete groups that have no members, with their offsets. The client must have
Delete on each.
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.pieces import ROWS_AT_ONCE, by_ids
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import one_step, serve_permitted
from moldau.common.core.waiting import Answer, then
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from moldau.common.protocol.operations import Operation, ResourceType


@handles(DeleteGroupsRequest)
def delete_groups(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> Answer[DeleteGroupsResponse]:
    return serve_permitted(
        broker,
        context,
        request,
        Operation.DELETE,
        ResourceType.GROUP,
        str,
        one_step(_refused),
        lambda: _delete(broker, context, request),
        DeleteGroupsResponse,
        many=len(request.groups_names) > ROWS_AT_ONCE,
        field="groups_names",
        rows="results",
    )


def _refused(group_id: str) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _delete(
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
