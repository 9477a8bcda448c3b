"""DeleteTopics (key 20, versions 1-6): delete topics.

v4   flexible
v5   answer: error_message; THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
v6   topics by id, names may be null
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    Uuid,
    array,
    field,
    message,
    response_to,
    since,
)


@message(key=20, versions=(1, 6), flexible_from=4)
class DeleteTopicsRequest(Message):
    """The topics, by name, or from version 6 by name or id."""

    topics: list[DeleteTopicState] = since(6)
    topic_names: list[String] = field(until=5, ignorable=True)
    timeout_ms: Int32 = 0


class DeleteTopicState(Struct):
    name: NullableString = since(6, default=None)
    topic_id: Uuid = since(6)


@response_to(DeleteTopicsRequest)
class DeleteTopicsResponse(Message):
    """An error code for each topic."""

    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = array()


class DeletableTopicResult(Struct):
    name: NullableString = field(nullable_since=6)
    topic_id: Uuid = since(6, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = since(5, default=None, ignorable=True)
