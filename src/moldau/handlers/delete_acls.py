"""DeleteAcls, versions 1-3: delete the ACLs that filters match. SECURITY_DISABLED for each without an
authorizer.

    v2  flexible      v3  user resources (KIP-373)

Not here: which ACLs a filter matches (security/acl_filter.py).
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.controller.decision import Outcome
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.create_acls import NO_AUTHORIZER
from moldau.handlers.registry import handles
from moldau.metadata.acls import Acl
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from moldau.security.operations import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from moldau.controller.acls import Deleted


@handles(DeleteAclsRequest)
def delete_acls(
    broker: Broker, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse | Awaitable[DeleteAclsResponse]:
    authorizer = broker.authorizer
    if authorizer is None:
        return _answer([(Outcome(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER), ())] * len(request.filters))
    if not authorizer.allows(context.session, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        refused = Outcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        return _answer([(refused, ())] * len(request.filters))
    return _delete(broker, request)


async def _delete(broker: Broker, request: DeleteAclsRequest) -> DeleteAclsResponse:
    from moldau.security.acl_filter import AclFilter

    filters = [
        AclFilter(
            each.resource_type_filter,
            each.resource_name_filter,
            each.pattern_type_filter,
            each.principal_filter,
            each.host_filter,
            each.operation,
            each.permission_type,
        )
        for each in request.filters
    ]
    return _answer(await broker.controller.delete_acls(filters))


def _answer(results: "Deleted") -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=outcome.error_code,
                error_message=outcome.message,
                matching_acls=[_deleted(acl) for acl in acls],
            )
            for outcome, acls in results
        ]
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
