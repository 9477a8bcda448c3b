"""RenewDelegationToken (key 39, versions 1-2): prolong a delegation token.

v2   flexible
"""

from __future__ import annotations

from moldau.common.protocol.declare import Bytes, Int16, Int32, Int64, Message, message, response_to


@message(key=39, versions=(1, 2), flexible_from=2)
class RenewDelegationTokenRequest(Message):
    """The token and by how much."""

    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


@response_to(RenewDelegationTokenRequest)
class RenewDelegationTokenResponse(Message):
    """The new end of its life."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
