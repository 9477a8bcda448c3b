"""WriteTxnMarkers, versions 1-2: a transaction coordinator writes COMMIT or ABORT to partitions that this
broker leads.

    v1  flexible    v2  transaction version (KIP-1228)
Operators abort hanging transactions with it (KIP-664). The partition's log refuses markers of a fenced
producer or coordinator. A producer id or epoch below 0 is refused (Kafka answers UNKNOWN_SERVER_ERROR). Not
here: sending markers to other brokers (coordinator/markers.py).
"""

from collections.abc import Awaitable, Generator

from moldau.coordinator.markers import Marker, TopicPartition
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@handles(WriteTxnMarkersRequest)
def write_txn_markers(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> Awaitable[WriteTxnMarkersResponse]:
    return _write(broker, request)


async def _write(broker: Broker, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    results = []
    slices = broker.slow_lane.slices()
    for row in request.markers:
        if slices.spent():
            await slices.next_slice()
        marker = Marker(
            row.producer_id,
            row.producer_epoch,
            row.coordinator_epoch,
            row.transaction_result,
            row.transaction_version,
        )
        partitions = await slices.run(_partitions(row))
        if row.producer_id < 0 or row.producer_epoch < 0:
            codes = dict.fromkeys(partitions, int(ErrorCode.INVALID_PRODUCER_EPOCH))
        else:
            codes = await broker.markers.write(marker, partitions)
        topics = await slices.run(_topics(row, codes))
        results.append(WritableTxnMarkerResult(producer_id=row.producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=results)


def _partitions(row: WritableTxnMarker) -> Generator[None, None, list[TopicPartition]]:
    partitions = []
    for topic in row.topics:
        for index in topic.partition_indexes:
            partitions.append((topic.name, index))
            yield
        yield
    return partitions


def _topics(
    row: WritableTxnMarker, codes: dict[TopicPartition, int]
) -> Generator[None, None, list[WritableTxnMarkerTopicResult]]:
    topics = []
    for topic in row.topics:
        rows = []
        for index in topic.partition_indexes:
            rows.append(
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=codes[topic.name, index])
            )
            yield
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=rows))
        yield
    return topics
