"""Where partitions end, anywhere in the cluster: for the lag of share groups (KIP-1226).

    led here ──> the high watermark         led elsewhere ──> one ListOffsets request a broker

What cannot be told now is left out: its lag is not known.
"""

import asyncio
from collections.abc import Callable, Sequence

from moldau.broker.metadata.image import Image
from moldau.broker.metadata.leaders import leading_broker
from moldau.broker.peers.peers import PeerError, Peers
from moldau.common.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

TIMEOUT_MS = 5000
_LATEST = -1
_CONSUMER = -1

Place = tuple[str, int]
"""A topic's name and a partition's index."""


class EndOffsets:
    """See the module."""

    def __init__(
        self,
        node_id: int,
        image: Callable[[], Image],
        high_watermark: Callable[[str, int], int | None],
        peers: Peers | None,
    ) -> None:
        """`high_watermark` is that of a partition that is led here, else None."""
        self._node_id = node_id
        self._image = image
        self._high_watermark = high_watermark
        self._peers = peers

    async def __call__(self, places: Sequence[Place]) -> dict[Place, int]:
        """The high watermarks of these partitions."""
        image = self._image()
        found: dict[Place, int] = {}
        elsewhere: dict[int, list[Place]] = {}
        for place in dict.fromkeys(places):
            leader = leading_broker(image, *place)
            if leader is None:
                continue
            if leader.node_id != self._node_id:
                elsewhere.setdefault(leader.node_id, []).append(place)
            elif (offset := self._high_watermark(*place)) is not None:
                found[place] = offset
        if self._peers is not None and elsewhere:
            asked = [self._ask(self._peers, node_id, wanted) for node_id, wanted in elsewhere.items()]
            for answer in await asyncio.gather(*asked):
                found |= answer
        return found

    async def _ask(self, peers: Peers, node_id: int, places: list[Place]) -> dict[Place, int]:
        topics: dict[str, ListOffsetsTopic] = {}
        for name, index in places:
            topic = topics.setdefault(name, ListOffsetsTopic(name=name))
            topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=_LATEST))
        request = ListOffsetsRequest(replica_id=_CONSUMER, topics=list(topics.values()))
        try:
            response = await peers.send(node_id, request, timeout_ms=TIMEOUT_MS, version_min=1)
        except PeerError:
            return {}
        return {
            (topic.name, row.partition_index): row.offset
            for topic in response.topics
            for row in topic.partitions
            if not row.error_code and row.offset >= 0
        }
