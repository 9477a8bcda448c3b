"""DescribeShareGroupOffsets (key 90, versions 0-1): where the share-partitions of groups begin (KIP-932).

v1   lag (KIP-1226)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
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
)


@message(key=90, versions=(0, 1), flexible_from=0)
class DescribeShareGroupOffsetsRequest(Message):
    """The groups."""

    groups: list[RequestGroup] = array()


class RequestGroup(Struct):
    """Topics null: all of the group's."""

    group_id: String = ""
    topics: list[RequestTopic] | None = None


class RequestTopic(Struct):
    topic_name: String = ""
    partitions: list[Int32] = array()


@response_to(DescribeShareGroupOffsetsRequest)
class DescribeShareGroupOffsetsResponse(Message):
    """The groups' start offsets."""

    throttle_time_ms: Int32 = 0
    groups: list[ResponseGroup] = array()


class ResponseGroup(Struct):
    group_id: String = ""
    topics: list[ResponseTopic] = array()
    error_code: Int16 = 0
    error_message: NullableString = None


class ResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[ResponsePartition] = array()


class ResponsePartition(Struct):
    """Start offset -1: not chosen yet. Lag -1: not known."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Int64 = since(1, default=-1, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = None
