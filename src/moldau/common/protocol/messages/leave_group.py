"""LeaveGroup (key 13, versions 0-5): members leave a classic group.

v1   answer: throttle_time_ms
v3   several members at once, also by group_instance_id (KIP-345)
v4   flexible
v5   reason (KIP-800)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    field,
    message,
    response_to,
    since,
)


@message(key=13, versions=(0, 5), flexible_from=4)
class LeaveGroupRequest(Message):
    """The member, or from version 3 the members, that leave."""

    group_id: String = ""
    member_id: String = field(until=2)
    members: list[MemberIdentity] = since(3)


class MemberIdentity(Struct):
    member_id: String = since(3)
    group_instance_id: NullableString = since(3, default=None)
    reason: NullableString = since(5, default=None, ignorable=True)


@response_to(LeaveGroupRequest)
class LeaveGroupResponse(Message):
    """Whether the request, and from version 3 each member's leaving, succeeded."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
    members: list[MemberResponse] = since(3)


class MemberResponse(Struct):
    member_id: String = since(3)
    group_instance_id: NullableString = since(3)
    error_code: Int16 = since(3)
