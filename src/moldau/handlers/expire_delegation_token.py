"""ExpireDelegationToken, versions 1-2: end a delegation token. Only authenticated clients may, and no
listener authenticates: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as in Kafka.

    v2  flexible
"""

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.create_delegation_token import NO_TIMESTAMP
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


@handles(ExpireDelegationTokenRequest)
def expire_delegation_token(
    broker: Broker, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIMESTAMP
    )
