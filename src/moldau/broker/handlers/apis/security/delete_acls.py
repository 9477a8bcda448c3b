"""DeleteAcls, versions 1-3: delete the ACLs that filters match. SECURITY_DISABLED for each without an
authorizer.

    v2  flexible      v3  user resources (KIP-373)

Not here: which ACLs a filter matches (common/protocol/acls.py).
"""

from collections.abc import Awaitable

from moldau.broker.controller.decision import Outcome
from moldau.broker.handlers.apis.security.create_acls import acl_change_refusal
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.common.protocol.acls import Acl
from moldau.common.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


@handles(DeleteAclsRequest)
def delete_acls(
    broker: Broker, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse | Awaitable[DeleteAclsResponse]:
    count = len(request.filters)
    refusal = acl_change_refusal(broker, context.session, count)
    return _delete(broker, request) if refusal is None else _for_all(count, refusal)


def _for_all(count: int, outcome: Outcome) -> DeleteAclsResponse:
    """One row, many times."""
    return DeleteAclsResponse(filter_results=[_row(outcome)] * count)


async def _delete(broker: Broker, request: DeleteAclsRequest) -> DeleteAclsResponse:
    from moldau.common.protocol.acls import AclFilter

    slices = broker.slow_lane.slices()
    filters = []
    async for each in slices.each(request.filters):
        filters.append(
            AclFilter(
                each.resource_type_filter,
                each.resource_name_filter,
                each.pattern_type_filter,
                each.principal_filter,
                each.host_filter,
                each.operation,
                each.permission_type,
            )
        )
    answer = DeleteAclsResponse(filter_results=[])
    async for outcome, acls in slices.each(await broker.controller.delete_acls(filters)):
        row = _row(outcome)
        async for acl in slices.each(acls):
            row.matching_acls.append(_deleted(acl))
        answer.filter_results.append(row)
    return answer


def _row(outcome: Outcome) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=outcome.error_code, error_message=outcome.message, matching_acls=[]
    )


def _deleted(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
