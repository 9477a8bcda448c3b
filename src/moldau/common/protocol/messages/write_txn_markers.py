"""WriteTxnMarkers (key 27, versions 1-2): the transaction coordinator has commit or abort markers written.

v2   transaction_version (KIP-1228)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
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


@message(key=27, versions=(1, 2), flexible_from=1)
class WriteTxnMarkersRequest(Message):
    """The markers and the partitions they go to."""

    markers: list[WritableTxnMarker] = array()


class WritableTxnMarker(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: list[WritableTxnMarkerTopic] = array()
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = since(2, ignorable=True)


class WritableTxnMarkerTopic(Struct):
    name: String = ""
    partition_indexes: list[Int32] = array()


@response_to(WriteTxnMarkersRequest)
class WriteTxnMarkersResponse(Message):
    """An error code for each partition of each marker."""

    markers: list[WritableTxnMarkerResult] = array()


class WritableTxnMarkerResult(Struct):
    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = array()


class WritableTxnMarkerTopicResult(Struct):
    name: String = ""
    partitions: list[WritableTxnMarkerPartitionResult] = array()


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
