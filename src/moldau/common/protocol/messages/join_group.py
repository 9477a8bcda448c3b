"""JoinGroup (key 11, versions 0-9): a member enters a classic consumer group, or enters its next
generation.

    v1   rebalance_timeout_ms
    v2   answer: throttle_time_ms
    v4   a first join without member id is answered MEMBER_ID_REQUIRED (KIP-394)
    v5   group_instance_id (static membership, KIP-345)
    v6   flexible
    v7   answer: protocol_type; protocol_name may be null
    v8   reason (KIP-800)
    v9   answer: skip_assignment (KIP-814)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
    Bytes,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    array,
    field,
    message,
    response_to,
    since,
)


@message(key=11, versions=(0, 9), flexible_from=6)
class JoinGroupRequest(Message):
    """Who joins, and which assignors it offers, with metadata for each."""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = since(1, default=-1, ignorable=True)
    member_id: String = ""
    group_instance_id: NullableString = since(5, default=None)
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = array()
    reason: NullableString = since(8, default=None, ignorable=True)


class JoinGroupRequestProtocol(Struct):
    name: String = ""
    metadata: Bytes = b""


@response_to(JoinGroupRequest)
class JoinGroupResponse(Message):
    """The generation that came about; the leader gets every member's metadata, the others an empty
    list."""

    throttle_time_ms: Int32 = since(2, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: NullableString = since(7, default=None, ignorable=True)
    protocol_name: NullableString = field(nullable_since=7)
    leader: String = ""
    skip_assignment: Bool = since(9)
    member_id: String = ""
    members: list[JoinGroupResponseMember] = array()


class JoinGroupResponseMember(Struct):
    member_id: String = ""
    group_instance_id: NullableString = since(5, default=None, ignorable=True)
    metadata: Bytes = b""
