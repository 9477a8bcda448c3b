"""DescribeProducers (key 61, version 0): the idempotent and transactional producers that partitions know."""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    response_to,
)


@message(key=61, versions=(0, 0), flexible_from=0)
class DescribeProducersRequest(Message):
    """The partitions."""

    topics: list[TopicRequest] = array()


class TopicRequest(Struct):
    name: String = ""
    partition_indexes: list[Int32] = array()


@response_to(DescribeProducersRequest)
class DescribeProducersResponse(Message):
    """Each partition's active producers."""

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = array()


class TopicResponse(Struct):
    name: String = ""
    partitions: list[PartitionResponse] = array()


class PartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    active_producers: list[ProducerState] = array()


class ProducerState(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1
