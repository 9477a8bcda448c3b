"""CreateTopics (key 19, versions 2-7): create topics.

v4   -1 partitions or replicas: the broker's defaults (KIP-464)
v5   answer: partition and replica counts and configs (KIP-525); flexible
v6   THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
v7   answer: topic_id
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
    Int8,
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
    since,
    tagged,
)


@message(key=19, versions=(2, 7), flexible_from=5)
class CreateTopicsRequest(Message):
    """Topics with partition counts or explicit replicas, and configs."""

    topics: list[CreatableTopic] = array()
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreatableTopic(Struct):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = array()
    configs: list[CreatableTopicConfig] = array()


class CreatableReplicaAssignment(Struct):
    partition_index: Int32 = 0
    broker_ids: list[Int32] = array()


class CreatableTopicConfig(Struct):
    name: String = ""
    value: NullableString = ""


@response_to(CreateTopicsRequest)
class CreateTopicsResponse(Message):
    """An error code for each topic; from version 5 its properties too."""

    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = array()


class CreatableTopicResult(Struct):
    name: String = ""
    topic_id: Uuid = since(7, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = ""
    topic_config_error_code: Int16 = tagged(0, since=5, ignorable=True)
    num_partitions: Int32 = since(5, default=-1, ignorable=True)
    replication_factor: Int16 = since(5, default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = since(5, ignorable=True)


class CreatableTopicConfigs(Struct):
    name: String = since(5)
    value: NullableString = since(5)
    read_only: Bool = since(5)
    config_source: Int8 = since(5, default=-1, ignorable=True)
    is_sensitive: Bool = since(5)
