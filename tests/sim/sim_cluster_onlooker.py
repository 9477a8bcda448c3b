"""Somebody who asks what a group has committed just while commits are under way.

A coordinator decides at once and answers once that is committed; so whatever it tells must lie in its log,
below the high watermark. Whether it does is read from the brokers' disks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from sim_client import Disconnected
from sim_cluster_invariants import ClusterInvariants, Copy
from sim_cluster_worker import Everywhere
from sim_network import Endpoint
from sim_routes import ClusterClient
from sim_world import World

from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC
from moldau.common.protocol.messages.offset_fetch import OffsetFetchRequest
from moldau.common.records.batch import iter_batches

Told = tuple[str, str, int, int]
"""Group, topic, partition, offset."""
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_VERSION_MAX = 1
"""Of the keys of committed offsets; higher ones are of groups."""


class CommittedOffsets:
    """Every offset that was ever committed, as it lies in `__consumer_offsets` below the high watermark."""

    def __init__(self, invariants: ClusterInvariants) -> None:
        self._invariants = invariants
        self._read: dict[Copy, int] = {}
        self._told: set[Told] = set()

    def all(self) -> set[Told] | None:
        """None: no broker has all that is committed, or its files are not what it wrote."""
        if self._invariants.may_lose:
            return None
        for copy, batches in self._invariants.committed.items():
            if copy[0] != GROUP_OFFSETS_TOPIC:
                continue
            for batch in batches[self._read.get(copy, 0) :]:
                content = self._invariants.content(copy, batch)
                if content is None:
                    return None
                self._told |= _offsets(content)
                self._read[copy] = self._read.get(copy, 0) + 1
        return self._told


def _offsets(content: bytes) -> set[Told]:
    found = set()
    for batch in iter_batches(memoryview(content)):
        if batch.is_control:
            continue
        for record in batch.records():
            key, value = record.key, record.value
            if key is None or value is None or _SHORT.unpack_from(key)[0] > _VERSION_MAX:
                continue
            texts, position = [], 2
            for _ in range(2):
                size = _SHORT.unpack_from(key, position)[0]
                texts.append(bytes(key[position + 2 : position + 2 + size]).decode())
                position += 2 + size
            found.add(
                (texts[0], texts[1], _INT.unpack_from(key, position)[0], _LONG.unpack_from(value, 2)[0])
            )
    return found


class Onlooker:
    """Of one group."""

    def __init__(
        self,
        world: World,
        brokers: Sequence[Endpoint],
        group_id: str,
        committed: Callable[[], set[Told] | None],
    ) -> None:
        self.complaints: list[str] = []
        self._world, self._group_id, self._committed = world, group_id, committed
        self._client = Everywhere(ClusterClient(world, f"{group_id}'s onlooker", brokers))
        self._looks = False

    def look(self) -> None:
        """A commit is on its way: ask within some milliseconds, unless an answer is still awaited."""
        if not self._looks:
            self._looks = True
            self._client.background(self._look())

    async def _look(self) -> None:
        await self._world.sleep_ms(10 * self._client.random.random())
        request = OffsetFetchRequest(group_id=self._group_id, topics=None, require_stable=False)
        try:
            answer = await self._client.call(request, 7)
        except Disconnected:
            return
        finally:
            self._looks = False
        committed = self._committed()
        if answer.error_code or committed is None:
            return
        for topic in answer.topics:
            for row in topic.partitions:
                told = (self._group_id, topic.name, row.partition_index, row.committed_offset)
                if not row.error_code and told[3] >= 0 and told not in committed:
                    self.complaints.append(
                        f"{told[1]}-{told[2]} stands at {told[3]}, said the coordinator, and its log does not"
                    )
