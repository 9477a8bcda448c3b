"""DeleteAcls, versions 1-3: delete the ACLs that filters match. There is no authorizer: SECURITY_DISABLED for
each, as in Kafka without one.

    v2  flexible      v3  user resources (KIP-373)
"""

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.describe_acls import NO_AUTHORIZER
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

_REFUSED = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)


@handles(DeleteAclsRequest)
def delete_acls(broker: Broker, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_REFUSED] * len(request.filters))
