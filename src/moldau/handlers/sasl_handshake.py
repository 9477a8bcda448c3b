"""SaslHandshake, versions 0-1: choose a SASL mechanism. On a listener without SASL: ILLEGAL_SASL_STATE, as in
Kafka.

    v1  SaslAuthenticate requests follow; after v0, bare tokens
Not here: listeners with SASL, which this version does not serve.
"""

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@handles(SaslHandshakeRequest)
def sasl_handshake(
    broker: Broker, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
