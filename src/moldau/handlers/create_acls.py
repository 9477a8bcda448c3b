"""CreateAcls, versions 1-3: add ACLs, each for itself. SECURITY_DISABLED for each without an authorizer.

    v2  flexible      v3  user resources (KIP-373)

Not here: what may be in an ACL (controller/acls.py).
"""

from collections.abc import Awaitable

from moldau.controller.decision import Outcome
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
    if authorizer is None:
        return _answer([Outcome(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)] * len(request.creations))
    if not authorizer.allows(context.session, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        refused = Outcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        return _answer([refused] * len(request.creations))
    return _create(broker, request)


async def _create(broker: Broker, request: CreateAclsRequest) -> CreateAclsResponse:
    asked = [
        Acl(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in request.creations
    ]
    return _answer(await broker.controller.create_acls(asked))


def _answer(outcomes: list[Outcome]) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=outcome.error_code, error_message=outcome.message)
            for outcome in outcomes
        ]
    )
