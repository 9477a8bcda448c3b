"""CreateAcls, versions 1-3: add ACLs, each for itself. SECURITY_DISABLED for each without an authorizer.

    v2  flexible      v3  user resources (KIP-373)

Not here: what may be in an ACL (controller/acls.py).
"""

from collections.abc import Awaitable

from moldau.controller.decision import RECORDS_MAX, TOO_LARGE, Outcome
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.metadata.acls import Acl
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from moldau.security.operations import CLUSTER_NAME, Operation, ResourceType

NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's own message: tools look for it."""


@handles(CreateAclsRequest)
def create_acls(
    broker: Broker, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse | Awaitable[CreateAclsResponse]:
    authorizer = broker.authorizer
    count = len(request.creations)
    if authorizer is None:
        return _for_all(count, Outcome(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))
    if not authorizer.allows(context.session, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        refused = Outcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        return _for_all(count, refused)
    if count > RECORDS_MAX:
        return _for_all(count, TOO_LARGE)
    return _create(broker, request)


def _for_all(count: int, outcome: Outcome) -> CreateAclsResponse:
    """One row, many times: a request that changes nothing may have half a million."""
    return CreateAclsResponse(results=[_row(outcome)] * count)


async def _create(broker: Broker, request: CreateAclsRequest) -> CreateAclsResponse:
    slices = broker.slow_lane.slices()
    asked = []
    async for each in slices.each(request.creations):
        asked.append(
            Acl(
                each.resource_type,
                each.resource_name,
                each.resource_pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
        )
    answer = CreateAclsResponse(results=[])
    async for outcome in slices.each(await broker.controller.create_acls(asked)):
        answer.results.append(_row(outcome))
    return answer


def _row(outcome: Outcome) -> AclCreationResult:
    return AclCreationResult(error_code=outcome.error_code, error_message=outcome.message)
