"""DescribeDelegationToken, versions 1-3: the delegation tokens of owners. Only authenticated clients
may ask, and no listener authenticates: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as in Kafka.

    v2  flexible      v3  who requested each token (KIP-373)
"""

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


@handles(DescribeDelegationTokenRequest)
def describe_delegation_token(
    broker: Broker, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
