"""Where a follower goes on when its leader has nothing at the offset that it asked for.

    leader's log starts above our end    its older records were deleted: drop ours, begin at its start
    leader's log ends below our end      our log is empty and begins too high: begin at its start
                                         our records are older than leader epochs: cut at its end

In the last case a log with leader epochs would have been told a diverging epoch instead. Kafka begins at the
leader's end also with an empty log, and never gets the records before it.
"""

from typing import NamedTuple

from moldau.broker.peers.peers import Peers
from moldau.broker.replication.following.followed import Followed
from moldau.common.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_LATEST, _EARLIEST = -1, -2
_VERSION_MIN = 4  # with leader epochs


class NewStart(NamedTuple):
    """Where to go on: cut the log there, or (`anew`) drop all of it."""

    offset: int
    anew: bool


async def find_start(
    peers: Peers, leader: int, node_id: int, followed: Followed, timeout_ms: int
) -> NewStart | None:
    """Where this partition's log goes on; None: the leader refuses to say, or has records at its position by
    now. PeerError.
    """
    log, position = followed.partition.log, followed.position
    end_offset = await _offset(peers, leader, node_id, followed, _LATEST, timeout_ms)
    if end_offset is None:
        return None
    if end_offset < position.offset and log.log_start_offset < log.log_end_offset:
        return NewStart(end_offset, anew=False)
    start_offset = await _offset(peers, leader, node_id, followed, _EARLIEST, timeout_ms)
    if start_offset is None or start_offset <= position.offset <= end_offset:
        return None
    return NewStart(start_offset, anew=True)


async def _offset(
    peers: Peers, leader: int, node_id: int, followed: Followed, timestamp: int, timeout_ms: int
) -> int | None:
    row = ListOffsetsPartition(
        partition_index=followed.partition.index,
        current_leader_epoch=followed.position.leader_epoch,
        timestamp=timestamp,
    )
    request = ListOffsetsRequest(
        replica_id=node_id, topics=[ListOffsetsTopic(name=followed.partition.topic, partitions=[row])]
    )
    answer: ListOffsetsResponse = await peers.send(
        leader, request, timeout_ms=timeout_ms, version_min=_VERSION_MIN
    )
    for topic in answer.topics:
        for found in topic.partitions:
            return None if found.error_code or found.offset < 0 else found.offset
    return None
