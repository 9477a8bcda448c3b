"""Rows of Spark's format "moldau" as messages: columns for what handles them all, an object for a single
one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.batch import TopicPartition
from moldau.services.connect.runtime.reading import Columns


class SparkMessage:
    """One row, as a client would hand it out."""

    def __init__(self, rows: SparkMessages, row: int) -> None:
        self._rows = rows
        self._row = row

    def _cell(self, name: str) -> Any:
        return self._rows.table[name][self._row].as_py()

    def topic(self) -> str:
        return self._rows.origin.topic

    def partition(self) -> int:
        return self._rows.origin.partition

    def offset(self) -> int:
        return int(self._cell("offset"))

    def key(self) -> bytes | None:
        found: bytes | None = self._cell("key")
        return found

    def value(self) -> bytes | None:
        found: bytes | None = self._cell("value")
        return found

    def timestamp(self) -> tuple[int, int]:
        return 1, self._rows.columns().timestamps_ms[self._row].as_py()

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        found = self._rows.columns().headers
        headers: list[tuple[str, bytes | None]] | None = None if found is None else found[self._row]
        return headers


class SparkMessages(Sequence[Any]):
    """Consecutive rows of one topic partition."""

    def __init__(self, origin: TopicPartition, table: pa.RecordBatch) -> None:
        self.origin = origin
        self.table = table
        self._columns: Columns | None = None

    def __len__(self) -> int:
        rows: int = self.table.num_rows
        return rows

    @overload
    def __getitem__(self, at: int) -> SparkMessage: ...
    @overload
    def __getitem__(self, at: slice) -> SparkMessages: ...
    def __getitem__(self, at: int | slice) -> SparkMessage | SparkMessages:
        if isinstance(at, slice):
            first, end, _ = at.indices(len(self))
            return SparkMessages(self.origin, self.table.slice(first, max(end - first, 0)))
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        return SparkMessage(self, at % len(self))

    def columns(self) -> Columns:
        """See reading.py."""
        if self._columns is None:
            headers = None
            if "headers" in self.table.schema.names and self.table["headers"].null_count < len(self):
                headers = [_pairs(each) for each in self.table["headers"].to_pylist()]
            self._columns = Columns(
                self.table["key"].cast(pa.binary()),
                self.table["value"].cast(pa.binary()),
                pc.cast(self.table["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False), pa.int64()),
                self.table["offset"].cast(pa.int64()),
                headers,
            )
        return self._columns


def _pairs(headers: Iterable[Any] | None) -> list[tuple[str, bytes | None]] | None:
    return None if not headers else [(each["key"], each["value"]) for each in headers]


def by_partition(rows: pa.RecordBatch) -> list[SparkMessages]:
    """The rows of each topic partition, where several come together; their order is kept."""
    topics, partitions = rows["topic"].to_pylist(), rows["partition"].to_pylist()
    made: list[SparkMessages] = []
    first = 0
    for row in range(1, rows.num_rows + 1):
        if row == rows.num_rows or (topics[row], partitions[row]) != (topics[first], partitions[first]):
            origin = TopicPartition(topics[first], partitions[first])
            made.append(SparkMessages(origin, rows.slice(first, row - first)))
            first = row
    return made
