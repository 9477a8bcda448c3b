"""DeleteRecords (key 21, versions 0-2): delete the records before an offset.

v2   flexible
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    array,
    message,
    response_to,
)


@message(key=21, versions=(0, 2), flexible_from=2)
class DeleteRecordsRequest(Message):
    """For each partition the first offset that stays; -1 is the high watermark."""

    topics: list[DeleteRecordsTopic] = array()
    timeout_ms: Int32 = 0


class DeleteRecordsTopic(Struct):
    name: String = ""
    partitions: list[DeleteRecordsPartition] = array()


class DeleteRecordsPartition(Struct):
    partition_index: Int32 = 0
    offset: Int64 = 0


@response_to(DeleteRecordsRequest)
class DeleteRecordsResponse(Message):
    """Each partition's new low watermark."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = array()


class DeleteRecordsTopicResult(Struct):
    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = array()


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0
