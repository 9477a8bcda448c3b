"""ListOffsets, versions 1-11: the offset at a moment in a partition's life.

    v2  isolation level    v4  leader epochs    v6  flexible    v7  max timestamp (-3, KIP-734)
    v8  earliest local (-4, KIP-405)    v9  last tiered (-5, KIP-1005)    v11 earliest not yet tiered (-6)

A time of 0 or more asks for the first record that is not older. Nothing is tiered here: the earliest local
offset is the earliest one, and there is no tiered one (-1).
"""

import logging

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.log.segment import CorruptSegment
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.replication.partition import Partition

log = logging.getLogger("moldau.handlers")

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_READ_COMMITTED = 1
_LEADER_EPOCH_FROM = 4


@handles(ListOffsetsRequest)
def list_offsets(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    stable_only = request.isolation_level == _READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(broker, context.api_version, topic.name, asked, stable_only)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(
    broker: Broker, version: int, topic: str, asked: ListOffsetsPartition, stable_only: bool
) -> ListOffsetsPartitionResponse:
    partition = broker.replicas.partition(topic, asked.partition_index)
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    answer.error_code = refusal(broker, partition, asked.current_leader_epoch)
    if partition is None or answer.error_code:
        return answer
    try:
        found = _find(partition, asked.timestamp, stable_only)
    except OSError as error:
        broker.replicas.storage_failed(partition, error)
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer
    except CorruptSegment as error:
        log.error("%s-%d cannot be searched: %s", topic, asked.partition_index, error)
        answer.error_code = ErrorCode.CORRUPT_MESSAGE
        return answer
    if found is not None:
        answer.timestamp, answer.offset, leader_epoch = found
        if version >= _LEADER_EPOCH_FROM:
            answer.leader_epoch = leader_epoch
    return answer


def refusal(broker: Broker, partition: Partition | None, leader_epoch: int) -> int:
    """Why this broker cannot answer a client that knows `leader_epoch` (-1: none); 0 if it can."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not partition.online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if partition.leader != broker.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if leader_epoch >= 0 and leader_epoch != partition.leader_epoch:
        older = leader_epoch < partition.leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
    return 0


def _find(partition: Partition, timestamp: int, stable_only: bool) -> tuple[int, int, int] | None:
    """(timestamp in ms or -1, offset, leader epoch), or None where no record fits."""
    partition_log = partition.log
    end_offset = partition.last_stable_offset if stable_only else partition.high_watermark
    if timestamp == LATEST:
        return -1, end_offset, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD):
        start_offset = partition_log.log_start_offset
        return -1, start_offset, partition_log.epochs.epoch_at(start_offset)
    if timestamp == MAX_TIMESTAMP:
        return partition_log.max_timestamp(end_offset)
    if timestamp < 0:
        return None
    return partition_log.offset_for_timestamp(timestamp, end_offset)
