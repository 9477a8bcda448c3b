"""Reading whole partitions by Fetch, with a look at every batch that a client library would tolerate.

Base offsets rise without overlap, checksums fit, a transactional batch lies inside a transaction that has a
marker, and the aborted transactions that come with an answer are exactly those that end in an abort marker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sim_client import RETRIABLE, SimClient
from torture.reading import Place, Seen

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.common.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.common.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.common.records.batch import BatchView, iter_batches
from moldau.common.records.control import ControlType, control_type

FETCH_VERSION = 11
LATEST, EARLIEST = -1, -2
RESTING = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


async def fetch(
    client: SimClient,
    place: Place,
    offset: int,
    *,
    max_bytes: int,
    wait_ms: int = 100,
    committed: bool = True,
) -> Any:
    """One partition's part of an answer, which has no passing error."""
    wanted = FetchPartition(partition=place[1], fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        topics=[FetchTopic(topic=place[0], partitions=[wanted])],
    )
    while True:
        answer = await client.persist(request, FETCH_VERSION)
        row = answer.responses[0].partitions[0]
        if row.error_code not in RETRIABLE:
            return row
        await client.pause()


async def read(
    client: SimClient, ends: Mapping[Place, int], max_bytes: int = 20_000
) -> tuple[list[Seen], list[str]]:
    """The committed records of all partitions up to their ends, and what is wrong with the batches."""
    seen: list[Seen] = []
    complaints: list[str] = []
    for place, end in ends.items():
        reader = PartitionReader(client, place, max_bytes)
        while reader.position < end:
            if not await reader.step():
                reader.complain(f"Fetch at {reader.position} brings nothing below the end {end}")
                break
        reader.must_be_closed()
        seen += reader.seen
        complaints += reader.complaints
    return seen, complaints


async def list_ends(
    client: SimClient, topics: Mapping[str, int], *, committed: bool
) -> dict[Place, int] | None:
    """High watermarks, or last stable offsets; None when one cannot be told now."""
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=one, timestamp=LATEST) for one in range(count)
                ],
            )
            for topic, count in topics.items()
        ],
    )
    answer = await client.persist(request, 5)
    found: dict[Place, int] = {}
    for topic in answer.topics:
        for row in topic.partitions:
            if row.error_code:
                return None
            found[topic.name, row.partition_index] = row.offset
    return found


async def start_of(client: SimClient, place: Place) -> int | None:
    """The log start offset; None when it cannot be told now."""
    wanted = ListOffsetsPartition(partition_index=place[1], timestamp=EARLIEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=place[0], partitions=[wanted])])
    row = (await client.persist(request, 5)).topics[0].partitions[0]
    return None if row.error_code else row.offset


async def unfinished_transactions(client: SimClient) -> list[str]:
    """Transactions that are neither ended nor not begun; also those that have written nothing get markers."""
    answer = await client.persist(ListTransactionsRequest(), 0)
    if answer.error_code:
        return [f"ListTransactions: error {answer.error_code}"]
    return [
        f"transaction {one.transactional_id} is {one.transaction_state}"
        for one in answer.transaction_states
        if one.transaction_state not in RESTING
    ]


async def settled_ends(
    client: SimClient, topics: Mapping[str, int], seconds_max: float
) -> tuple[dict[Place, int], list[str]]:
    """Ends of all partitions once last stable offset and high watermark are one, and no transaction is open;
    else what hangs.
    """
    loop = client.world.loop
    deadline = loop.time() + seconds_max
    while True:
        ends = await list_ends(client, topics, committed=False)
        stable = await list_ends(client, topics, committed=True)
        unfinished = await unfinished_transactions(client)
        if ends is not None and ends == stable and not unfinished:
            return ends, []
        if loop.time() > deadline:
            return ends or {}, [f"stable only to {stable}, high watermarks are {ends}", *unfinished]
        await client.pause()


class Witness:
    """Reads all partitions from the first record on, through everything that happens meanwhile.

    A broker that shows a record and later takes it back, or shows one later that belongs before what was read
    already, differs from what is read afterwards.
    """

    def __init__(self, client: SimClient, topics: Mapping[str, int]) -> None:
        self._readers = [
            PartitionReader(client, (topic, one), 3000)
            for topic, count in sorted(topics.items())
            for one in range(count)
        ]
        self._client = client
        self._ends: Mapping[Place, int] | None = None
        self._work = client.spawn(self._run())

    async def finish(self, ends: Mapping[Place, int]) -> tuple[list[Seen], list[str]]:
        """All it has seen up to these ends, and what is wrong with the batches."""
        self._ends = ends
        await self._work
        for reader in self._readers:
            reader.must_be_closed()
        seen = [one for reader in self._readers for one in reader.seen]
        return seen, [line for reader in self._readers for line in reader.complaints]

    async def _run(self) -> None:
        while True:
            read = False
            for reader in self._readers:
                read = await reader.step(wait_ms=1) or read
            if self._ends is not None and not read:
                if all(self._ends.get(each.place, 0) <= each.position for each in self._readers):
                    return
            elif not read:
                await self._client.pause()


class PartitionReader:
    """Where a reading of one partition stands, what it has seen, and which producers are being dropped."""

    def __init__(self, client: SimClient, place: Place, max_bytes: int, *, committed: bool = True) -> None:
        self.place = place
        self.committed = committed
        self.position = 0
        self.seen: list[Seen] = []
        self.complaints: list[str] = []
        self.starts = 0
        """How often it went to the log's start, because what it wanted was deleted."""
        self.asks_again = False
        """A damaged batch is left, and asked for again: another replica may lead by then."""
        self.trimmed_to: Callable[[Place], int] = lambda place: 0
        """Below which offset of a partition records may have been deleted."""
        self._client = client
        self._max_bytes = max_bytes
        self._open_since: dict[int, int] = {}

    def complain(self, text: str) -> None:
        self.complaints.append(f"{self.place[0]}-{self.place[1]}: {text}")

    def must_be_closed(self) -> None:
        """The end is reached, where every transaction has a marker."""
        if self._open_since:
            self.complain(f"transactions without a marker: {self._open_since}")

    async def go_to_the_start(self) -> bool:
        """What lies below was deleted; False while nobody tells where the log begins."""
        start = await start_of(self._client, self.place)
        if start is None or start < self.position:
            return False
        self.position = start
        self.starts += 1
        self._open_since.clear()
        return True

    async def step(self, wait_ms: int = 100) -> bool:
        """One Fetch; False when it leads no further."""
        row = await fetch(
            self._client,
            self.place,
            self.position,
            max_bytes=self._max_bytes,
            wait_ms=wait_ms,
            committed=self.committed,
        )
        if row.error_code == ErrorCode.CORRUPT_MESSAGE and self.asks_again:
            return False
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and (
            self.position == 0 or self.position < self.trimmed_to(self.place)
        ):
            # At 0 too: a topic made again while its replica was away goes on where the old one ended.
            return await self.go_to_the_start()
        if row.error_code:
            self.complain(f"Fetch at {self.position}: error {row.error_code}")
            return False
        began_at = self.position
        listed = sorted((one.first_offset, one.producer_id) for one in row.aborted_transactions or ())
        aborted: set[int] = set()
        for batch in iter_batches(row.records or b"", allow_partial_tail=True):
            if batch.last_offset < self.position:
                if batch.base_offset >= began_at:
                    self.complain(f"batch at {batch.base_offset} comes after {self.position}")
                continue
            if not batch.crc_is_valid():
                if self.asks_again:
                    break
                self.complain(f"batch at {batch.base_offset} is damaged")
            while listed and listed[0][0] <= batch.last_offset:
                aborted.add(listed.pop(0)[1])
            if batch.is_control:
                self._marker(batch, aborted)
            else:
                if batch.is_transactional:
                    self._open_since.setdefault(batch.producer_id, batch.base_offset)
                if not (batch.is_transactional and batch.producer_id in aborted):
                    self._records(batch)
            self.position = batch.next_offset
        return self.position > began_at

    def _marker(self, batch: BatchView, aborted: set[int]) -> None:
        records = list(batch.records())
        if not records:  # compaction has emptied the batch; it stays for its producer's sequence
            return
        abort = control_type(records[0].key) == ControlType.ABORT
        had_records = self._open_since.pop(batch.producer_id, None) is not None
        listed = batch.producer_id in aborted
        aborted.discard(batch.producer_id)
        # Compaction takes the records of an aborted transaction away and leaves it listed; a partition that
        # was added to a transaction and not written to has an abort marker and is not listed.
        if self.committed and ((listed and not abort) or (abort and had_records and not listed)):
            self.complain(
                f"marker of {batch.producer_id} at {batch.base_offset}: aborted is {abort}, listed {listed}"
            )

    def _records(self, batch: BatchView) -> None:
        for record in batch.records():
            if record.offset >= self.position:
                key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
                self.seen.append(Seen(*self.place, record.offset, key, value))
