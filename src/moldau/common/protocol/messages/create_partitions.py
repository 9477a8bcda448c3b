"""CreatePartitions (key 37, versions 0-3): add partitions to topics.

v2   flexible
v3   THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
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


@message(key=37, versions=(0, 3), flexible_from=2)
class CreatePartitionsRequest(Message):
    """Topics with their new, higher partition counts."""

    topics: list[CreatePartitionsTopic] = array()
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopic(Struct):
    name: String = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = array()


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32] = array()


@response_to(CreatePartitionsRequest)
class CreatePartitionsResponse(Message):
    """An error code for each topic."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = array()


class CreatePartitionsTopicResult(Struct):
    name: String = ""
    error_code: Int16 = 0
    error_message: NullableString = None
