"""A consumer in a group that reads, notes what it read, and commits; every record at least once.

read       what came, in order, with the moment's generation
committed  what the broker has acknowledged: it must never come again to a member that begins from the commit
"""

from __future__ import annotations

from sim_admin import committed_offsets, find_coordinator
from sim_client import RETRIABLE, Disconnected, SimClient
from sim_member import ClassicMember, ConsumerMember, Member, assigned
from sim_offsets import commit
from sim_reader import fetch
from sim_world import World
from torture.reading import Place

from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import iter_batches

MOVED = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)


class Consumer:
    """One member, alive all the while."""

    def __init__(
        self,
        world: World,
        name: str,
        address: tuple[str, int],
        *,
        group_id: str,
        protocol: str,
        topics: dict[str, int],
    ) -> None:
        self.client = SimClient(world, name, address)
        kind: type[Member] = ClassicMember if protocol == "classic" else ConsumerMember
        member_client = SimClient(world, f"{name}/member", address, self.client.process)
        self.member = kind(member_client, group_id, topics)
        self.group_id = group_id
        self.read: list[tuple[Place, int, bytes]] = []
        self.committed: dict[Place, int] = {}
        """The highest offset of each partition that was acknowledged."""
        self.complaints: list[str] = []

    def start(self) -> None:
        self.client.background(self._run())

    async def _run(self) -> None:
        await find_coordinator(self.client, self.group_id)
        self.member.start()
        positions: dict[Place, int] = {}
        positions_of: tuple[int, str] = (-2, "")
        while True:
            generation, member_id, places = await assigned(self.member)
            if positions_of != (generation, member_id):
                found = await committed_offsets(self.client, self.group_id)
                for place, told in self.committed.items():
                    if found.get(place, -1) < told:
                        self.complaints.append(f"{place} was committed to {told}, and stands at {found}")
                positions = {place: found.get(place, 0) for place in places}
                positions_of = (generation, member_id)
            read = False
            for place in sorted(positions):
                read = await self._read(place, positions) or read
            if not read:
                await self.client.pause()
            elif not await self._commit(generation, member_id, positions):
                positions_of = (-2, "")

    async def _read(self, place: Place, positions: dict[Place, int]) -> bool:
        row = await fetch(self.client, place, positions[place], max_bytes=300, wait_ms=10)
        assert not row.error_code, (place, positions[place], row.error_code)
        began_at = positions[place]
        for batch in iter_batches(row.records or b"", allow_partial_tail=True):
            for record in batch.records():
                if record.offset >= began_at:
                    self.read.append((place, record.offset, bytes(record.value or b"")))
            positions[place] = max(positions[place], batch.next_offset)
        return positions[place] > began_at

    async def _commit(self, generation: int, member_id: str, positions: dict[Place, int]) -> bool:
        """Whether it is still its to commit."""
        offsets = dict(positions)
        while True:
            try:
                code = await commit(
                    self.client, self.group_id, offsets, generation=generation, member_id=member_id
                )
            except Disconnected:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if not code:
                self.committed |= offsets
                return True
            if code in MOVED:
                return False
            assert code in RETRIABLE, code
            await self.client.pause()
