"""Records: deleted before an offset (KIP-107)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from moldau.client.admin.layout import Place
from moldau.client.admin.routing import metadata
from moldau.client.admin.topics import ANSWER_SECONDS, TIMEOUT_SECONDS
from moldau.client.cluster import Cluster
from moldau.client.errors import ClusterTimeout, Retriable, error_words
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

HIGH_WATERMARK = -1
_LEADER_MOVES = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)


class Trimmed(NamedTuple):
    """Where a partition begins now; or why nothing was deleted."""

    low_watermark: int
    error_code: int


def delete_records(
    cluster: Cluster, before: Mapping[Place, int], *, timeout_seconds: float = TIMEOUT_SECONDS
) -> dict[Place, Trimmed]:
    """Delete the records before these offsets (HIGH_WATERMARK: all), at the leaders, one request each. What
    became of each partition, in the order asked for; one that has no leader until the end of the time limit
    has that as its error.
    """
    found: dict[Place, Trimmed] = {}
    moving: dict[Place, int] = {}

    def attempt() -> None:
        moving.clear()
        of_leader: dict[int, dict[Place, int]] = defaultdict(dict)
        left = {place: offset for place, offset in before.items() if place not in found}
        topics = metadata(cluster, sorted({topic for topic, _ in left})).topics
        refusals = {topic.name: topic.error_code for topic in topics if topic.error_code}
        known = {
            (topic.name, each.partition_index): each.leader_id
            for topic in topics
            for each in topic.partitions
        }
        for place, offset in left.items():
            if place not in known:
                code = refusals.get(place[0], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                found[place] = Trimmed(-1, code)
            elif known[place] < 0:
                moving[place] = ErrorCode.LEADER_NOT_AVAILABLE
            else:
                of_leader[known[place]][place] = offset
        for leader, mine in sorted(of_leader.items()):
            for place, row in _ask_leader(cluster, leader, mine, timeout_seconds).items():
                if row.error_code in _LEADER_MOVES:
                    moving[place] = row.error_code
                else:
                    found[place] = row
        for code in moving.values():
            raise Retriable(error_words(code), code)

    try:
        cluster.persist("delete records", attempt)
    except ClusterTimeout:
        if not moving:
            raise
    late = ErrorCode.REQUEST_TIMED_OUT
    return {place: found.get(place) or Trimmed(-1, moving.get(place, late)) for place in before}


def _ask_leader(
    cluster: Cluster, leader: int, before: Mapping[Place, int], timeout_seconds: float
) -> dict[Place, Trimmed]:
    topics: dict[str, list[DeleteRecordsPartition]] = defaultdict(list)
    for (topic, index), offset in before.items():
        topics[topic].append(DeleteRecordsPartition(partition_index=index, offset=offset))
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=rows) for name, rows in topics.items()],
        timeout_ms=int(timeout_seconds * 1000),
    )
    answer = cluster.broker(leader).ask(request, timeout_seconds=timeout_seconds + ANSWER_SECONDS)
    return {
        (topic.name, each.partition_index): Trimmed(each.low_watermark, each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }
