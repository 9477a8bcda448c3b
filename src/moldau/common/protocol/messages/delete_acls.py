"""DeleteAcls (key 31, versions 1-3): delete the ACLs that match filters.

v2   flexible
v3   user resources (KIP-373)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    response_to,
)


@message(key=31, versions=(1, 3), flexible_from=2)
class DeleteAclsRequest(Message):
    """The filters."""

    filters: list[DeleteAclsFilter] = array()


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8 = 0
    resource_name_filter: NullableString = ""
    pattern_type_filter: Int8 = 3
    principal_filter: NullableString = ""
    host_filter: NullableString = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@response_to(DeleteAclsRequest)
class DeleteAclsResponse(Message):
    """For each filter the ACLs that it deleted."""

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = array()


class DeleteAclsFilterResult(Struct):
    error_code: Int16 = 0
    error_message: NullableString = ""
    matching_acls: list[DeleteAclsMatchingAcl] = array()


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
