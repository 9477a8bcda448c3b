"""OffsetCommit (key 8, versions 2-10): a consumer stores how far it has read.

v3   answer: throttle_time_ms
v5   without retention_time_ms: the broker's setting rules
v6   committed_leader_epoch (KIP-320)
v7   group_instance_id (static membership, KIP-345)
v8   flexible
v9   may come from a KIP-848 member; the generation is then its member epoch
v10  topic ids instead of names
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
    Uuid,
    array,
    field,
    message,
    response_to,
    since,
)


@message(key=8, versions=(2, 10), flexible_from=8)
class OffsetCommitRequest(Message):
    """Offsets to commit for a group, on behalf of one of its members."""

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: NullableString = since(7, default=None)
    retention_time_ms: Int64 = field(default=-1, until=4, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array()


class OffsetCommitRequestTopic(Struct):
    name: String = field(until=9, ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array()


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(6, default=-1, ignorable=True)
    committed_metadata: NullableString = ""


@response_to(OffsetCommitRequest)
class OffsetCommitResponse(Message):
    """An error code for each partition."""

    throttle_time_ms: Int32 = since(3, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array()


class OffsetCommitResponseTopic(Struct):
    name: String = field(until=9, ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array()


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
