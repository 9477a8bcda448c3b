"""CreateDelegationToken (key 38, versions 1-3): create a delegation token.

v2   flexible
v3   a token for somebody else (KIP-373)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bytes,
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    response_to,
    since,
)


@message(key=38, versions=(1, 3), flexible_from=2)
class CreateDelegationTokenRequest(Message):
    """Owner, renewers and lifetime."""

    owner_principal_type: NullableString = since(3)
    owner_principal_name: NullableString = since(3)
    renewers: list[CreatableRenewers] = array()
    max_lifetime_ms: Int64 = 0


class CreatableRenewers(Struct):
    principal_type: String = ""
    principal_name: String = ""


@response_to(CreateDelegationTokenRequest)
class CreateDelegationTokenResponse(Message):
    """The token."""

    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = since(3)
    token_requester_principal_name: String = since(3)
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0
