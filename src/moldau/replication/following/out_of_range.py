"""Where a follower goes on when its leader has nothing at the offset that it asked for.

    leader's log starts above our end      its older records were deleted: drop ours, begin at its start
    leader's log ends below our end        our log is empty and begins too high: begin at its end

In the second case a log with records would have been told a diverging epoch instead. (As in Kafka.)
"""

from moldau.peers.peers import Peers
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.replication.following.followed import Followed

_LATEST, _EARLIEST = -1, -2
_VERSION_MIN = 4  # with leader epochs


async def find_start(
    peers: Peers, leader: int, node_id: int, followed: Followed, timeout_ms: int
) -> int | None:
    """The offset from which the leader has the partition, and at which the log is to begin anew; None: it
    refuses to say. PeerError.
    """
    end_offset = await _offset(peers, leader, node_id, followed, _LATEST, timeout_ms)
    if end_offset is None or end_offset < followed.position.offset:
        return end_offset
    return await _offset(peers, leader, node_id, followed, _EARLIEST, timeout_ms)


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
