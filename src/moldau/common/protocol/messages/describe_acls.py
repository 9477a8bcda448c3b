"""DescribeAcls (key 29, versions 1-3): which ACLs match a filter.

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


@message(key=29, versions=(1, 3), flexible_from=2)
class DescribeAclsRequest(Message):
    """The filter; null matches anything."""

    resource_type_filter: Int8 = 0
    resource_name_filter: NullableString = ""
    pattern_type_filter: Int8 = 3
    principal_filter: NullableString = ""
    host_filter: NullableString = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@response_to(DescribeAclsRequest)
class DescribeAclsResponse(Message):
    """Resources with their ACLs."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    resources: list[DescribeAclsResource] = array()


class DescribeAclsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    acls: list[AclDescription] = array()


class AclDescription(Struct):
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
