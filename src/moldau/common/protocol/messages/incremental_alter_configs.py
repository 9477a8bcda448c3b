"""IncrementalAlterConfigs (key 44, versions 0-1): set, delete, append to or subtract from settings.

v1   flexible
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


@message(key=44, versions=(0, 1), flexible_from=1)
class IncrementalAlterConfigsRequest(Message):
    """Resources with operations on single settings (0 set, 1 delete, 2 append, 3 subtract)."""

    resources: list[AlterConfigsResource] = array()
    validate_only: Bool = False


class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = array()


class AlterableConfig(Struct):
    name: String = ""
    config_operation: Int8 = 0
    value: NullableString = ""


@response_to(IncrementalAlterConfigsRequest)
class IncrementalAlterConfigsResponse(Message):
    """An error code for each resource."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = array()


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
