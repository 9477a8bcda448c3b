"""SaslHandshake, versions 0-1: choose a SASL mechanism. On a listener without SASL, and from a client that is
logged in for good: ILLEGAL_SASL_STATE, as in Kafka.

    v1  SaslAuthenticate requests follow; after v0, bare tokens
Not here: logins and re-authentication (security/login/exchange.py), which come before the handlers.
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@handles(SaslHandshakeRequest)
def sasl_handshake(
    broker: Broker, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
