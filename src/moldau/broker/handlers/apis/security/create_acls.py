"""CreateAcls, versions 1-3: add ACLs, each for itself. SECURITY_DISABLED for each without an authorizer.

    v2  flexible      v3  user resources (KIP-373)

Not here: what may be in an ACL (controller/acls.py).
"""

from collections.abc import Awaitable

from moldau.broker.controller.decision import RECORDS_MAX, TOO_LARGE, Outcome
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.session import Session
from moldau.common.protocol.acls import Acl
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from moldau.common.protocol.operations import CLUSTER_NAME, Operation, ResourceType

NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's own message: tools look for it."""


@handles(CreateAclsRequest)
def create_acls(
    broker: Broker, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse | Awaitable[CreateAclsResponse]:
    count = len(request.creations)
    refusal = acl_change_refusal(broker, context.session, count)
    return _create(broker, request) if refusal is None else _for_all(count, refusal)


def acl_change_refusal(broker: Broker, session: Session, count: int) -> Outcome | None:
    """Why none of so many ACLs may be created, or filters deleted by; None if they may."""
    authorizer = broker.authorizer
    if authorizer is None:
        return Outcome(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    if not authorizer.allows(session, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return Outcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    return TOO_LARGE if count > RECORDS_MAX else None


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
