"""The same reading once more without a client library: Fetch, the aborted list, and the batches' own headers.

A client library hides what it tolerates. Here every batch is looked at: base offsets rise without overlap, a
transactional batch lies inside a transaction that has a marker, and the aborted list that comes with a Fetch
covers exactly those transactions of the answer that end in an abort marker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.record.memory_records import MemoryRecords
from raw_client import RawClient

from torture.reading import Place, Seen

FETCH = 1
READ_COMMITTED = 1
ABORT_MARKER = 0


def read_by_hand(
    address: str, ends: Mapping[Place, int], chunk_bytes: int = 200_000
) -> tuple[list[Seen], list[str]]:
    """Committed records of all partitions up to their ends, and what is wrong with the batches."""
    seen: list[Seen] = []
    complaints: list[str] = []
    with RawClient(address) as client:
        for place, end in ends.items():
            partition = _Partition(place)
            while partition.position < end:
                if not partition.take(_fetch(client, place, partition.position, chunk_bytes)):
                    break
            if partition.open_since:
                partition.complain(f"transactions without a marker: {partition.open_since}")
            seen += partition.seen
            complaints += partition.complaints
    return seen, complaints


def _fetch(client: RawClient, place: Place, offset: int, chunk_bytes: int) -> Any:
    wanted = {
        "partition": place[1],
        "fetch_offset": offset,
        "current_leader_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": chunk_bytes,
    }
    answer = client.call(
        FETCH,
        11,
        replica_id=-1,
        max_wait=100,
        min_bytes=1,
        max_bytes=chunk_bytes,
        isolation_level=READ_COMMITTED,
        session_epoch=-1,
        topics=[{"topic": place[0], "partitions": [wanted]}],
    )
    return answer.responses[0].partitions[0]


class _Partition:
    """One partition's reading: where it stands, which producers are in an aborted transaction."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.position = 0
        self.seen: list[Seen] = []
        self.complaints: list[str] = []
        self.open_since: dict[int, int] = {}

    def complain(self, text: str) -> None:
        self.complaints.append(f"{self.place[0]}-{self.place[1]}: {text}")

    def take(self, answer: Any) -> bool:
        """Go through the batches of an answer; False when it leads no further."""
        if int(answer.error_code) or not answer.records:
            self.complain(f"Fetch at {self.position}: error {answer.error_code}, nothing below the end")
            return False
        began_at = self.position
        listed = sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions or ())
        aborted: set[int] = set()
        records = MemoryRecords(bytes(answer.records))
        while (batch := records.next_batch()) is not None:
            last_offset = batch.base_offset + batch.last_offset_delta
            if last_offset < self.position:
                if batch.base_offset >= began_at:
                    self.complain(f"batch {batch.base_offset}..{last_offset} comes after {self.position}")
                continue
            while listed and listed[0][0] <= last_offset:
                aborted.add(listed.pop(0)[1])
            if batch.is_control_batch:
                self._marker(batch, aborted)
            elif batch.is_transactional:
                self.open_since.setdefault(batch.producer_id, batch.base_offset)
            if not batch.is_control_batch and not (batch.is_transactional and batch.producer_id in aborted):
                self._records(batch)
            self.position = last_offset + 1
        if self.position == began_at:
            self.complain(f"Fetch at {began_at} brings no whole batch")
        return self.position > began_at

    def _marker(self, batch: Any, aborted: set[int]) -> None:
        records = list(batch)
        if not records:  # compaction has emptied the batch; it stays for its producer's sequence
            return
        abort = int.from_bytes(records[0].key[2:4], "big") == ABORT_MARKER
        had_records = self.open_since.pop(batch.producer_id, None) is not None
        listed = batch.producer_id in aborted
        aborted.discard(batch.producer_id)
        # Compaction takes the records of an aborted transaction away and leaves it listed; a partition that
        # was added to a transaction and not written to has an abort marker and is not listed.
        if (listed and not abort) or (abort and had_records and not listed):
            kind = "abort" if abort else "commit"
            verb = "lists" if listed else "does not list"
            self.complain(f"{kind} marker of {batch.producer_id} at {batch.base_offset}; Fetch {verb} it")

    def _records(self, batch: Any) -> None:
        for record in batch:
            if record.offset >= self.position:
                self.seen.append(Seen(*self.place, record.offset, record.key, record.value))
