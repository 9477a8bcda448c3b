"""OffsetFetch (key 9, versions 1-10): what offsets a group has committed.

v2   null topics: all that the group has
v3   answer: throttle_time_ms
v5   answer: committed_leader_epoch
v6   flexible
v7   require_stable: wait for open transactions (KIP-447)
v8   several groups at once (KIP-709)
v9   member_id and member_epoch of a KIP-848 member
v10  topic ids instead of names
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Struct,
    Uuid,
    field,
    message,
    response_to,
    since,
)


@message(key=9, versions=(1, 10), flexible_from=6)
class OffsetFetchRequest(Message):
    """The group, or from version 8 the groups, whose offsets are asked for; null topics mean all."""

    group_id: String = field(until=7)
    topics: list[OffsetFetchRequestTopic] | None = field(until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = since(8)
    require_stable: Bool = since(7)


class OffsetFetchRequestTopic(Struct):
    name: String = field(until=7)
    partition_indexes: list[Int32] = field(until=7)


class OffsetFetchRequestGroup(Struct):
    group_id: String = since(8)
    member_id: NullableString = since(9, default=None, ignorable=True)
    member_epoch: Int32 = since(9, default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = since(8)


class OffsetFetchRequestTopics(Struct):
    name: String = since(8, until=9, ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partition_indexes: list[Int32] = since(8)


@response_to(OffsetFetchRequest)
class OffsetFetchResponse(Message):
    """Committed offsets with their metadata; -1 where there is none."""

    throttle_time_ms: Int32 = since(3, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(until=7)
    error_code: Int16 = since(2, until=7, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = since(8)


class OffsetFetchResponseTopic(Struct):
    name: String = field(until=7)
    partitions: list[OffsetFetchResponsePartition] = field(until=7)


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32 = field(until=7)
    committed_offset: Int64 = field(until=7)
    committed_leader_epoch: Int32 = since(5, default=-1, until=7, ignorable=True)
    metadata: NullableString = field(until=7)
    error_code: Int16 = field(until=7)


class OffsetFetchResponseGroup(Struct):
    group_id: String = since(8)
    topics: list[OffsetFetchResponseTopics] = since(8)
    error_code: Int16 = since(8)


class OffsetFetchResponseTopics(Struct):
    name: String = since(8, until=9, ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = since(8)


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32 = since(8)
    committed_offset: Int64 = since(8)
    committed_leader_epoch: Int32 = since(8, default=-1, ignorable=True)
    metadata: NullableString = since(8)
    error_code: Int16 = since(8)
