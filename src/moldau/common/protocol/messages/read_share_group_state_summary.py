"""ReadShareGroupStateSummary (key 87, versions 0-1): where share-partitions begin (KIP-932). Only brokers
send it.

v1   delivery_complete_count (KIP-1226)
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


@message(key=87, versions=(0, 1), flexible_from=0)
class ReadShareGroupStateSummaryRequest(Message):
    """The share-partitions; leader epoch -1: not known."""

    group_id: String = ""
    topics: list[ReadStateSummaryData] = array()


class ReadStateSummaryData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = array()


class PartitionData(Struct):
    partition: Int32 = 0
    leader_epoch: Int32 = 0


@response_to(ReadShareGroupStateSummaryRequest)
class ReadShareGroupStateSummaryResponse(Message):
    """The start offset of each (-1: not chosen yet), and how many offsets behind it are done with."""

    results: list[ReadStateSummaryResult] = array()


class ReadStateSummaryResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = array()


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = since(1, default=-1, ignorable=True)
