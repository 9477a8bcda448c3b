"""DescribeConfigs (key 32, versions 1-4): settings of topics, brokers and groups, with where each value
comes from.

    v3   include_documentation; answer: config_type and documentation (KIP-569)
    v4   flexible
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
    since,
)


@message(key=32, versions=(1, 4), flexible_from=4)
class DescribeConfigsRequest(Message):
    """Resources, and which of their settings (null: all)."""

    resources: list[DescribeConfigsResource] = array()
    include_synonyms: Bool = False
    include_documentation: Bool = since(3)


class DescribeConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: list[String] | None = array()


@response_to(DescribeConfigsRequest)
class DescribeConfigsResponse(Message):
    """Each setting with value, source, synonyms and documentation."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = array()


class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = array()


class DescribeConfigsResourceResult(Struct):
    name: String = ""
    value: NullableString = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: list[DescribeConfigsSynonym] = array()
    config_type: Int8 = since(3, ignorable=True)
    documentation: NullableString = since(3, ignorable=True)


class DescribeConfigsSynonym(Struct):
    name: String = ""
    value: NullableString = ""
    source: Int8 = 0
