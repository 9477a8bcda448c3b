"""InitializeShareGroupState (key 83, version 0): the group coordinator has the share coordinator begin the
state of share-partitions (KIP-932). Only brokers send it.
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
)


@message(key=83, versions=(0, 0), flexible_from=0)
class InitializeShareGroupStateRequest(Message):
    """Start offset -1: the partition's leader chooses it by share.auto.offset.reset."""

    group_id: String = ""
    topics: list[InitializeStateData] = array()


class InitializeStateData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = array()


class PartitionData(Struct):
    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0


@response_to(InitializeShareGroupStateRequest)
class InitializeShareGroupStateResponse(Message):
    """An error code for each share-partition."""

    results: list[InitializeStateResult] = array()


class InitializeStateResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = array()


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
