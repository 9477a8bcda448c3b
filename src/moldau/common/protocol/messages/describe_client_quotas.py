"""DescribeClientQuotas (key 48, versions 0-1): which quotas match a filter.

v1   flexible
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
    Float64,
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


@message(key=48, versions=(0, 1), flexible_from=1)
class DescribeClientQuotasRequest(Message):
    """The filter: match_type 0 exact, 1 the default, 2 any name."""

    components: list[ComponentData] = array()
    strict: Bool = False


class ComponentData(Struct):
    entity_type: String = ""
    match_type: Int8 = 0
    match: NullableString = ""


@response_to(DescribeClientQuotasRequest)
class DescribeClientQuotasResponse(Message):
    """Entities with their quotas."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    entries: list[EntryData] | None = array()


class EntryData(Struct):
    entity: list[EntityData] = array()
    values: list[ValueData] = array()


class EntityData(Struct):
    entity_type: String = ""
    entity_name: NullableString = ""


class ValueData(Struct):
    key: String = ""
    value: Float64 = 0.0
