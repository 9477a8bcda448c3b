"""CreateAcls, versions 1-3: add ACLs. There is no authorizer: SECURITY_DISABLED for each, as in Kafka without
one.

    v2  flexible      v3  user resources (KIP-373)
"""

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.describe_acls import NO_AUTHORIZER
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

_REFUSED = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)


@handles(CreateAclsRequest)
def create_acls(broker: Broker, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_REFUSED] * len(request.creations))
