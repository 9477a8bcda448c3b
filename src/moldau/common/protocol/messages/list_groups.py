"""ListGroups (key 16, versions 0-5): the groups that this broker coordinates.

v1   answer: throttle_time_ms
v3   flexible
v4   states_filter; answer: state (KIP-518)
v5   types_filter; answer: group_type (KIP-848)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int16,
    Int32,
    Message,
    String,
    Struct,
    array,
    message,
    response_to,
    since,
)


@message(key=16, versions=(0, 5), flexible_from=3)
class ListGroupsRequest(Message):
    """Filters; an empty one lets everything pass."""

    states_filter: list[String] = since(4)
    types_filter: list[String] = since(5)


@response_to(ListGroupsRequest)
class ListGroupsResponse(Message):
    """Group ids with protocol type, state and group type."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
    groups: list[ListedGroup] = array()


class ListedGroup(Struct):
    group_id: String = ""
    protocol_type: String = ""
    group_state: String = since(4, ignorable=True)
    group_type: String = since(5, ignorable=True)
