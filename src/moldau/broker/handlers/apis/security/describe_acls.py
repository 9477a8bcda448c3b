"""DescribeAcls, versions 1-3: the ACLs that a filter matches. SECURITY_DISABLED without an authorizer.

    v2  flexible      v3  user resources (KIP-373)

Not here: which ACLs a filter matches (common/protocol/acls.py).
"""

from collections.abc import Generator
from typing import TYPE_CHECKING

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.common.protocol.acls import Acl
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from moldau.common.protocol.operations import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from moldau.common.protocol.acls import AclFilter

_ACLS_A_STEP = 200

NO_AUTHORIZER = "No Authorizer is configured on the broker"
"""Kafka's own message: tools look for it."""


@handles(DescribeAclsRequest)
def describe_acls(
    broker: Broker, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse | Generator[None, None, DescribeAclsResponse]:
    authorizer = broker.authorizer
    if authorizer is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    if not authorizer.allows(context.session, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeAclsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="Cluster authorization failed."
        )
    from moldau.common.protocol.acls import AclFilter

    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    complaint = wanted.complaint()
    if complaint is not None:
        return DescribeAclsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=complaint)
    return _found(broker, wanted)


def _found(broker: Broker, wanted: "AclFilter") -> Generator[None, None, DescribeAclsResponse]:
    matching = yield from wanted.found(broker.metadata.image.acls)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for number, acl in enumerate(matching):
        if number % _ACLS_A_STEP == 0:
            yield
        key = acl[:3]
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=[],
            )
        resource.acls.append(_described(acl))
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))


def _described(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
    )
