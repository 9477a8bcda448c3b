"""A worker that copies a topic exactly once: it reads, transforms, and commits its progress in one
transaction.

Progress is what the group has committed. A worker that is killed comes back under its transactional id and
thereby ends its own transaction; its partitions meanwhile go to another, who may not see offsets that are
neither committed nor aborted yet (KIP-447).
"""

from __future__ import annotations

from sim_admin import committed_offsets, find_coordinator
from sim_client import SimClient
from sim_member import ClassicMember, ConsumerMember, Member, assigned
from sim_producer import Fatal, KeyValue, SimProducer
from sim_reader import fetch
from sim_world import World
from torture.reading import Place
from torture.worker import transformed

from moldau.common.records.batch import iter_batches

TRANSACTION_TIMEOUT_MS = 3000


class Worker:
    """One consumer and one transactional producer, through all their lives."""

    def __init__(
        self,
        world: World,
        name: str,
        address: tuple[str, int],
        *,
        group_id: str,
        protocol: str,
        source: dict[str, int],
        target: dict[str, int],
    ) -> None:
        self.name, self.group_id = name, group_id
        self.lives = 0
        self._world, self._address = world, address
        self._member_type: type[Member] = ClassicMember if protocol == "classic" else ConsumerMember
        self._source, self._target = source, target
        self._transactions = world.draw(f"{name}/version").choice((1, 2))

    def start(self) -> None:
        """Begin, or go on after a kill."""
        self.lives += 1
        life = f"{self.name}.{self.lives}"
        self.client = SimClient(self._world, life, self._address)
        member_client = SimClient(self._world, f"{life}/member", self._address, self.client.process)
        self.member = self._member_type(member_client, self.group_id, self._source)
        self.client.background(self._run())

    def kill(self) -> None:
        """kill -9."""
        self.client.kill()

    async def _run(self) -> None:
        await find_coordinator(self.client, self.group_id)
        self.member.start()
        producer = await self._new_producer()
        positions: dict[Place, int] = {}
        positions_of = (-2, "")
        while True:
            generation, member_id, places = await assigned(self.member)
            if positions_of != (generation, member_id):
                committed = await committed_offsets(self.client, self.group_id)
                positions = {place: committed.get(place, 0) for place in places}
                positions_of = (generation, member_id)
            read = await self._read(positions)
            if not read:
                await self.client.pause()
                continue
            try:
                done = await self._transaction(producer, generation, member_id, read)
            except Fatal:
                producer = await self._new_producer()
                done = False
            if done:
                positions |= {place: next_offset for place, (_, next_offset) in read.items()}
            else:
                positions_of = (-2, "")

    async def _read(self, positions: dict[Place, int]) -> dict[Place, tuple[list[KeyValue], int]]:
        """Some records of some partitions, and where to go on behind them."""
        found: dict[Place, tuple[list[KeyValue], int]] = {}
        for place, position in sorted(positions.items()):
            if self.client.random.random() < 0.3:
                continue
            row = await fetch(self.client, place, position, max_bytes=500, wait_ms=5)
            assert not row.error_code, (place, position, row.error_code)
            pairs: list[KeyValue] = []
            for batch in iter_batches(row.records or b"", allow_partial_tail=True):
                pairs += [
                    (bytes(each.key or b""), bytes(each.value or b""))
                    for each in batch.records()
                    if each.offset >= position
                ]
                position = max(position, batch.next_offset)
            if pairs:
                found[place] = (pairs, position)
        return found

    async def _transaction(
        self,
        producer: SimProducer,
        generation: int,
        member_id: str,
        read: dict[Place, tuple[list[KeyValue], int]],
    ) -> bool:
        """Whether it was committed."""
        draw = self.client.random
        ((topic, partitions),) = self._target.items()
        batches = [
            producer.batch(
                (topic, draw.randrange(partitions)),
                [(key, transformed(value or b"")) for key, value in pairs],
            )
            for pairs, _ in read.values()
        ]
        await producer.deliver(batches)
        offsets = {place: next_offset for place, (_, next_offset) in read.items()}
        await producer.commit_offsets(self.group_id, generation, member_id, offsets)
        commit = draw.random() < 0.9
        await producer.end(commit=commit)
        return commit

    async def _new_producer(self) -> SimProducer:
        while True:
            producer = SimProducer(
                self.client,
                transactional_id=f"worker-{self.name}",
                transactions=self._transactions,
                timeout_ms=TRANSACTION_TIMEOUT_MS,
            )
            try:
                await producer.initialise()
            except Fatal:
                await self.client.pause()
            else:
                return producer
