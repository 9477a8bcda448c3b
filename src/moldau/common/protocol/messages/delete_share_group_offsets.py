"""DeleteShareGroupOffsets (key 92, version 0): forget topics of an empty share group (KIP-932)."""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    Uuid,
    array,
    message,
    response_to,
)


@message(key=92, versions=(0, 0), flexible_from=0)
class DeleteShareGroupOffsetsRequest(Message):
    """The topics."""

    group_id: String = ""
    topics: list[RequestTopic] = array()


class RequestTopic(Struct):
    topic_name: String = ""


@response_to(DeleteShareGroupOffsetsRequest)
class DeleteShareGroupOffsetsResponse(Message):
    """An error code for the group, or for each topic."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: list[ResponseTopic] = array()


class ResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: NullableString = None
