"""AlterClientQuotas (key 49, versions 0-1): set or remove quotas.

v1   flexible
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
    Float64,
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


@message(key=49, versions=(0, 1), flexible_from=1)
class AlterClientQuotasRequest(Message):
    """Entities with operations on their quotas."""

    entries: list[EntryData] = array()
    validate_only: Bool = False


class EntryData(Struct):
    entity: list[EntityData] = array()
    ops: list[OpData] = array()


class EntityData(Struct):
    entity_type: String = ""
    entity_name: NullableString = ""


class OpData(Struct):
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


@response_to(AlterClientQuotasRequest)
class AlterClientQuotasResponse(Message):
    """An error code for each entity."""

    throttle_time_ms: Int32 = 0
    entries: list[ResponseEntryData] = array()


class ResponseEntryData(Struct):
    error_code: Int16 = 0
    error_message: NullableString = ""
    entity: list[EntityData] = array()
