"""Records into tables, each once: rows and the next offset of their partition are one transaction.

`write` turns records into columns and keeps them; `flush` (or `batch.size` rows) writes them:

    one transaction   moldau_offsets: this task's positions are still what it saw, and move
                      table by table: deletions, then rows (the last one of each key)

A database that is away is tried again for `max.retries`; then, and where another task has moved a position,
the worker hears of it and begins again where the table moldau_offsets stands. A row that the database
refuses is found by halves, and reported alone.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from moldau.connect.batch import Batch, TopicPartition
from moldau.connect.connectors.jdbc.database import Database, RowRefused, table_name
from moldau.connect.connectors.jdbc.dialects import writer
from moldau.connect.connectors.jdbc.offsets import Offsets
from moldau.connect.connectors.jdbc.record_columns import KeyMode, Rows, rows_of
from moldau.connect.connectors.jdbc.sink_settings import SINK_SETTINGS, check_sink, each_name
from moldau.connect.connectors.jdbc.staging import Staging, settled, together
from moldau.connect.connectors.jdbc.tables import Table, Tables
from moldau.connect.errors import BadRecord, ConnectError, Retriable
from moldau.connect.sink import Sink, SinkContext

SIZE_BYTES_MAX = 64 << 20
BACKOFF_SECONDS_MAX = 60.0


class JdbcSink(Sink):
    """See the module."""

    settings = SINK_SETTINGS

    def start(self, settings: Mapping[str, Any], context: SinkContext) -> None:
        """Connects when it is asked for positions, or to write."""
        super().start(settings, context)
        self._mode: str = settings["insert.mode"]
        self._key = KeyMode(
            settings["pk.mode"],
            each_name(settings["pk.fields"]),
            settings["delete.enabled"],
            each_name(settings["fields.whitelist"]),
        )
        self._rows_max: int = settings["batch.size"]
        self._database = Database(settings)
        self._offsets = Offsets(self._database, context.connector, settings["moldau.offsets.table"])
        self._tables = Tables(self._database, settings)
        self._writer = writer(self._database, settings["db.timezone"], self._rows_max)
        self._staging = Staging()

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions; with none, whether the database can be reached."""
        wrong: dict[str, list[str]] = dict(check_sink(settings))
        if wrong:
            return wrong
        try:
            table_name(settings["table.name.format"].replace("${topic}", "topic"))
        except ConnectError as error:
            return {"table.name.format": [str(error)]}
        try:
            database = Database(settings)
        except ConnectError as error:
            return {"connection.url": [str(error)]}
        try:
            with database.transaction() as connection:
                database.run(connection, "SELECT 1")
        except (ConnectError, RowRefused) as error:
            return {"connection.url": [str(error)]}
        finally:
            database.close()
        return {}

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """What the table moldau_offsets has."""
        found: Mapping[TopicPartition, int] = self._again(lambda: self._offsets.read(partitions))
        return found

    def set_positions(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Into the table moldau_offsets."""
        self._offsets.set(positions)

    def closed(self, partitions: Sequence[TopicPartition]) -> None:
        """Other tasks write these from now on."""
        self._offsets.forget(partitions)

    def write(self, batch: Batch, number: int) -> None:
        """Stage a run."""
        assert batch.origin is not None
        assert batch.offsets is not None
        try:
            unwritten = self._again(lambda: self._offsets.unwritten(batch))
            if unwritten is None:
                return
            name = table_name(self.config["table.name.format"].replace("${topic}", batch.topic))
            for rows in rows_of(unwritten, self._key, self.context.bad_record):
                table, suited = self._again(
                    lambda rows=rows: self._tables.suited(name, rows, self._mode == "upsert")
                )
                self._staging.add(table, suited)
        except Exception:
            self._reset()
            raise
        self._staging.ends[batch.origin] = max(
            batch.offsets[-1].as_py() + 1, self._staging.ends.get(batch.origin, 0)
        )
        if self._staging.rows >= self._rows_max or self._staging.size_bytes >= SIZE_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """One transaction of all that is staged. Retriable: nothing of it is known to be stored."""
        if not self._staging.ends:
            return
        ends = dict(self._staging.ends)
        try:
            self._again(lambda: self._commit(ends))
        except Exception:
            self._reset()  # the worker begins again where the table moldau_offsets stands
            raise
        self._offsets.moved(ends)
        self._staging = Staging()

    def stop(self) -> None:
        """Close the connections; what is not flushed will be written again."""
        if hasattr(self, "_database"):
            self._database.close()

    def _reset(self) -> None:
        self._staging = Staging()
        self._offsets.forget()
        self._tables.forget()

    def _again(self, action: Any) -> Any:
        """Try `action` while the database is away, `max.retries` times. Retriable, ConnectError."""
        left: int = self.config["max.retries"]
        pause = self.config["retry.backoff.ms"] / 1000
        while True:
            try:
                return action()
            except RowRefused as error:  # outside of rows: a statement of our own
                raise ConnectError(f"database {self._database.place} refuses: {error}") from error
            except Retriable as error:
                if left <= 0 or "another task" in str(error) or self.context.wait(pause):
                    raise
            left -= 1
            pause = min(pause * 2, BACKOFF_SECONDS_MAX)

    def _commit(self, ends: Mapping[TopicPartition, int]) -> None:
        groups = self._staging.groups()
        with self._database.transaction() as connection:
            self._offsets.advance(connection, ends)
            for table, parts in groups:
                self._write_parts(connection, table, parts)

    def _write_parts(self, connection: Any, table: Table, parts: list[Rows]) -> None:
        """All at once; if a row is refused, by halves."""
        try:
            with self._database.errors(), connection.begin_nested(), driver_errors(connection):
                self._write_together(connection, table, parts)
            return
        except RowRefused as refused:
            said = str(refused)
        if len(parts) == 1 and len(parts[0]) == 1:
            self._report(table, parts[0], said)
            return
        for half in _halves(parts):
            self._write_parts(connection, table, half)

    def _write_together(self, connection: Any, table: Table, parts: list[Rows]) -> None:
        columns, gone = together(parts)
        keys = list(parts[0].keys)
        if self._mode == "insert":
            for first, end in _runs(gone):
                run = {name: each.slice(first, end - first) for name, each in columns.items()}
                if gone[first]:
                    self._writer.delete(connection, table, {each: run[each] for each in keys})
                else:
                    self._writer.insert(connection, table, run)
            return
        rows, deleted = settled(columns, gone, keys)
        if deleted:
            self._writer.delete(connection, table, deleted)
        if len(rows[keys[0]]):
            write = self._writer.upsert if self._mode == "upsert" else self._writer.update
            write(connection, table, rows, keys)

    def _report(self, table: Table, rows: Rows, said: str) -> None:
        place, batch = int(rows.places[0]), rows.batch
        origin = f"{batch.origin.topic}-{batch.origin.partition}" if batch.origin else batch.topic
        offset = batch.offsets[place].as_py() if batch.offsets is not None else "?"
        kinds = ", ".join(f"{name} {table.types[name]}" for name in rows.columns)
        self.context.bad_record(
            batch,
            place,
            BadRecord(
                f"record {origin}@{offset} cannot be a row of table {table.name}: {said} (columns: "
                f"{kinds}). Change the "
                f"column, or the field (Cast, ReplaceField), or leave such records out "
                f"(errors.tolerance=all)",
                place,
            ),
        )


@contextlib.contextmanager
def driver_errors(connection: Any) -> Iterator[None]:
    """Errors of COPY, which goes past SQLAlchemy, as SQLAlchemy's."""
    import sqlalchemy

    dialect = connection.dialect
    try:
        yield
    except dialect.loaded_dbapi.Error as error:
        raise sqlalchemy.exc.DBAPIError.instance(
            None, None, error, dialect.loaded_dbapi.Error, dialect=dialect
        ) from error


def _halves(parts: list[Rows]) -> list[list[Rows]]:
    if len(parts) > 1:
        middle = len(parts) // 2
        return [parts[:middle], parts[middle:]]
    rows, middle = parts[0], len(parts[0]) // 2
    return [[_cut(rows, 0, middle)], [_cut(rows, middle, len(rows))]]


def _cut(rows: Rows, first: int, end: int) -> Rows:
    return Rows(
        {name: each.slice(first, end - first) for name, each in rows.columns.items()},
        rows.schemas,
        rows.keys,
        rows.batch,
        rows.places[first:end],
        None if rows.deleted is None else rows.deleted[first:end],
    )


def _runs(gone: Any) -> list[tuple[int, int]]:
    """(first, end) of rows that are all deletions, or none is."""
    edges = [0, *(np.flatnonzero(np.diff(gone)) + 1).tolist(), len(gone)]
    return [(first, end) for first, end in itertools.pairwise(edges) if end > first]
