"""DescribeAcls, versions 1-3: the ACLs that a filter matches. There is no authorizer: SECURITY_DISABLED, as
in Kafka without one.

    v2  flexible      v3  user resources (KIP-373)
"""

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

NO_AUTHORIZER = "No Authorizer is configured on the broker"
"""Kafka's own message: tools look for it."""


@handles(DescribeAclsRequest)
def describe_acls(
    broker: Broker, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
