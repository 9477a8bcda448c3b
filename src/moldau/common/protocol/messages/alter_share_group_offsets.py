"""AlterShareGroupOffsets (key 91, version 0): move the start of an empty share group (KIP-932)."""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Struct,
    Uuid,
    array,
    message,
    response_to,
)


@message(key=91, versions=(0, 0), flexible_from=0)
class AlterShareGroupOffsetsRequest(Message):
    """The new start offsets."""

    group_id: String = ""
    topics: list[RequestTopic] = array()


class RequestTopic(Struct):
    topic_name: String = ""
    partitions: list[RequestPartition] = array()


class RequestPartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0


@response_to(AlterShareGroupOffsetsRequest)
class AlterShareGroupOffsetsResponse(Message):
    """An error code for the group, or for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: list[ResponseTopic] = array()


class ResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[ResponsePartition] = array()


class ResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
