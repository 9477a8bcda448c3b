"""ListOffsets (key 2, versions 1-11): which offset belongs to a timestamp, or to an end of the log.

v2   isolation_level
v4   leader epochs for fencing (KIP-320)
v6   flexible
v7   timestamp -3: the record with the highest timestamp (KIP-734)
v8   timestamp -4: earliest local offset (KIP-405)
v9   timestamp -5: latest tiered offset (KIP-1005)
v10  timeout_ms, for lookups in remote storage (KIP-1075)
v11  timestamp -6: earliest offset not yet uploaded (KIP-1023)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    array,
    message,
    response_to,
    since,
)


@message(key=2, versions=(1, 11), flexible_from=6)
class ListOffsetsRequest(Message):
    """Timestamps to look up, one a partition; -1 is the latest offset, -2 the earliest."""

    replica_id: Int32 = 0
    isolation_level: Int8 = since(2)
    topics: list[ListOffsetsTopic] = array()
    timeout_ms: Int32 = since(10, ignorable=True)


class ListOffsetsTopic(Struct):
    name: String = ""
    partitions: list[ListOffsetsPartition] = array()


class ListOffsetsPartition(Struct):
    partition_index: Int32 = 0
    current_leader_epoch: Int32 = since(4, default=-1, ignorable=True)
    timestamp: Int64 = 0


@response_to(ListOffsetsRequest)
class ListOffsetsResponse(Message):
    """The offset, timestamp and leader epoch found for each partition."""

    throttle_time_ms: Int32 = since(2, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array()


class ListOffsetsTopicResponse(Struct):
    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = array()


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = since(4, default=-1)
