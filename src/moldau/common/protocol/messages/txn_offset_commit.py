"""TxnOffsetCommit (key 28, versions 0-5): offsets to be committed if and only if a transaction commits.

v2   committed_leader_epoch
v3   generation, member and instance ids, for fencing (KIP-447); flexible
v4   TRANSACTION_ABORTABLE may be answered (KIP-890)
v5   adds the group to the transaction by itself (KIP-890)
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
    array,
    message,
    response_to,
    since,
)


@message(key=28, versions=(0, 5), flexible_from=3)
class TxnOffsetCommitRequest(Message):
    """The offsets, the group and the transaction."""

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = since(3, default=-1)
    member_id: String = since(3)
    group_instance_id: NullableString = since(3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array()


class TxnOffsetCommitRequestTopic(Struct):
    name: String = ""
    partitions: list[TxnOffsetCommitRequestPartition] = array()


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(2, default=-1, ignorable=True)
    committed_metadata: NullableString = ""


@response_to(TxnOffsetCommitRequest)
class TxnOffsetCommitResponse(Message):
    """An error code for each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = array()


class TxnOffsetCommitResponseTopic(Struct):
    name: String = ""
    partitions: list[TxnOffsetCommitResponsePartition] = array()


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
