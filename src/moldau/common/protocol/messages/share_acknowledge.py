"""ShareAcknowledge (key 79, versions 1-2): a member of a share group has dealt with records (KIP-932).

v2   is_renew_ack, acquisition_lock_timeout_ms (KIP-1222)

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
    String,
    Struct,
    Uuid,
    array,
    message,
    response_to,
    since,
    struct,
)


@message(key=79, versions=(1, 2), flexible_from=0)
class ShareAcknowledgeRequest(Message):
    """Acknowledgements by partition, in the member's share session; epoch -1 closes it."""

    group_id: NullableString = None
    member_id: NullableString = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Bool = since(2)
    topics: list[AcknowledgeTopic] = array()


class AcknowledgeTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[AcknowledgePartition] = array()


class AcknowledgePartition(Struct):
    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = array()


class AcknowledgementBatch(Struct):
    """As in ShareFetch."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = array()


@response_to(ShareAcknowledgeRequest)
class ShareAcknowledgeResponse(Message):
    """An error code for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = since(2, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array()
    node_endpoints: list[NodeEndpoint] = array()


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = array()


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = struct()


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
