"""The cluster's form of `MarkerWriter`: each marker goes to the broker that leads its partition.

    write ──┬── led here ──> LocalMarkers
            └── led elsewhere ──> queue of that broker ──> WriteTxnMarkers, with markers of many transactions

Whether a request that got no response was carried out is unknown; its markers count as not written, and are
written again, which changes nothing. Nobody waits for a broker that no longer leads: when the metadata show
another leader, markers that are queued for, or sent to, the former one are answered NOT_LEADER_OR_FOLLOWER.
Nor do partitions elsewhere wait long for one here that cannot commit: each may need another attempt.

Not here: what is tried again, and when (transaction/delivery.py); one request at a time to each broker
(request_queue.py); the receiving end (transactions/write_txn_markers.py).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from moldau.broker.coordinator.markers import Marker, TopicPartition
from moldau.broker.coordinator.request_queue import RequestQueue
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.leaders import leading_broker
from moldau.broker.peers.peers import Peers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

REQUEST_TIMEOUT_MS = 10_000
"""The other broker answers within half of this, also for what is not committed there yet."""

COMMIT_TIMEOUT_MS = 5_000
"""For partitions that are led here, as for those of others."""

REQUEST_PARTITIONS_MAX = 1000
"""Partitions of one request: a millisecond or two to encode."""


class Here(Protocol):
    """Writes markers to the partitions that this broker leads."""

    def write(
        self, marker: Marker, partitions: Sequence[TopicPartition], timeout_ms: int | None = None
    ) -> Awaitable[dict[TopicPartition, int]]:
        """As `MarkerWriter.write`; what is not committed after `timeout_ms` is answered with an error."""


class ClusterMarkers:
    """Writes markers to partitions anywhere in the cluster."""

    def __init__(self, node_id: int, image: Callable[[], Image], local: Here, peers: Peers) -> None:
        self._node_id = node_id
        self._image = image
        self._local = local
        self._peers = peers
        self._queues: dict[int, RequestQueue[_Due]] = {}
        self._closed = False

    async def write(self, marker: Marker, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """As `MarkerWriter.write`. Cancelling it takes back what has not been sent."""
        image = self._image()
        codes: dict[TopicPartition, int] = {}
        here: list[TopicPartition] = []
        remote = _Remote(marker)
        for place in dict.fromkeys(partitions):
            leader = leading_broker(image, *place)
            if leader is None:
                codes[place] = _without_leader(image, place)
            elif leader.node_id == self._node_id:
                here.append(place)
            elif self._closed:
                codes[place] = ErrorCode.NETWORK_EXCEPTION
            else:
                remote.waiting[place] = None
                self._queue(leader.node_id).add((remote, place))
        try:
            if here:
                codes |= await self._local.write(marker, here, COMMIT_TIMEOUT_MS)
            if remote.waiting:
                await remote.settled
        finally:
            remote.waiting.clear()
        return codes | remote.codes

    def _queue(self, node_id: int) -> "RequestQueue[_Due]":
        queue = self._queues.get(node_id)
        if queue is None:
            queue = self._queues[node_id] = RequestQueue(node_id, self._peers, _MARKERS)
        return queue

    def image_changed(self, image: Image) -> None:
        """The metadata changed: wait no longer for brokers that do not lead any more."""
        for node_id, queue in self._queues.items():
            for remote, place in queue.under_way():
                if place not in remote.waiting:
                    continue
                leader = leading_broker(image, *place)
                if leader is None:
                    remote.settle(place, _without_leader(image, place))
                elif leader.node_id != node_id:
                    remote.settle(place, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def close(self) -> None:
        """The broker stops: send nothing more."""
        self._closed = True
        for queue in self._queues.values():
            queue.close()


class _Remote:
    """One marker, and its partitions on other brokers. One that is not `waiting` has its answer, or nobody
    waits for it any more."""

    __slots__ = ("codes", "marker", "settled", "waiting")

    def __init__(self, marker: Marker) -> None:
        self.marker = marker
        self.waiting: dict[TopicPartition, None] = {}
        self.codes: dict[TopicPartition, int] = {}
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle(self, place: TopicPartition, error_code: int) -> None:
        """The partition's answer; only the first counts."""
        if place in self.waiting:
            del self.waiting[place]
            self.codes[place] = error_code
            if not self.waiting and not self.settled.done():
                self.settled.set_result(None)


_Due = tuple[_Remote, TopicPartition]


class _Markers:
    """WriteTxnMarkers: a `Kind` of request."""

    name = "markers of transactions could not be written"
    timeout_ms = REQUEST_TIMEOUT_MS
    version_min = 1

    def next_due(self, queued: deque[_Due]) -> list[_Due]:
        """Of one producer only one marker, since the response tells them apart by the producer's id."""
        due: list[_Due] = []
        deferred: list[_Due] = []
        markers: dict[int, Marker] = {}
        while queued and len(due) < REQUEST_PARTITIONS_MAX:
            remote, place = each = queued.popleft()
            if place not in remote.waiting:
                continue
            marker = remote.marker
            (due if markers.setdefault(marker.producer_id, marker) == marker else deferred).append(each)
        queued.extendleft(reversed(deferred))
        return due

    def request(self, due: list[_Due]) -> WriteTxnMarkersRequest:
        """Each marker once, with all of its partitions."""
        rows: dict[Marker, dict[str, list[int]]] = {}
        for remote, (topic, index) in due:
            rows.setdefault(remote.marker, {}).setdefault(topic, []).append(index)
        return WriteTxnMarkersRequest(markers=[_row(marker, topics) for marker, topics in rows.items()])

    def answered(self, due: Iterable[_Due], response: WriteTxnMarkersResponse | None) -> None:
        """A partition that is missing in the response counts as not written."""
        codes = {
            (row.producer_id, topic.name, partition.partition_index): partition.error_code
            for row in (response.markers if response is not None else ())
            for topic in row.topics
            for partition in topic.partitions
        }
        for remote, place in due:
            remote.settle(place, codes.get((remote.marker.producer_id, *place), ErrorCode.NETWORK_EXCEPTION))


_MARKERS = _Markers()


def _row(marker: Marker, topics: dict[str, list[int]]) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _without_leader(image: Image, place: TopicPartition) -> int:
    topic = image.topics.get(place[0])
    known = topic is not None and place[1] < len(topic.partitions)
    return ErrorCode.LEADER_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
