"""ListPartitionReassignments (key 46, version 0): moves of partitions that are under way."""

from __future__ import annotations

from moldau.common.protocol.declare import (
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


@message(key=46, versions=(0, 0), flexible_from=0)
class ListPartitionReassignmentsRequest(Message):
    """Partitions asked about; null means all."""

    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class ListPartitionReassignmentsTopics(Struct):
    name: String = ""
    partition_indexes: list[Int32] = array()


@response_to(ListPartitionReassignmentsRequest)
class ListPartitionReassignmentsResponse(Message):
    """Replicas present, being added and being removed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    topics: list[OngoingTopicReassignment] = array()


class OngoingTopicReassignment(Struct):
    name: String = ""
    partitions: list[OngoingPartitionReassignment] = array()


class OngoingPartitionReassignment(Struct):
    partition_index: Int32 = 0
    replicas: list[Int32] = array()
    adding_replicas: list[Int32] = array()
    removing_replicas: list[Int32] = array()
