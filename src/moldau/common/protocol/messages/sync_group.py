"""SyncGroup (key 14, versions 0-5): the leader of a classic group hands in the assignment, and each member
gets its part.

    v1   answer: throttle_time_ms
    v3   group_instance_id (static membership, KIP-345)
    v4   flexible
    v5   protocol_type and protocol_name, checked against the group's (KIP-559)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bytes,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    response_to,
    since,
)


@message(key=14, versions=(0, 5), flexible_from=4)
class SyncGroupRequest(Message):
    """A member's wish for its assignment; the leader's carries everybody's."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None)
    protocol_type: NullableString = since(5, default=None, ignorable=True)
    protocol_name: NullableString = since(5, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array()


class SyncGroupRequestAssignment(Struct):
    member_id: String = ""
    assignment: Bytes = b""


@response_to(SyncGroupRequest)
class SyncGroupResponse(Message):
    """The member's assignment, opaque to the broker."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
    protocol_type: NullableString = since(5, default=None, ignorable=True)
    protocol_name: NullableString = since(5, default=None, ignorable=True)
    assignment: Bytes = b""
