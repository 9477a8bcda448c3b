"""Records into tables, each once: rows and the next offset of their partition are one transaction.

`write` turns records into columns and keeps them; `flush` (or `batch.size` rows) writes them:

    one transaction   moldau_offsets: this task's positions are still what it saw, and move
                      table by table: deletions, then rows (the last one of each key)

A database that is away is tried again for `max.retries`; then, and where another task has moved a position,
the worker hears of it and begins again where the table moldau_offsets stands.

Where the database refuses a row, nothing of the transaction is stored, and each half of it becomes one of its
own, and so on; one of a few rows has a savepoint for each attempt, in which the row is found and reported
alone. (All in one transaction, thousands of refused rows would need as many savepoints, each of which holds a
lock of the server's until the end: "out of shared memory", however often it is tried.)
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
from moldau.connect.connectors.jdbc.staging import Run, Staging, settled, together
from moldau.connect.connectors.jdbc.tables import Table, Tables
from moldau.connect.errors import BadRecord, ConnectError, Retriable
from moldau.connect.sink import Sink, SinkContext

SIZE_BYTES_MAX = 64 << 20
APART_ROWS_MAX = 32
"""Of a transaction with savepoints; it has at most twice as many, PostgreSQL keeps 64 at hand."""
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
        self._reported: set[tuple[TopicPartition, int]] = set()
        """Records of what is staged that the worker knows to be refused."""

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
            run = Run(batch.origin, batch.offsets[-1].as_py() + 1, unwritten, [])
            for rows in rows_of(unwritten, self._key, self.context.bad_record):
                table, suited = self._again(
                    lambda rows=rows: self._tables.suited(name, rows, self._mode == "upsert")
                )
                run.parts.append((table, suited))
        except Exception:
            self._reset()
            raise
        self._staging.add(run)
        if self._staging.rows >= self._rows_max or self._staging.size_bytes >= SIZE_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """One transaction of all that is staged, or several where a row is refused. Retriable: what of it is
        stored, the table moldau_offsets says."""
        if not self._staging.runs:
            return
        left = [self._staging]
        try:
            while left:
                part = left.pop()
                ends = part.ends
                if self._again(lambda part=part: self._commit(part)) or (
                    part.rows <= APART_ROWS_MAX and self._again(lambda part=part: self._commit_apart(part))
                ):
                    self._offsets.moved(ends)
                else:
                    left += reversed(part.halves())
        except Exception:
            self._reset()  # the worker begins again where the table moldau_offsets stands
            raise
        self._staging = Staging()
        self._reported.clear()

    def stop(self) -> None:
        """Close the connections; what is not flushed will be written again."""
        if hasattr(self, "_database"):
            self._database.close()

    def _reset(self) -> None:
        self._staging = Staging()
        self._reported.clear()
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

    def _commit(self, staging: Staging) -> bool:
        """All of it or nothing; whether the database takes its rows."""
        try:
            with self._database.transaction() as connection, driver_errors(connection):
                self._advance(connection, staging.ends)
                for table, parts in staging.groups():
                    self._write_together(connection, table, parts)
        except RowRefused:
            return False
        return True

    def _advance(self, connection: Any, ends: Mapping[TopicPartition, int]) -> None:
        """Move the positions. A refusal of these is no row's fault: ConnectError."""
        try:
            with self._database.errors():
                self._offsets.advance(connection, ends)
        except RowRefused as refused:
            table = self.config["moldau.offsets.table"]
            raise ConnectError(
                f"database {self._database.place} refuses a position in {table}: {refused}"
            ) from refused

    def _commit_apart(self, staging: Staging) -> bool:
        """Without the rows that the database refuses, which are reported. False: it refuses at the end (a
        constraint that is deferred), and which row it means is to be found."""
        try:
            with self._database.transaction() as connection:
                self._advance(connection, staging.ends)
                for table, parts in staging.groups():
                    self._write_parts(connection, table, parts)
        except RowRefused as refused:
            if not staging.rows:
                raise ConnectError(f"database {self._database.place} refuses: {refused}") from refused
            if staging.rows > 1:
                return False
            ((table, (rows,)),) = staging.groups()
            self._report(table, rows, str(refused))
            with self._database.transaction() as connection:
                self._advance(connection, staging.ends)
        return True

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
        offset = batch.offsets[place].as_py() if batch.offsets is not None else -1
        if batch.origin is not None:
            if (batch.origin, offset) in self._reported:
                return  # by a transaction that did not come to its end
            self._reported.add((batch.origin, offset))
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
    return [[rows.cut(0, middle)], [rows.cut(middle, len(rows))]]


def _runs(gone: Any) -> list[tuple[int, int]]:
    """(first, end) of rows that are all deletions, or none is."""
    edges = [0, *(np.flatnonzero(np.diff(gone)) + 1).tolist(), len(gone)]
    return [(first, end) for first, end in itertools.pairwise(edges) if end > first]
