"""Questions to the leader of one partition at the source: where its log begins and ends, and where a leader
epoch ended there. A broker that knows that it does not lead in this epoch refuses to answer.
"""

from moldau.broker.mirror.machine import EpochEnd
from moldau.broker.mirror.source import SourceCluster
from moldau.broker.mirror.source import SourcePartition as Leader
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from moldau.common.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.common.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_BY_NAME_MAX = 12
_EARLIEST, _LATEST = -2, -1
_CONSUMER = -1
_EPOCHS_MIN = 3
"""From this version on a consumer's rights suffice (Kafka 2.3)."""


async def ask_offsets(source: SourceCluster, leader: Leader, topic: str, index: int) -> tuple[int, int] | int:
    """Where the log begins and ends (its high watermark), or the error code. PeerError."""
    found = []
    for timestamp in (_EARLIEST, _LATEST):
        row = ListOffsetsPartition(
            partition_index=index, timestamp=timestamp, current_leader_epoch=leader.leader_epoch
        )
        request = ListOffsetsRequest(
            replica_id=_CONSUMER, topics=[ListOffsetsTopic(name=topic, partitions=[row])]
        )
        answer: ListOffsetsResponse = await source.send(leader.leader, request, version_min=1)
        told = answer.topics[0].partitions[0] if answer.topics and answer.topics[0].partitions else None
        if told is None:
            return int(ErrorCode.UNKNOWN_SERVER_ERROR)
        if told.error_code:
            return told.error_code
        found.append(told.offset)
    return found[0], found[1]


async def ask_epoch_end(
    source: SourceCluster, leader: Leader, topic: str, index: int, epoch: int
) -> EpochEnd | int:
    """The largest leader epoch up to this one that is known there, and its end; or the error code.
    PeerError, Unsupported.
    """
    row = OffsetForLeaderPartition(
        partition=index, leader_epoch=epoch, current_leader_epoch=leader.leader_epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER, topics=[OffsetForLeaderTopic(topic=topic, partitions=[row])]
    )
    answer: OffsetForLeaderEpochResponse = await source.send(leader.leader, request, version_min=_EPOCHS_MIN)
    told = answer.topics[0].partitions[0] if answer.topics and answer.topics[0].partitions else None
    if told is None:
        return int(ErrorCode.UNKNOWN_SERVER_ERROR)
    return told.error_code or EpochEnd(told.leader_epoch, told.end_offset)


async def ask_batch(
    source: SourceCluster, leader: Leader, topic: str, index: int, offset: int
) -> bytes | memoryview | int:
    """The batches from the one on that holds this offset, at least one, or none; or the error code.
    PeerError.
    """
    row = FetchPartition(
        partition=index, current_leader_epoch=leader.leader_epoch, fetch_offset=offset, partition_max_bytes=1
    )
    request = FetchRequest(min_bytes=0, max_bytes=1, topics=[FetchTopic(topic=topic, partitions=[row])])
    answer: FetchResponse = await source.send(leader.leader, request, version_min=4, version_max=_BY_NAME_MAX)
    if answer.error_code:
        return answer.error_code
    told = answer.responses[0].partitions[0] if answer.responses and answer.responses[0].partitions else None
    if told is None:
        return int(ErrorCode.UNKNOWN_SERVER_ERROR)
    return told.error_code or (told.records or b"")
