"""ExpireDelegationToken, versions 1-2: let a delegation token expire at once, or after a while (KIP-48); its
owner and its renewers may.

    v2  flexible
"""

from moldau.broker.controller.delegation_tokens import DISABLED
from moldau.broker.handlers.apis.security.token_requests import may_ask_for_tokens
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


@handles(ExpireDelegationTokenRequest)
async def expire_delegation_token(
    broker: Broker, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    if not may_ask_for_tokens(context.session):
        return _answer_row(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not broker.controller.token_signer.enabled:
        return _answer_row(DISABLED.error_code)
    expired = await broker.controller.expire_delegation_token(
        bytes(request.hmac),
        context.session.principal,
        request.expiry_time_period_ms,
        broker.clock.now_ms(),
    )
    return _answer_row(expired.outcome.error_code, expired.expires_ms)


def _answer_row(error_code: ErrorCode, expires_ms: int = 0) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error_code, expiry_timestamp_ms=expires_ms)
