"""Questions to the leader of one partition at the source: where its log begins and ends, and where a leader
epoch ended there.
"""

from moldau.broker.mirror.machine import EpochEnd
from moldau.broker.mirror.source import SourceCluster
from moldau.common.protocol.errors import ErrorCode
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

_EARLIEST, _LATEST = -2, -1
_CONSUMER = -1
_EPOCHS_MIN = 3
"""From this version on a consumer's rights suffice (Kafka 2.3)."""


async def ask_offsets(source: SourceCluster, leader: int, topic: str, index: int) -> tuple[int, int] | int:
    """Where the log begins and ends (its high watermark), or the error code. PeerError."""
    found = []
    for timestamp in (_EARLIEST, _LATEST):
        row = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=_CONSUMER, topics=[ListOffsetsTopic(name=topic, partitions=[row])]
        )
        answer: ListOffsetsResponse = await source.send(leader, request, version_min=1)
        told = answer.topics[0].partitions[0] if answer.topics and answer.topics[0].partitions else None
        if told is None:
            return int(ErrorCode.UNKNOWN_SERVER_ERROR)
        if told.error_code:
            return told.error_code
        found.append(told.offset)
    return found[0], found[1]


async def ask_epoch_end(
    source: SourceCluster, leader: int, topic: str, index: int, epoch: int
) -> EpochEnd | int:
    """The largest leader epoch up to this one that is known there, and its end; or the error code.
    PeerError, Unsupported.
    """
    row = OffsetForLeaderPartition(partition=index, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER, topics=[OffsetForLeaderTopic(topic=topic, partitions=[row])]
    )
    answer: OffsetForLeaderEpochResponse = await source.send(leader, request, version_min=_EPOCHS_MIN)
    told = answer.topics[0].partitions[0] if answer.topics and answer.topics[0].partitions else None
    if told is None:
        return int(ErrorCode.UNKNOWN_SERVER_ERROR)
    return told.error_code or EpochEnd(told.leader_epoch, told.end_offset)
