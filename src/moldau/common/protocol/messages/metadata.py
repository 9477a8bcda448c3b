"""Metadata (key 3, versions 0-13): brokers, topics, partitions and their leaders.

v1   answer: rack, controller_id, is_internal
v2   answer: cluster_id
v3   answer: throttle_time_ms
v4   allow_auto_topic_creation
v5   answer: offline_replicas
v7   answer: leader_epoch
v8   authorized operations on request
v9   flexible
v10  topic ids
v11  cluster_authorized_operations moved to DescribeCluster
v12  topics may be asked for by id (null name)
v13  answer: top-level error_code
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
    Uuid,
    array,
    field,
    message,
    response_to,
    since,
)


@message(key=3, versions=(0, 13), flexible_from=9)
class MetadataRequest(Message):
    """Topics to describe; null means all (in version 0 an empty list does)."""

    topics: list[MetadataRequestTopic] | None = field(nullable_since=1)
    allow_auto_topic_creation: Bool = since(4, default=True)
    include_cluster_authorized_operations: Bool = since(8, until=10)
    include_topic_authorized_operations: Bool = since(8)


class MetadataRequestTopic(Struct):
    topic_id: Uuid = since(10, ignorable=True)
    name: NullableString = field(nullable_since=10)


@response_to(MetadataRequest)
class MetadataResponse(Message):
    """The cluster as this broker knows it."""

    throttle_time_ms: Int32 = since(3, ignorable=True)
    brokers: list[MetadataResponseBroker] = array()
    cluster_id: NullableString = since(2, default=None, ignorable=True)
    controller_id: Int32 = since(1, default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array()
    cluster_authorized_operations: Int32 = since(8, default=-2147483648, until=10)
    error_code: Int16 = since(13, ignorable=True)


class MetadataResponseBroker(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = since(1, default=None, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: Int16 = 0
    name: NullableString = field(nullable_since=12)
    topic_id: Uuid = since(10, ignorable=True)
    is_internal: Bool = since(1, ignorable=True)
    partitions: list[MetadataResponsePartition] = array()
    topic_authorized_operations: Int32 = since(8, default=-2147483648)


class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = since(7, default=-1, ignorable=True)
    replica_nodes: list[Int32] = array()
    isr_nodes: list[Int32] = array()
    offline_replicas: list[Int32] = since(5, ignorable=True)
