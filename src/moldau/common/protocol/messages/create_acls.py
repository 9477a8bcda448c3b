"""CreateAcls (key 30, versions 1-3): create ACLs.

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


@message(key=30, versions=(1, 3), flexible_from=2)
class CreateAclsRequest(Message):
    """The ACLs."""

    creations: list[AclCreation] = array()


class AclCreation(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@response_to(CreateAclsRequest)
class CreateAclsResponse(Message):
    """An error code for each ACL, in the order of the request."""

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = array()


class AclCreationResult(Struct):
    error_code: Int16 = 0
    error_message: NullableString = ""
