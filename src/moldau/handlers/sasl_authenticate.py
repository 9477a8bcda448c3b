"""SaslAuthenticate, versions 0-2: one step of a SASL exchange. On a listener without SASL:
ILLEGAL_SASL_STATE, as in Kafka.

    v1  the session's lifetime (KIP-368)      v2  flexible
Not here: listeners with SASL, which this version does not serve.
"""

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


@handles(SaslAuthenticateRequest)
def sasl_authenticate(
    broker: Broker, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    listener = context.session.listener
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message=f"SaslAuthenticate was sent to the listener {listener}, which has no SASL.",
    )
