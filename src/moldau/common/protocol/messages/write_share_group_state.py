"""WriteShareGroupState (key 85, versions 0-1): the leader of a share-partition writes what changed in its
state (KIP-932). Only brokers send it.

v1   delivery_complete_count (KIP-1226)
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
    since,
)


@message(key=85, versions=(0, 1), flexible_from=0)
class WriteShareGroupStateRequest(Message):
    """Changes of share-partitions."""

    group_id: String = ""
    topics: list[WriteStateData] = array()


class WriteStateData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = array()


class PartitionData(Struct):
    """Start offset -1: unchanged. `delivery_complete_count`: how many offsets from the start offset on are
    done with; -1: not known."""

    partition: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = since(1, default=-1, ignorable=True)
    state_batches: list[StateBatch] = array()


class StateBatch(Struct):
    """Offsets, both inclusive. Delivery state: 0 available, 2 acknowledged, 4 archived."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@response_to(WriteShareGroupStateRequest)
class WriteShareGroupStateResponse(Message):
    """An error code for each share-partition."""

    results: list[WriteStateResult] = array()


class WriteStateResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = array()


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
