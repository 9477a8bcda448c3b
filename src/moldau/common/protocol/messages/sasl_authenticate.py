"""SaslAuthenticate (key 36, versions 0-2): one step of a SASL exchange.

v1   answer: session_lifetime_ms (KIP-368)
v2   flexible
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bytes,
    Int16,
    Int64,
    Message,
    NullableString,
    message,
    response_to,
    since,
)


@message(key=36, versions=(0, 2), flexible_from=2)
class SaslAuthenticateRequest(Message):
    """The client's token."""

    auth_bytes: Bytes = b""


@response_to(SaslAuthenticateRequest)
class SaslAuthenticateResponse(Message):
    """The server's token, or an error."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = since(1, ignorable=True)
