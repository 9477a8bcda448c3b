"""DeleteGroups (key 42, versions 0-2): delete groups that have no members.

v2   flexible
"""

from __future__ import annotations

from moldau.common.protocol.declare import Int16, Int32, Message, String, Struct, array, message, response_to


@message(key=42, versions=(0, 2), flexible_from=2)
class DeleteGroupsRequest(Message):
    """The groups."""

    groups_names: list[String] = array()


@response_to(DeleteGroupsRequest)
class DeleteGroupsResponse(Message):
    """An error code for each group."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = array()


class DeletableGroupResult(Struct):
    group_id: String = ""
    error_code: Int16 = 0
