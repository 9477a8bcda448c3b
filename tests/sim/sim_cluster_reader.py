"""Consumers of a cluster that write down their polls, and the reading of everything at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from histories.history import History, Poll
from sim_client import RETRIABLE, Disconnected
from sim_network import Endpoint
from sim_reader import LATEST, RESTING, PartitionReader
from sim_routes import ClusterClient, NearReplica
from sim_world import World
from torture.reading import Place

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.common.protocol.messages.list_transactions import ListTransactionsRequest

STILL_SECONDS_MAX = 20.0
"""A new leader learns its high watermark by its followers' fetches; so long may a partition stand still."""


class ClusterReader:
    """Reads all partitions from the first record on, through every change of their leaders."""

    def __init__(
        self,
        world: World,
        name: str,
        brokers: Sequence[Endpoint],
        history: History,
        places: Sequence[Place],
        *,
        committed: bool,
        rack: str = "",
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> None:
        """`rack`: where it runs; brokers may send it to a replica there (KIP-392). `topic_ids`: see
        `ClusterClient`.
        """
        self.client = ClusterClient(world, name, brokers, topic_ids=topic_ids)
        self.name, self.committed = name, committed
        self._history, self._world = history, world
        max_bytes = self.client.random.choice((100, 1000, 20_000))
        self._max_bytes, self._rack = max_bytes, rack
        self.readers = [self._reader(place) for place in places]
        self._tasks: list[asyncio.Task[None]] = []
        self._ends: Mapping[Place, int] | None = None

    def _reader(self, place: Place) -> PartitionReader:
        route = NearReplica(self.client, place, self._rack) if self._rack else self.client.leader(place)
        reader = PartitionReader(route, place, self._max_bytes, committed=self.committed)
        reader.asks_again, reader.trimmed_to = True, self._history.trimmed_to
        return reader

    def start(self) -> None:
        """Read from now on, each partition by itself."""
        self._tasks = [self.client.spawn(self._run(reader)) for reader in self.readers]

    def add(self, place: Place) -> None:
        """Read this partition too."""
        reader = self._reader(place)
        self.readers.append(reader)
        self._tasks.append(self.client.spawn(self._run(reader)))

    def kill(self) -> None:
        """kill -9."""
        self.client.kill()

    async def finish(self, ends: Mapping[Place, int]) -> list[str]:
        """Read up to these ends; what is wrong with the batches."""
        self._ends = ends
        for task in self._tasks:
            await task
        return [f"{self.name}: {line}" for reader in self.readers for line in reader.complaints]

    async def _run(self, reader: PartitionReader) -> None:
        while True:
            moved = await self.step(reader, wait_ms=self.client.random.choice((1, 100, 500)))
            if self._ends is not None and reader.position >= self._ends[reader.place]:
                return
            if reader.complaints:
                return
            if not moved:
                await self.client.pause()

    async def step(self, reader: PartitionReader, wait_ms: int) -> bool:
        """One Fetch, noted as a poll if it brought anything; whether it led further."""
        began, count, starts = reader.position, len(reader.seen), reader.starts
        moved = await reader.step(wait_ms)
        if moved:
            records = [(one.offset, (one.value or b"").decode()) for one in reader.seen[count:]]
            self._history.polls.append(
                Poll(
                    self.name,
                    reader.place,
                    records,
                    reader.position,
                    self._world.loop.time(),
                    self.committed,
                    reader.position if reader.starts > starts else 0 if began == 0 else None,
                )
            )
        return moved


async def read_everything(client: ClusterClient, history: History, ends: Mapping[Place, int]) -> list[str]:
    """The final reading of a history; what is wrong with the batches."""
    complaints: list[str] = []
    for place, end in ends.items():
        reader = PartitionReader(client.leader(place), place, 20_000)
        reader.trimmed_to = history.trimmed_to
        deadline = client.world.loop.time() + STILL_SECONDS_MAX
        while reader.position < end:
            if await reader.step():
                continue
            if reader.complaints:
                break
            await client.pause()
            if client.world.loop.time() > deadline:
                reader.complain(f"Fetch at {reader.position} brings nothing below the end {end}")
                break
        reader.must_be_closed()
        history.final[place] = [(one.offset, (one.value or b"").decode()) for one in reader.seen]
        history.final_ends[place] = reader.position
        complaints += reader.complaints
    return complaints


async def end_of(client: ClusterClient, place: Place, *, committed: bool) -> int | None:
    """High watermark or last stable offset; None while it cannot be told."""
    wanted = ListOffsetsPartition(partition_index=place[1], timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=[ListOffsetsTopic(name=place[0], partitions=[wanted])],
    )
    row = (await client.leader(place).persist(request, 5)).topics[0].partitions[0]
    assert not row.error_code or row.error_code in RETRIABLE, (place, row.error_code)
    return None if row.error_code else row.offset


async def unfenced(client: ClusterClient, places: Iterable[Place]) -> list[str]:
    """The partitions that serve requests with a leader epoch that is over, or one that nobody has seen."""
    found = []
    for place in places:
        await client.refresh()
        epoch = client.leaders[place][1] if place in client.leaders else 0
        for other, wanted in (
            (epoch - 1, ErrorCode.FENCED_LEADER_EPOCH),
            (epoch + 1000, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            row = ListOffsetsPartition(partition_index=place[1], timestamp=LATEST, current_leader_epoch=other)
            topic = ListOffsetsTopic(name=place[0], partitions=[row])
            request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic])
            answer = await client.leader(place).persist(request, 5)
            code = answer.topics[0].partitions[0].error_code
            if other >= 0 and code != wanted and code not in RETRIABLE:
                found.append(
                    f"{place[0]}-{place[1]} in epoch {epoch} answers a request of {other} with {code}"
                )
    return found


async def settled_everywhere(
    client: ClusterClient, places: Sequence[Place], brokers: Sequence[Endpoint], seconds_max: float
) -> tuple[dict[Place, int], list[str]]:
    """Ends of all partitions once last stable offset and high watermark are one, and no transaction is open
    at any coordinator; else what hangs.
    """
    deadline = client.world.loop.time() + seconds_max
    while True:
        ends = {place: await end_of(client, place, committed=False) for place in places}
        stable = {place: await end_of(client, place, committed=True) for place in places}
        unfinished = [line for address in brokers for line in await _unfinished(client, address)]
        if ends == stable and None not in ends.values() and not unfinished:
            return {place: end for place, end in ends.items() if end is not None}, []
        if client.world.loop.time() > deadline:
            return {}, [f"stable only to {stable}, high watermarks are {ends}", *unfinished]
        await client.pause()


async def _unfinished(client: ClusterClient, address: Endpoint) -> list[str]:
    try:
        answer = await client.ask(address, ListTransactionsRequest(), 0)
    except Disconnected as error:
        return [f"{address[0]}: {error}"]
    if answer.error_code:
        return [f"ListTransactions at {address[0]}: error {answer.error_code}"]
    return [
        f"transaction {one.transactional_id} is {one.transaction_state} at {address[0]}"
        for one in answer.transaction_states
        if one.transaction_state not in RESTING
    ]
