"""Records as columns: what a source yields, converters and transforms pass on, and a sink writes.

    Batch   | topic | key: Column | value: Column | timestamps | headers | partition, offsets |
    Column  | schema | values |    with a schema: an Arrow array of that schema's type
                                   without:       a list of what JSON has (None, bool, int, float, str, list,
                                   dict), or bytes

All records of a batch have one topic, one key schema and one value schema; where one of them changes, a new
batch begins. A null row of a column is a tombstone (no key, no value), whatever the schema says. At a sink a
batch is also a run of one partition of one topic, offsets rising; `origin` says which partition they were
read from, whatever a transform made of `topic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from moldau.connect.schema import Schema


class TopicPartition(NamedTuple):
    """A partition of a Kafka topic."""

    topic: str
    partition: int


class Header(NamedTuple):
    """A header of a record: `value` is what the header converter made of the bytes, `schema` None without
    one."""

    key: str
    value: Any
    schema: Schema | None = None


Values: TypeAlias = pa.Array | list[Any]


@dataclass(frozen=True, slots=True)
class Column:
    """The keys, or the values, of a batch's records."""

    schema: Schema | None
    values: Values

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, first: int, count: int) -> Column:
        """These rows; the column is not copied (a list is, its values are not)."""
        if isinstance(self.values, list):
            return Column(self.schema, self.values[first : first + count])
        return Column(self.schema, self.values.slice(first, count))

    def take(self, rows: Sequence[int]) -> Column:
        """These rows, in this order."""
        if isinstance(self.values, list):
            return Column(self.schema, [self.values[row] for row in rows])
        return Column(self.schema, self.values.take(pa.array(rows, pa.int64())))


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records; see the module."""

    topic: str
    key: Column
    value: Column
    timestamps_ms: pa.Array
    """int64; null: none is known (a source then leaves it to the producer)."""
    headers: tuple[tuple[Header, ...], ...] | None = None
    """A tuple a record; None: no record has any."""
    partition: int | None = None
    """The Kafka partition that a source wants; None: by the key."""
    origin: TopicPartition | None = None
    """At a sink: where the records were read. A source's batches have none."""
    offsets: pa.Array | None = None
    """int64, at a sink: the records' offsets in `origin`."""
    rows: pa.Array | None = None
    """int64, within a chain of transforms: which row of the chain's batch each record comes from."""

    def __len__(self) -> int:
        return len(self.value)

    def take(self, rows: Sequence[int]) -> Batch:
        """These rows, in this order (a transform that leaves records out)."""
        index = pa.array(rows, pa.int64())
        return replace(
            self,
            key=self.key.take(rows),
            value=self.value.take(rows),
            timestamps_ms=self.timestamps_ms.take(index),
            headers=None if self.headers is None else tuple(self.headers[row] for row in rows),
            offsets=None if self.offsets is None else self.offsets.take(index),
            rows=None if self.rows is None else self.rows.take(index),
        )

    def slice(self, first: int, count: int) -> Batch:
        """`count` rows from `first` on; columns are not copied."""
        if first == 0 and count >= len(self):
            return self
        return replace(
            self,
            key=self.key.slice(first, count),
            value=self.value.slice(first, count),
            timestamps_ms=self.timestamps_ms.slice(first, count),
            headers=None if self.headers is None else self.headers[first : first + count],
            offsets=None if self.offsets is None else self.offsets.slice(first, count),
            rows=None if self.rows is None else self.rows.slice(first, count),
        )

    def split(self, count_max: int) -> Sequence[Batch]:
        """Batches of at most so many records."""
        return [self.slice(first, count_max) for first in range(0, len(self), count_max)]
