"""Fetch (key 1, versions 4-18): a consumer or a follower asks for record batches from given offsets.

v5   log_start_offset; answer: log_start_offset
v7   fetch sessions (KIP-227)
v9   leader epoch for fencing (KIP-320)
v10  zstd allowed
v11  rack_id; answer: preferred_read_replica
v12  divergence by epoch for followers; flexible
v13  topic ids instead of names (KIP-516)
v14  OFFSET_MOVED_TO_TIERED_STORAGE may be answered
v15  replica_state (tagged) instead of replica_id (KIP-903)
v16  answer: node_endpoints (KIP-951)
v17  replica_directory_id (KIP-853)
v18  high_watermark of the follower (KIP-1166)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int8,
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


@message(key=1, versions=(4, 18), flexible_from=12)
class FetchRequest(Message):
    """What to read: partitions with offsets, and how long to wait for how many bytes."""

    cluster_id: NullableString = tagged(0, since=12, default=None, ignorable=True)
    replica_id: Int32 = field(default=-1, until=14)
    replica_state: ReplicaState = tagged(1, since=15)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    isolation_level: Int8 = 0
    session_id: Int32 = since(7, ignorable=True)
    session_epoch: Int32 = since(7, default=-1, ignorable=True)
    topics: list[FetchTopic] = array()
    forgotten_topics_data: list[ForgottenTopic] = since(7)
    rack_id: String = since(11, ignorable=True)


class ReplicaState(Struct):
    replica_id: Int32 = since(15, default=-1)
    replica_epoch: Int64 = since(15, default=-1)


class FetchTopic(Struct):
    topic: String = field(until=12, ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partitions: list[FetchPartition] = array()


class FetchPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = since(9, default=-1, ignorable=True)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = tagged(0, since=17, ignorable=True)
    high_watermark: Int64 = tagged(1, since=18, default=9223372036854775807, ignorable=True)


class ForgottenTopic(Struct):
    topic: String = since(7, until=12, ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partitions: list[Int32] = since(7)


@response_to(FetchRequest)
class FetchResponse(Message):
    """The batches, with each partition's high watermark and last stable offset."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(7, ignorable=True)
    session_id: Int32 = since(7)
    responses: list[FetchableTopicResponse] = array()
    node_endpoints: list[NodeEndpoint] = tagged(0, since=16)


class FetchableTopicResponse(Struct):
    topic: String = field(until=12, ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partitions: list[PartitionData] = array()


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = tagged(0, since=12)
    current_leader: LeaderIdAndEpoch = tagged(1, since=12)
    snapshot_id: SnapshotId = tagged(2, since=12)
    aborted_transactions: list[AbortedTransaction] | None = array()
    preferred_read_replica: Int32 = since(11, default=-1)
    records: Records = None


class EpochEndOffset(Struct):
    epoch: Int32 = since(12, default=-1)
    end_offset: Int64 = since(12, default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = since(12, default=-1)
    leader_epoch: Int32 = since(12, default=-1)


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class NodeEndpoint(Struct):
    node_id: Int32 = since(16)
    host: String = since(16)
    port: Int32 = since(16)
    rack: NullableString = since(16, default=None)
