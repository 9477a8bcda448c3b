"""OffsetForLeaderEpoch (key 23, versions 2-4): where a leader epoch ended, so that a follower or consumer
can find where it diverges.

    v3   replica_id; -2 is a consumer's debugging tool
    v4   flexible
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
    since,
)


@message(key=23, versions=(2, 4), flexible_from=4)
class OffsetForLeaderEpochRequest(Message):
    """The epochs to look up."""

    replica_id: Int32 = since(3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array()


class OffsetForLeaderTopic(Struct):
    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = array()


class OffsetForLeaderPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


@response_to(OffsetForLeaderEpochRequest)
class OffsetForLeaderEpochResponse(Message):
    """For each partition the epoch found and its end offset."""

    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = array()


class OffsetForLeaderTopicResult(Struct):
    topic: String = ""
    partitions: list[EpochEndOffset] = array()


class EpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1
