"""A group of consumers whose members write down their polls, where they resumed and what they committed.

The judges of tests/histories say whether that fits: a member begins where the group stands, that is at the
last acknowledged commit or one that may have come after it, and goes on from there without a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from histories.history import ACKNOWLEDGED, FAILED, Commit, History, Poll, Resume
from sim_admin import committed_offsets, find_coordinator
from sim_client import RETRIABLE, Disconnected
from sim_cluster_onlooker import Onlooker
from sim_cluster_worker import Everywhere
from sim_consumer import MOVED
from sim_member import ClassicMember, ConsumerMember, Member, assigned
from sim_network import Endpoint
from sim_offsets import commit
from sim_reader import PartitionReader
from sim_routes import ClusterClient
from sim_world import World
from torture.reading import Place

from moldau.common.protocol.errors import ErrorCode


class GroupMember:
    """One member by name, through all its lives; it reads with read_committed."""

    def __init__(
        self,
        world: World,
        name: str,
        brokers: Sequence[Endpoint],
        history: History,
        *,
        group_id: str,
        protocol: str,
        topics: dict[str, int],
    ) -> None:
        """`topics`: partitions by topic; may grow."""
        self.name, self.group_id = name, group_id
        self.on_commit: Callable[[], None] = lambda: None
        """Called when a commit is sent."""
        self.complaints: list[str] = []
        self.positions: dict[Place, int] = {}
        """What it has committed, of the partitions that it reads."""
        self._world, self._brokers, self._history = world, brokers, history
        self._kind: type[Member] = ClassicMember if protocol == "classic" else ConsumerMember
        self._topics = topics
        self._lives = self._assignments = 0

    def start(self) -> None:
        """Join, or come back as another member."""
        self._lives += 1
        life = f"{self.name}.{self._lives}"
        cluster = ClusterClient(self._world, life, self._brokers)
        self.client = Everywhere(cluster)
        own = ClusterClient(self._world, f"{life}/member", self._brokers, cluster.process)
        self.member = self._kind(Everywhere(own), self.group_id, self._topics)
        self.client.background(self._run())

    def kill(self) -> None:
        """kill -9."""
        self.client.kill()
        self.positions = {}

    async def _run(self) -> None:
        await find_coordinator(self.client, self.group_id)
        self.member.start()
        held: Any = None
        readers: dict[Place, PartitionReader] = {}
        while True:
            generation, member_id, places = await assigned(self.member)
            if held != (generation, member_id, places):  # what others give up comes without a new epoch
                self.positions = {}
                readers = await self._resume(places)
                held = (generation, member_id, places)
            moved = False
            for place in sorted(readers):
                moved = await self._poll(readers[place]) or moved
            if not moved and all(self.positions.get(place) == one.position for place, one in readers.items()):
                await self.client.pause()
            elif not await self._commit(generation, member_id, readers):
                held = None

    async def _resume(self, places: Sequence[Place]) -> dict[Place, PartitionReader]:
        """Readers from where the group stands."""
        began_s = self._world.loop.time()
        found = await committed_offsets(self.client, self.group_id)
        now_s = self._world.loop.time()
        self._assignments += 1
        readers = {}
        for place in places:
            offset = found.get(place, -1)
            self._history.resumes.append(Resume(self.group_id, place, offset, began_s, now_s))
            reader = readers[place] = PartitionReader(self.client, place, 300)
            reader.position = max(0, offset)
            reader.asks_again, reader.trimmed_to = True, self._history.trimmed_to
            self._note(reader, [], reader.position)
        return readers

    async def _poll(self, reader: PartitionReader) -> bool:
        count, starts = len(reader.seen), reader.starts
        moved = await reader.step(wait_ms=10)
        self.complaints += reader.complaints
        reader.complaints.clear()
        if moved:
            records = [(one.offset, (one.value or b"").decode()) for one in reader.seen[count:]]
            self._note(reader, records, reader.position if reader.starts > starts else None)
        return moved

    def _note(self, reader: PartitionReader, records: list[tuple[int, str]], began: int | None) -> None:
        consumer = f"{self.name}@{self._assignments}"
        now_s = self._world.loop.time()
        self._history.polls.append(
            Poll(consumer, reader.place, records, reader.position, now_s, committed=True, began=began)
        )

    async def _commit(self, generation: int, member_id: str, readers: dict[Place, PartitionReader]) -> bool:
        """Whether the partitions are still its own."""
        offsets = {place: reader.position for place, reader in readers.items()}
        notes = [
            Commit(self.group_id, place, offset, self._world.loop.time()) for place, offset in offsets.items()
        ]
        self._history.commits += notes
        sure = True
        self.on_commit()
        while True:
            try:
                code = await commit(
                    self.client, self.group_id, offsets, generation=generation, member_id=member_id
                )
            except Disconnected:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if code and code in RETRIABLE:
                sure = False  # it may have been made, although nobody said so
                await self.client.pause()
                continue
            assert not code or code in MOVED, code
            for note in notes:
                if not code:
                    note.outcome, note.ended_s = ACKNOWLEDGED, self._world.loop.time()
                elif sure:
                    note.outcome, note.ended_s = FAILED, self._world.loop.time()
            if not code:
                self.positions = offsets
            return not code


class Group:
    """Some members, of which one may die and come back."""

    def __init__(
        self,
        world: World,
        brokers: Sequence[Endpoint],
        history: History,
        *,
        group_id: str,
        protocol: str,
        topics: dict[str, int],
        count: int = 2,
        onlooker: Onlooker | None = None,
    ) -> None:
        self._world, self._topics = world, topics
        self.members = [
            GroupMember(
                world,
                f"{group_id}{number}",
                brokers,
                history,
                group_id=group_id,
                protocol=protocol,
                topics=topics,
            )
            for number in range(count)
        ]
        self._onlooker = onlooker
        for member in self.members if onlooker is not None else ():
            member.on_commit = onlooker.look

    async def live(self) -> None:
        """Start all, one after the other; sometimes the last one dies, and comes back."""
        draw = self._world.draw("group's life")
        for member in self.members:
            member.start()
            await self._world.sleep_ms(draw.choice((0, 0, 1500)) * draw.random())
        if draw.random() < 0.4:
            await self._world.sleep_ms(2000 * draw.random())
            self.members[-1].kill()
            await self._world.sleep_ms(draw.choice((100, 5000)) * draw.random())
            self.members[-1].start()
        if draw.random() < 0.4:  # it is put out meanwhile, and must not commit when it goes on
            member = draw.choice(self.members)
            await self._world.sleep_ms(1000 * draw.random())
            member.client.process.pause()
            await self._world.sleep_ms(draw.choice((500, 5000)) * draw.random())
            member.client.process.resume()

    def missing(self, ends: dict[Place, int]) -> list[str]:
        """The partitions of which nobody has committed the end. (It may move on after it was asked for: a
        follower enters the in-sync set before it has what nobody acknowledged; seed 10005773.)
        """
        told: dict[Place, int] = {}
        for member in self.members:
            for place, offset in member.positions.items():
                told[place] = max(offset, told.get(place, -1))
        return [
            f"{place[0]}-{place[1]} is committed to {told.get(place, -1)}, ends at {end}"
            for place, end in ends.items()
            if place[0] in self._topics and told.get(place, -1) < end
        ]

    async def finish(self, ends: dict[Place, int], seconds_max: float = 120.0) -> list[str]:
        """Wait until all is read and committed; what is not, and what is wrong with the batches."""
        loop = self._world.loop
        deadline = loop.time() + seconds_max
        while self.missing(ends) and loop.time() < deadline and not self._complaints():
            await self._world.sleep_ms(20)
        return self.missing(ends) + self._complaints()

    def _complaints(self) -> list[str]:
        seen = [] if self._onlooker is None else self._onlooker.complaints
        return seen + [f"{member.name}: {line}" for member in self.members for line in member.complaints]
