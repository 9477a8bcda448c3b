"""A worker process's cache of the latest row of every key of a partition, kept from one micro-batch to the
next.

A table in a join is looked up in every micro-batch, but little of its topic is new. So a process that has
read a partition caches the rows, and reads on from there:

    cached up to offset 1000     AA 17   DL 903   UA 540
    new, 1000 to 1004            AA 1000   DL 1001 (no value)   a key that is null
    cached up to offset 1004     AA 1000   UA 540

The invariant: the result equals that of reading all records from the log's start. Therefore

* rows before the log's start are dropped: retention and DeleteRecords have removed them;
* everything is dropped and read again if the topic has another id (recreated), the partition another leader
  epoch (an unclean election may have truncated the log), or the log ends before the cached offset;
* compaction removes replaced records, which are dropped here already. But some time after a tombstone
  (delete.retention.ms, counted from the first cleaning behind it) it removes that too, and a reader that
  comes later misses it. So a cache is valid for a part of that time only;
* with read_committed the end is the last stable offset: everything before it is decided.

A key lives in one partition, as in Kafka's tables: a tombstone removes the rows of its own partition.

Nothing is cached if the broker has no topic ids or does not report delete.retention.ms. The cache of a
process is bounded: a partition that does not fit is read each time, and Spark reduces its rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

KEPT_BYTES_MAX = 64 * 1024 * 1024
"""Of all partitions that a process keeps, as Arrow data."""
REDUCED_EVERY_BYTES = 32 * 1024 * 1024
FRESH_SECONDS_MAX = 60.0
"""Unused entries are dropped after this time; Spark ends idle processes after the same time."""
ROWS_MAX = 32_768

Read = Callable[[int, int], Iterable[pa.RecordBatch]]
"""The records of the partition from an offset up to, not including, another one."""


class LogState(NamedTuple):
    """A partition's log at one moment."""

    topic_id: bytes | None
    leader_epoch: int
    start: int
    end: int
    tombstones_seconds: float
    """For how long tombstones stay at least (delete.retention.ms)."""

    def continues(self, kept: CachedPartition, now: float) -> bool:
        """Whether it is the log that was read before, with all tombstones since then and more records
        at its end.
        """
        identity = (kept.log.topic_id, kept.log.leader_epoch)
        is_fresh = now - kept.seen_at < min(FRESH_SECONDS_MAX, self.tombstones_seconds / 2)
        return is_fresh and (self.topic_id, self.leader_epoch) == identity and self.end >= kept.log.end


@dataclass
class CachedPartition:
    """The latest rows of a partition up to the end of `log`."""

    log: LogState
    rows: pa.Table
    seen_at: float
    """When the end of `log` was asked for, or before."""


@dataclass
class TableCache:
    """The rows kept by this process, by partition and read options."""

    bytes_max: int = KEPT_BYTES_MAX
    clock: Callable[[], float] = time.monotonic
    kept: dict[object, CachedPartition] = field(default_factory=dict)

    def latest(self, name: object, look: Callable[[], LogState], read: Read) -> Iterator[pa.RecordBatch]:
        """Records of a partition, among them the latest of every key; none is older than the kept ones.

        `look` is called before and after reading: a topic that was recreated meanwhile is read again.
        """
        while True:
            now = self.clock()
            log = look()
            before = self.kept.pop(name, None)
            reduced = Reduced(None)
            start = log.start
            if before is not None and log.continues(before, now):
                reduced = Reduced(since(before.rows, log.start))
                start = max(before.log.end, log.start)
            if start < log.end:
                batches = iter(read(start, log.end))
                for batch in batches:
                    reduced.add(batch)
                    if reduced.size_bytes > self.bytes_max:
                        yield from reduced.batches()
                        yield from batches
                        return
                after = look()
                if (after.topic_id, after.leader_epoch) != (log.topic_id, log.leader_epoch):
                    continue
            self._keep(name, log, reduced.rows(), now)
            yield from reduced.batches()
            return

    def _keep(self, name: object, log: LogState, rows: pa.Table | None, now: float) -> None:
        if rows is None or log.topic_id is None:
            return
        for other in [each for each, kept in self.kept.items() if now - kept.seen_at > FRESH_SECONDS_MAX]:
            del self.kept[other]
        if rows.nbytes + sum(each.rows.nbytes for each in self.kept.values()) <= self.bytes_max:
            self.kept[name] = CachedPartition(log, rows, now)


class Reduced:
    """Records in the order of a partition, reduced to the latest of each key."""

    def __init__(self, rows: pa.Table | None) -> None:
        self._rows = rows
        self._new: list[pa.RecordBatch] = []
        self._new_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the next records."""
        self._new.append(batch)
        self._new_bytes += batch.nbytes
        if self._new_bytes > REDUCED_EVERY_BYTES:
            self.rows()

    @property
    def size_bytes(self) -> int:
        """Size of the records, as far as they are reduced."""
        return self._rows.nbytes if self._rows is not None else 0

    def rows(self) -> pa.Table | None:
        """The records; None if there was never one."""
        if self._new:
            newest = newest_records(pa.Table.from_batches(self._new))
            parts = [newest.filter(pc.is_valid(newest["value"]))]
            if self._rows is not None:
                replaced = pc.is_in(self._rows["key"], value_set=newest["key"].combine_chunks())
                parts.insert(0, self._rows.filter(pc.invert(replaced)))
            self._rows = pa.concat_tables(parts).combine_chunks()
            self._new, self._new_bytes = [], 0
        return self._rows

    def batches(self) -> list[pa.RecordBatch]:
        """The records in batches."""
        rows = self.rows()
        return rows.to_batches(max_chunksize=ROWS_MAX) if rows is not None else []


def newest_records(records: pa.Table) -> pa.Table:
    """The last record of every key; those without a key are left out. Records are in the partition's order.

    By hand, because pyarrow's group_by imports pandas at its first use: a third of a second.
    """
    records = records.filter(pc.is_valid(records["key"])).combine_chunks()
    if not records.num_rows:
        return records
    encoded = records["key"].combine_chunks().dictionary_encode()
    codes = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(encoded))
    last = np.empty(len(encoded.dictionary), np.int64)
    last[codes] = np.arange(len(codes))  # of equal codes the last one stays
    last.sort()
    return records.take(pa.Array.from_buffers(pa.int64(), len(last), [None, pa.py_buffer(last)]))


def since(rows: pa.Table, offset: int) -> pa.Table:
    """The rows from an offset on."""
    if not rows.num_rows or pc.min(rows["offset"]).as_py() >= offset:
        return rows
    return rows.filter(pc.field("offset") >= offset)
