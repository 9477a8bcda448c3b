"""ListConfigResources (key 74, versions 0-1): names of resources that have settings.

v1   resource_types; answer: resource_type (KIP-1142)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int8,
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


@message(key=74, versions=(0, 1), flexible_from=0)
class ListConfigResourcesRequest(Message):
    """The resource types wanted; none means all. Version 0 lists client-metrics resources only."""

    resource_types: list[Int8] = since(1)


@response_to(ListConfigResourcesRequest)
class ListConfigResourcesResponse(Message):
    """Resource names with types."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = array()


class ConfigResource(Struct):
    resource_name: String = ""
    resource_type: Int8 = since(1, default=16, ignorable=True)
