"""WriteTxnMarkers, versions 1-2: a transaction coordinator writes COMMIT or ABORT to partitions that this
broker leads.

    v1  flexible    v2  transaction version (KIP-1228)
Operators abort hanging transactions with it (KIP-664). The partition's log refuses markers of a fenced
producer or coordinator. A producer id or epoch below 0 is refused (Kafka answers UNKNOWN_SERVER_ERROR), and
so is a coordinator epoch that no partition of __transaction_state has reached: it would fence the coordinator
that there is. (A coordinator whose election this broker has not heard of yet sends its marker again.)

The client must have Alter or ClusterAction on the cluster. All markers are appended before the first is
waited for. Not here: sending markers to other brokers (coordinator/cluster_markers.py).
"""

from collections.abc import Awaitable, Generator

from moldau.broker.coordinator.markers import Marker, TopicPartition
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.broker.metadata.image import TRANSACTION_STATE_TOPIC, Image
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.common.protocol.operations import Operation

COMMIT_TIMEOUT_MS = 5000
"""Coordinators wait for a response twice as long (`REQUEST_TIMEOUT_MS`)."""


@handles(WriteTxnMarkersRequest)
def write_txn_markers(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> Awaitable[WriteTxnMarkersResponse]:
    session = context.session
    permitted = may_on_cluster(broker, session, Operation.ALTER, quiet=True)
    if permitted or may_on_cluster(broker, session, Operation.CLUSTER_ACTION):
        return _write(broker, request)
    return _refuse(broker, request)


async def _refuse(broker: Broker, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    slices = broker.slow_lane.slices()
    response = WriteTxnMarkersResponse()
    for row in request.markers:
        codes: dict[TopicPartition, int] = dict.fromkeys(
            await slices.run(_partitions(row)), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
        topics = await slices.run(_topics(row, codes))
        response.markers.append(WritableTxnMarkerResult(producer_id=row.producer_id, topics=topics))
    return response


async def _write(broker: Broker, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    slices = broker.slow_lane.slices()
    coordinator_epoch_max = _coordinator_epoch_max(broker.metadata.image)
    rows = []
    for row in request.markers:
        if slices.spent():
            await slices.next_slice()
        rows.append((_marker(row), await slices.run(_partitions(row))))
    codes = await broker.markers.write_all(rows, COMMIT_TIMEOUT_MS, coordinator_epoch_max)
    results = []
    for row, row_codes in zip(request.markers, codes, strict=True):
        topics = await slices.run(_topics(row, row_codes))
        results.append(WritableTxnMarkerResult(producer_id=row.producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=results)


def _coordinator_epoch_max(image: Image) -> int:
    """The latest epoch that a coordinator can have."""
    topic = image.topics.get(TRANSACTION_STATE_TOPIC)
    return 0 if topic is None else max(each.leader_epoch for each in topic.partitions)


def _marker(row: WritableTxnMarker) -> Marker:
    return Marker(
        row.producer_id,
        row.producer_epoch,
        row.coordinator_epoch,
        row.transaction_result,
        row.transaction_version,
    )


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
