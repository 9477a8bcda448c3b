"""ExpireDelegationToken (key 40, versions 1-2): end a delegation token, now or later.

v2   flexible
"""

from __future__ import annotations

from moldau.common.protocol.declare import Bytes, Int16, Int32, Int64, Message, message, response_to


@message(key=40, versions=(1, 2), flexible_from=2)
class ExpireDelegationTokenRequest(Message):
    """The token and when."""

    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


@response_to(ExpireDelegationTokenRequest)
class ExpireDelegationTokenResponse(Message):
    """The new end of its life."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
