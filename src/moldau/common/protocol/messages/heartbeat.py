"""Heartbeat (key 12, versions 0-4): a member of a classic group says that it is alive.

v1   answer: throttle_time_ms
v3   group_instance_id (static membership, KIP-345)
v4   flexible
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    message,
    response_to,
    since,
)


@message(key=12, versions=(0, 4), flexible_from=4)
class HeartbeatRequest(Message):
    """The member and the generation that it believes in."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None)


@response_to(HeartbeatRequest)
class HeartbeatResponse(Message):
    """Whether the member may go on, must rejoin, or is unknown."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
