"""DeleteShareGroupState (key 86, version 0): the group coordinator has the share coordinator delete the
state of share-partitions (KIP-932). Only brokers send it.
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    Uuid,
    array,
    message,
    response_to,
)


@message(key=86, versions=(0, 0), flexible_from=0)
class DeleteShareGroupStateRequest(Message):
    """The share-partitions."""

    group_id: String = ""
    topics: list[DeleteStateData] = array()


class DeleteStateData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = array()


class PartitionData(Struct):
    partition: Int32 = 0


@response_to(DeleteShareGroupStateRequest)
class DeleteShareGroupStateResponse(Message):
    """An error code for each share-partition."""

    results: list[DeleteStateResult] = array()


class DeleteStateResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = array()


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
