"""DescribeQuorum (key 55, versions 0-2): who keeps the cluster's metadata, and how far each copy is.

v1   answer: last_fetch_timestamp, last_caught_up_timestamp (KIP-836)
v2   answer: messages, directory ids, nodes with their addresses (KIP-853)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Struct,
    UInt16,
    Uuid,
    array,
    message,
    response_to,
    since,
)


@message(key=55, versions=(0, 2), flexible_from=0)
class DescribeQuorumRequest(Message):
    """The partitions asked about: `__cluster_metadata`-0."""

    topics: list[TopicRequest] = array()


class TopicRequest(Struct):
    topic_name: String = ""
    partitions: list[PartitionRequest] = array()


class PartitionRequest(Struct):
    partition_index: Int32 = 0


@response_to(DescribeQuorumRequest)
class DescribeQuorumResponse(Message):
    """The quorum of each partition, and where its nodes are."""

    error_code: Int16 = 0
    error_message: NullableString = since(2, default="", ignorable=True)
    topics: list[TopicData] = array()
    nodes: list[QuorumNode] = since(2, ignorable=True)


class TopicData(Struct):
    topic_name: String = ""
    partitions: list[PartitionData] = array()


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = since(2, default="", ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = array()
    observers: list[ReplicaState] = array()


class ReplicaState(Struct):
    """One copy; times are wall-clock milliseconds, -1 if unknown."""

    replica_id: Int32 = 0
    replica_directory_id: Uuid = since(2, ignorable=True)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = since(1, default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = since(1, default=-1, ignorable=True)


class QuorumNode(Struct):
    node_id: Int32 = since(2)
    listeners: list[QuorumListener] = since(2)


class QuorumListener(Struct):
    name: String = since(2)
    host: String = since(2)
    port: UInt16 = since(2)
