"""What is written and not committed yet: rows by table, and how far they go by topic partition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from moldau.connect.batch import TopicPartition


@dataclass(slots=True)
class Staged:
    """Of one table."""

    parts: list[pa.Table] = field(default_factory=list)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """The offset after the last record, whether it became a row or not."""
    size_bytes: int = 0

    def add(self, rows: pa.Table, origin: TopicPartition, end: int) -> None:
        """Rows of a run, which ends before `end`."""
        if rows.num_rows:
            self.parts.append(rows)
            self.size_bytes += rows.nbytes
        self.ends[origin] = end

    def rows(self) -> pa.Table | None:
        """All rows with the columns of all parts; None: there are none."""
        if not self.parts:
            return None
        return pa.concat_tables(self.parts, promote_options="permissive")


class Staging:
    """By table. A commit takes a table's rows out; what fails is written again by the worker."""

    def __init__(self) -> None:
        self._tables: dict[str, Staged] = {}

    def __bool__(self) -> bool:
        return bool(self._tables)

    @property
    def size_bytes(self) -> int:
        """Of all rows, as Arrow holds them."""
        return sum(each.size_bytes for each in self._tables.values())

    def of(self, table: str) -> Staged:
        """The table's, made when it has none."""
        return self._tables.setdefault(table, Staged())

    def tables(self) -> Iterable[tuple[str, Staged]]:
        """All, in the order in which they came."""
        return list(self._tables.items())

    def clear(self) -> None:
        """Nothing is staged: it is committed, or will be written again."""
        self._tables.clear()
