"""Produce (key 0, versions 3-13): a producer hands over record batches, one or none a partition.

    v4   the producer understands KAFKA_STORAGE_ERROR
    v5   answer: log_start_offset
    v7   zstd allowed
    v8   answer: record_errors, error_message
    v9   flexible
    v10  answer: current_leader and node_endpoints (KIP-951)
    v11  TRANSACTION_ABORTABLE may be answered (KIP-890)
    v12  a transactional produce adds its partition to the transaction by itself (KIP-890)
    v13  topic ids instead of names (KIP-516)

These are the versions that can be parsed. ApiVersions must advertise version 0 as the lowest all the same:
librdkafka turns compression off for a broker whose lowest Produce version is higher (KAFKA-18659).
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    Records,
    String,
    Struct,
    Uuid,
    array,
    field,
    message,
    response_to,
    since,
    tagged,
)


@message(key=0, versions=(3, 13), flexible_from=9)
class ProduceRequest(Message):
    """Record batches to append; `acks` is 0 (no answer), 1 (leader) or -1 (all in-sync replicas)."""

    transactional_id: NullableString = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = array()


class TopicProduceData(Struct):
    name: String = field(until=12, ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partition_data: list[PartitionProduceData] = array()


class PartitionProduceData(Struct):
    index: Int32 = 0
    records: Records = None


@response_to(ProduceRequest)
class ProduceResponse(Message):
    """Where each partition's batch landed, or why it did not."""

    responses: list[TopicProduceResponse] = array()
    throttle_time_ms: Int32 = 0
    node_endpoints: list[NodeEndpoint] = tagged(0, since=10)


class TopicProduceResponse(Struct):
    name: String = field(until=12, ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array()


class PartitionProduceResponse(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = since(8, ignorable=True)
    error_message: NullableString = since(8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = tagged(0, since=10)


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32 = since(8)
    batch_index_error_message: NullableString = since(8, default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = since(10, default=-1)
    leader_epoch: Int32 = since(10, default=-1)


class NodeEndpoint(Struct):
    node_id: Int32 = since(10)
    host: String = since(10)
    port: Int32 = since(10)
    rack: NullableString = since(10, default=None)
