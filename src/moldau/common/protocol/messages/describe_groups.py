"""DescribeGroups (key 15, versions 0-6): state and members of classic groups.

v1   answer: throttle_time_ms
v3   authorized operations on request
v4   answer: group_instance_id
v5   flexible
v6   GROUP_ID_NOT_FOUND with a message instead of a group in state Dead (KIP-1043)
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
    message,
    response_to,
    since,
)


@message(key=15, versions=(0, 6), flexible_from=5)
class DescribeGroupsRequest(Message):
    """The groups to describe."""

    groups: list[String] = array()
    include_authorized_operations: Bool = since(3)


@response_to(DescribeGroupsRequest)
class DescribeGroupsResponse(Message):
    """Each group's state, protocol and members."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    groups: list[DescribedGroup] = array()


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: NullableString = since(6, default=None)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = array()
    authorized_operations: Int32 = since(3, default=-2147483648)


class DescribedGroupMember(Struct):
    member_id: String = ""
    group_instance_id: NullableString = since(4, default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""
