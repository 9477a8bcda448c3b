"""ReadShareGroupState (key 84, version 0): the leader of a share-partition reads its state (KIP-932), and
fences earlier leaders by its epoch. Only brokers send it.
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
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
)


@message(key=84, versions=(0, 0), flexible_from=0)
class ReadShareGroupStateRequest(Message):
    """The share-partitions, each with its leader's epoch."""

    group_id: String = ""
    topics: list[ReadStateData] = array()


class ReadStateData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = array()


class PartitionData(Struct):
    partition: Int32 = 0
    leader_epoch: Int32 = 0


@response_to(ReadShareGroupStateRequest)
class ReadShareGroupStateResponse(Message):
    """The state of each; start offset -1: not chosen yet."""

    results: list[ReadStateResult] = array()


class ReadStateResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = array()


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[StateBatch] = array()


class StateBatch(Struct):
    """Offsets, both inclusive. Delivery state: 0 available, 2 acknowledged, 4 archived."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0
