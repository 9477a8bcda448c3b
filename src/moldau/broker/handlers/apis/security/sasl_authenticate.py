"""SaslAuthenticate, versions 0-2: one step of a SASL exchange. On a listener without SASL, and from a client
that is logged in: ILLEGAL_SASL_STATE, as in Kafka.

    v1  the session's lifetime (KIP-368)      v2  flexible
Not here: logins and re-authentication (security/login/exchange.py), which come before the handlers.
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


@handles(SaslAuthenticateRequest)
def sasl_authenticate(
    broker: Broker, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    session = context.session
    if session.authenticated_ms is not None:
        message = "SaslAuthenticate was sent by a client that is logged in."
    else:
        message = f"SaslAuthenticate was sent to the listener {session.listener}, which has no SASL."
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message)
