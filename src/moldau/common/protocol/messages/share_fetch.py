"""ShareFetch (key 78, versions 1-2): records of share-partitions, acquired for one member (KIP-932), with the
acknowledgements of earlier ones.

v1   max_records, batch_size
v2   share_acquire_mode (KIP-1206), is_renew_ack (KIP-1222)

Version 0 was early access.
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
    Bool,
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
    struct,
)

MAX_BYTES = 0x7FFFFFFF


@message(key=78, versions=(1, 2), flexible_from=0)
class ShareFetchRequest(Message):
    """Share session epoch: 0 opens a session, -1 closes it. Acquire mode: 0 whole batches, 1 at most
    `max_records`. Topics are those that the session lacks, and those with acknowledgements."""

    group_id: NullableString = None
    member_id: NullableString = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = MAX_BYTES
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Int8 = since(2)
    is_renew_ack: Bool = since(2)
    topics: list[FetchTopic] = array()
    forgotten_topics_data: list[ForgottenTopic] = array()


class FetchTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[FetchPartition] = array()


class FetchPartition(Struct):
    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = array()


class AcknowledgementBatch(Struct):
    """Offsets, both inclusive; one type for all, or one for each. 0 gap, 1 accept, 2 release, 3 reject,
    4 renew."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = array()


class ForgottenTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = array()


@response_to(ShareFetchRequest)
class ShareFetchResponse(Message):
    """Records, which of them are acquired, and what became of the acknowledgements."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[ShareFetchableTopicResponse] = array()
    node_endpoints: list[NodeEndpoint] = array()


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = array()


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = struct()
    records: Records = field(default=b"", nullable_since=3)  # null was allowed in version 0 only
    acquired_records: list[AcquiredRecords] = array()


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
