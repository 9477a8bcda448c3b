"""RenewDelegationToken, versions 1-2: let a delegation token expire later (KIP-48); its owner and its
renewers may.

    v2  flexible
"""

from moldau.broker.controller.delegation_tokens import DISABLED
from moldau.broker.handlers.apis.security.token_requests import may_ask_for_tokens
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


@handles(RenewDelegationTokenRequest)
async def renew_delegation_token(
    broker: Broker, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    if not may_ask_for_tokens(context.session):
        return _answer_row(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not broker.controller.token_signer.enabled:
        return _answer_row(DISABLED.error_code)
    renewed = await broker.controller.renew_delegation_token(
        bytes(request.hmac), context.session.principal, request.renew_period_ms, broker.clock.now_ms()
    )
    return _answer_row(renewed.outcome.error_code, renewed.expires_ms)


def _answer_row(error_code: ErrorCode, expires_ms: int = 0) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error_code, expiry_timestamp_ms=expires_ms)
