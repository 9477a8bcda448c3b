"""DescribeTopicPartitions (key 75, version 0): topics and partitions a page at a time (KIP-966)."""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
    Bool,
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


@message(key=75, versions=(0, 0), flexible_from=0)
class DescribeTopicPartitionsRequest(Message):
    """Topics, a limit, and where to go on."""

    topics: list[TopicRequest] = array()
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class TopicRequest(Struct):
    name: String = ""


class Cursor(Struct):
    topic_name: String = ""
    partition_index: Int32 = 0


@response_to(DescribeTopicPartitionsRequest)
class DescribeTopicPartitionsResponse(Message):
    """Partitions with their replicas, and a cursor if there is more."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = array()
    next_cursor: Cursor | None = None


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16 = 0
    name: NullableString = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = array()
    topic_authorized_operations: Int32 = -2147483648


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = array()
    isr_nodes: list[Int32] = array()
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = array()
