"""DescribeDelegationToken (key 41, versions 1-3): list delegation tokens.

v2   flexible
v3   answer: who requested the token (KIP-373)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bytes,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    array,
    message,
    response_to,
    since,
)


@message(key=41, versions=(1, 3), flexible_from=2)
class DescribeDelegationTokenRequest(Message):
    """Owners whose tokens are asked for; null means all."""

    owners: list[DescribeDelegationTokenOwner] | None = array()


class DescribeDelegationTokenOwner(Struct):
    principal_type: String = ""
    principal_name: String = ""


@response_to(DescribeDelegationTokenRequest)
class DescribeDelegationTokenResponse(Message):
    """The tokens."""

    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = array()
    throttle_time_ms: Int32 = 0


class DescribedDelegationToken(Struct):
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = since(3)
    token_requester_principal_name: String = since(3)
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = array()


class DescribedDelegationTokenRenewer(Struct):
    principal_type: String = ""
    principal_name: String = ""
