"""What both table formats' sinks do: stage runs by table, leave out what a table has, commit when told to.

A format gives a `Lake`: which columns a table has, where it stands, and one commit of rows with positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from moldau.connect.batch import Batch, TopicPartition
from moldau.connect.connectors.lake.changes import MARK, keys_of_tombstone, last_of_each, marked, require_keys
from moldau.connect.connectors.lake.positions import Positions
from moldau.connect.connectors.lake.staging import Staged, Staging
from moldau.connect.connectors.lake.table_rows import METADATA, fit, table_rows
from moldau.connect.errors import BadRecord, ConnectError, Retriable
from moldau.connect.settings import Importance, Setting, SettingType, Width
from moldau.connect.sink import Sink, SinkContext


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table."""

    rows: pa.Table | None
    """To be added; with `keys`: to be merged, with the column MARK."""
    keys: Sequence[str]
    """Empty: rows are added."""
    ends: Mapping[TopicPartition, int]
    """The positions after it."""
    seen: Mapping[TopicPartition, int | None]
    """Those before it: where the table that is committed to has others, nothing is stored."""
    evolve: bool
    """New columns of the rows become columns of the table."""


class Lake(Protocol):
    """Tables of one format."""

    def columns(self, table: str) -> pa.Schema | None:
        """What a table has; None: it does not exist. Retriable, ConnectError."""

    def position(self, table: str, partition: TopicPartition) -> int | None:
        """Where the table stands, read now; None: it has nothing of this partition."""

    def commit(self, table: str, commit: Commit) -> None:
        """Rows and positions at once; the table is made if it does not exist. Retriable, ConnectError."""

    def set_position(self, table: str, partition: TopicPartition, position: int | None) -> None:
        """An administrator's word; None: forgotten. Retriable, ConnectError."""


def _known_metadata(names: Any) -> str | None:
    wrong = [name for name in names if name not in METADATA]
    return f"{wrong[0]} is not one of {', '.join(METADATA)}" if wrong else None


LAKE_SETTINGS = (
    Setting(
        "write.mode",
        SettingType.STRING,
        "append: each record is a row. upsert: a record replaces the row of its key, and a tombstone deletes "
        "it.",
        "append",
        Importance.HIGH,
        "Writing",
        choices=("append", "upsert"),
    ),
    Setting(
        "key.columns",
        SettingType.LIST,
        "With write.mode=upsert: the columns that make a row the same row.",
        [],
        Importance.HIGH,
        "Writing",
    ),
    Setting(
        "auto.create",
        SettingType.BOOLEAN,
        "Make a table that does not exist, with the columns of its first records.",
        True,
        Importance.MEDIUM,
        "Writing",
    ),
    Setting(
        "auto.evolve",
        SettingType.BOOLEAN,
        "Add columns to a table when records have new fields. Off: such records are bad records.",
        True,
        Importance.MEDIUM,
        "Writing",
    ),
    Setting(
        "metadata.columns",
        SettingType.LIST,
        f"Columns to add of {', '.join(METADATA)}; their names begin with an underscore.",
        [],
        Importance.LOW,
        "Writing",
        check=_known_metadata,
    ),
    Setting(
        "commit.size.bytes",
        SettingType.LONG,
        "Commit when so much is staged, before the worker's offset.flush.interval.ms is over.",
        256 << 20,
        Importance.LOW,
        "Writing",
        width=Width.SHORT,
    ),
)


def check_modes(settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """What contradicts itself among LAKE_SETTINGS."""
    if settings["write.mode"] == "upsert" and not settings["key.columns"]:
        return {"key.columns": ["write.mode=upsert needs key.columns: by what are two rows the same row?"]}
    if settings["write.mode"] == "append" and settings["key.columns"]:
        return {"key.columns": ["key.columns has no meaning with write.mode=append"]}
    return {}


class LakeWriter:
    """Stages and commits; a sink of either format hands its calls on."""

    def __init__(self, lake: Lake, settings: Mapping[str, Any], context: SinkContext) -> None:
        self._lake = lake
        self._context = context
        self._keys: Sequence[str] = settings["key.columns"] if settings["write.mode"] == "upsert" else ()
        self._metadata: Sequence[str] = settings["metadata.columns"]
        self._create: bool = settings["auto.create"]
        self._evolve: bool = settings["auto.evolve"]
        self._size_bytes_max: int = settings["commit.size.bytes"]
        self._staging = Staging()
        self._positions: dict[str, Positions] = {}
        self._columns: dict[str, pa.Schema | None] = {}

    def write(self, table: str, batch: Batch) -> None:
        """Stage a run for a table. ConnectError; Retriable: nothing is staged any more, of no table."""
        try:
            self._stage(table, batch)
        except Retriable:
            self._staging.clear()
            raise

    def _stage(self, table: str, batch: Batch) -> None:
        assert batch.origin is not None
        assert batch.offsets is not None
        end = batch.offsets[-1].as_py() + 1
        positions = self._positions_of(table)
        unwritten = positions.unwritten(batch)
        if unwritten is None:
            return
        columns = self._columns_of(table)
        staged = self._staging.of(table)
        if self._keys:
            for rows in self._changes(unwritten, columns):
                staged.add(rows, batch.origin, end)
        else:
            rows, _ = table_rows(unwritten, self._metadata, columns, self._context.bad_record)
            staged.add(self._known(rows, columns, table), batch.origin, end)
        staged.ends[batch.origin] = end
        if self._staging.size_bytes >= self._size_bytes_max:
            self.flush()

    def flush(self) -> None:
        """Commit what is staged, table by table. Retriable: nothing of the failed table is stored."""
        for table, staged in self._staging.tables():
            positions = self._positions_of(table)
            try:
                positions.confirm(staged.ends, table)
                self._lake.commit(table, self._commit_of(staged, positions.of(staged.ends)))
            except Exception:
                self._staging.clear()  # the worker begins again at the committed offset
                self._columns.pop(table, None)
                raise
            positions.moved(staged.ends)
            self._columns.pop(table, None)
        self._staging.clear()

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Other tasks write these from now on."""
        for positions in self._positions.values():
            positions.forget(partitions)

    def _commit_of(self, staged: Staged, seen: Mapping[TopicPartition, int | None]) -> Commit:
        rows = staged.rows()
        if rows is not None and self._keys:
            rows = last_of_each(rows, self._keys)
        return Commit(rows, self._keys, staged.ends, seen, self._evolve)

    def _positions_of(self, table: str) -> Positions:
        if table not in self._positions:
            self._positions[table] = Positions(lambda partition: self._lake.position(table, partition))
        return self._positions[table]

    def _columns_of(self, table: str) -> pa.Schema | None:
        if table not in self._columns:
            columns = self._lake.columns(table)
            if columns is None and not self._create:
                raise ConnectError(f"there is no table {table}: make it, or set auto.create=true")
            self._columns[table] = columns
        return self._columns[table]

    def _known(self, rows: pa.Table, columns: pa.Schema | None, table: str) -> pa.Table:
        if self._evolve or columns is None:
            return rows
        unknown = [name for name in rows.column_names if name not in columns.names]
        if unknown:
            raise ConnectError(
                f"table {table} has no column {unknown[0]}: set auto.evolve=true, or leave the field out "
                f"(ReplaceField)"
            )
        return rows

    def _changes(self, batch: Batch, columns: pa.Schema | None) -> list[pa.Table]:
        """Rows and deletions of a run, in order, as runs of either."""
        values = batch.value.values
        gone = (
            [value is None for value in values] if isinstance(values, list) else values.is_null().to_pylist()
        )
        changes, first = [], 0
        while first < len(gone):
            end = first
            while end < len(gone) and gone[end] == gone[first]:
                end += 1
            part = batch.take(range(first, end))
            change = self._deletions(part, columns) if gone[first] else self._replacements(part, columns)
            if change is not None:
                changes.append(change)
            first = end
        return changes

    def _replacements(self, batch: Batch, columns: pa.Schema | None) -> pa.Table | None:
        rows, places = table_rows(batch, self._metadata, columns, self._context.bad_record)
        while rows.num_rows:
            try:
                require_keys(rows, self._keys)
            except BadRecord as problem:
                bad = problem.index if problem.index is not None else 0
                self._context.bad_record(batch, places[bad], problem)
                rows = pa.concat_tables([rows.slice(0, bad), rows.slice(bad + 1)])
                del places[bad]
                continue
            return marked(rows, False)
        return None

    def _deletions(self, batch: Batch, columns: pa.Schema | None) -> pa.Table | None:
        keys = []
        for row in range(len(batch)):
            try:
                keys.append(keys_of_tombstone(batch, row, self._keys))
            except BadRecord as problem:
                self._context.bad_record(batch, row, problem)
        if not keys:
            return None
        return marked(fit(pa.Table.from_pylist(keys), columns), True)


class LakeSink(Sink):
    """What a format's sink has in common: its `start` makes `lake` and `writer`, `table` names a topic's."""

    lake: Lake
    writer: LakeWriter

    def table(self, topic: str) -> str:
        """The name or address of its table."""
        raise NotImplementedError

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Each table knows, and is asked when its first run comes: nothing to seek to, nothing to note."""
        return {}

    def set_positions(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """In the table of the topic's own name; a transform may have sent rows elsewhere."""
        for partition, position in positions.items():
            self.lake.set_position(self.table(partition.topic), partition, position)

    def write(self, batch: Batch, number: int) -> None:
        """Stage."""
        self.writer.write(self.table(batch.topic), batch)

    def flush(self) -> None:
        """Commit."""
        self.writer.flush()

    def closed(self, partitions: Sequence[TopicPartition]) -> None:
        """Other tasks write them now."""
        self.writer.forget(partitions)


def without_mark(rows: pa.Table) -> pa.Table:
    """The rows to store."""
    return rows.drop_columns([MARK])
