"""AlterConfigs (key 33, versions 0-2): replace all dynamic settings of resources; superseded by
IncrementalAlterConfigs.

    v2   flexible
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
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


@message(key=33, versions=(0, 2), flexible_from=2)
class AlterConfigsRequest(Message):
    """Resources with their complete new settings."""

    resources: list[AlterConfigsResource] = array()
    validate_only: Bool = False


class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = array()


class AlterableConfig(Struct):
    name: String = ""
    value: NullableString = ""


@response_to(AlterConfigsRequest)
class AlterConfigsResponse(Message):
    """An error code for each resource."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = array()


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
