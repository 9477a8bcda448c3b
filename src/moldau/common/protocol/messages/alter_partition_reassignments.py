"""AlterPartitionReassignments (key 45, versions 0-1): move partitions to other replicas, or cancel a move.

v1   allow_replication_factor_change (KIP-860)
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
    since,
)


@message(key=45, versions=(0, 1), flexible_from=0)
class AlterPartitionReassignmentsRequest(Message):
    """Target replicas for each partition; null cancels."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = since(1, default=True)
    topics: list[ReassignableTopic] = array()


class ReassignableTopic(Struct):
    name: String = ""
    partitions: list[ReassignablePartition] = array()


class ReassignablePartition(Struct):
    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


@response_to(AlterPartitionReassignmentsRequest)
class AlterPartitionReassignmentsResponse(Message):
    """An error code for each partition."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = since(1, default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = ""
    responses: list[ReassignableTopicResponse] = array()


class ReassignableTopicResponse(Struct):
    name: String = ""
    partitions: list[ReassignablePartitionResponse] = array()


class ReassignablePartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
