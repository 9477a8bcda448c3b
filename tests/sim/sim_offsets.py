"""A client that commits rising offsets for a few groups, and notes what it asked for and what it was told.

The counterpart of torture/offsets_load.py: the latest offset of a group is the last that was told, or one
that was asked for after that.
"""

from __future__ import annotations

from sim_admin import find_coordinator
from sim_client import RETRIABLE, Disconnected, SimClient
from sim_world import World
from torture.reading import Place

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


async def commit(
    client: SimClient,
    group_id: str,
    offsets: dict[Place, int],
    *,
    generation: int = -1,
    member_id: str = "",
    note: str = "",
) -> ErrorCode:
    """One OffsetCommit; the first error of its answer. Disconnected when none comes."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in sorted(offsets.items()):
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=note
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )
    answer = await client.call(request, 9)
    codes = [row.error_code for each in answer.topics for row in each.partitions]
    return ErrorCode(next((code for code in codes if code), 0))


class OffsetsLoad:
    """Commits so many offsets in all, each for one of the groups, on partition 0 of the topic."""

    def __init__(
        self, world: World, address: tuple[str, int], topic: str, groups: int, commits: int, note: str
    ) -> None:
        self.client = SimClient(world, "keeper", address)
        self.told: dict[str, int] = {}
        self.asked: dict[str, set[int]] = {f"keeper-{one}": set() for one in range(groups)}
        self.over = False
        self._topic, self._commits, self._note = topic, commits, note

    def start(self) -> None:
        self.client.background(self._run())

    async def _run(self) -> None:
        groups = sorted(self.asked)
        for group in groups:
            await find_coordinator(self.client, group)
        for offset in range(self._commits):
            group = self.client.random.choice(groups)
            self.asked[group].add(offset)
            await self._commit(group, offset)
            self.told[group] = offset
            self.asked[group].clear()
        self.over = True

    async def _commit(self, group: str, offset: int) -> None:
        while True:
            try:
                code = await commit(self.client, group, {(self._topic, 0): offset}, note=self._note)
            except Disconnected:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if not code:
                return
            assert code in RETRIABLE, code
            await self.client.pause()

    def judge(self, found: dict[str, int]) -> list[str]:
        """Groups that do not stand where they were put."""
        return [
            f"{group} stands at {found.get(group, -1)}, expected {self.told.get(group, -1)} or one of {asked}"
            for group, asked in self.asked.items()
            if found.get(group, -1) != self.told.get(group, -1) and found.get(group, -1) not in asked
        ]
