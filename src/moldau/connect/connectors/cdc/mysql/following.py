"""Follows the binary log from a position on: rows of events -> changes, with the position behind them.

    GTID ... rows ... XID      a transaction; the position is behind its end, and how many rows of the next
                               one were delivered
    QUERY                      a change of a table, which is a transaction of its own; SAVEPOINT is none

On another server of the same data (by GTIDs) positions stay those of the server before until a transaction
was read to its end: only then the place in the new one's log is known.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from moldau.connect.batch import Batch
from moldau.connect.connectors.cdc.converting import Unreadable, refusal
from moldau.connect.connectors.cdc.envelope import Change, EnvelopeTable
from moldau.connect.connectors.cdc.mysql.gtids import MariadbGtids, MysqlGtids
from moldau.connect.connectors.cdc.mysql.incremental import Incremental
from moldau.connect.connectors.cdc.mysql.positions import BinlogPosition, Place
from moldau.connect.connectors.cdc.mysql.tables import MysqlTable, MysqlTables
from moldau.connect.connectors.cdc.naming import topic_name
from moldau.connect.connectors.cdc.postgres.metadata import heartbeat
from moldau.connect.errors import BadRecord, ConnectError, Retriable
from moldau.connect.source import Read, Refused

_PURGED = (1236,)
_WITHIN = ("BEGIN", "SAVEPOINT", "ROLLBACK TO", "RELEASE SAVEPOINT")
"""Statements in the log that end no transaction."""
Gtids = MariadbGtids | MysqlGtids


class Following:
    """`stream`: mysql-replication's. `server`: whose log it is."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        tables: MysqlTables,
        incremental: Incremental,
        stream: Any,
        position: BinlogPosition,
        gtids: Gtids,
        server: str,
    ) -> None:
        self._settings = settings
        self._prefix: str = settings["topic.prefix"]
        self._tables = tables
        self._incremental = incremental
        self._stream = stream
        self._begun = replace(position, rows=0, rows_gtid="")
        """Behind the last complete transaction."""
        self._gtids = gtids
        self._identity = server
        self._elsewhere = bool(position.server) and position.server != server
        self._partial = (position.rows_gtid, position.rows)
        """The transaction that was delivered in part (empty: the next one), and how many of its rows."""
        self._left_out = position.rows
        self._rows = 0
        self._gtid: str | None = None
        self._yielded = position
        self._moved_at = self._heartbeat_at = time.monotonic()
        self._skipped = set(settings["skipped.operations"])
        self._parts: list[tuple[EnvelopeTable, list[Change]]] = []
        self._refused: list[Refused] = []

    def next(self) -> Read | None:
        """Wait for a change or the server's sign of life. Retriable, ConnectError."""
        import pymysql

        self._parts, self._refused = [], []
        count = 0
        deadline = time.monotonic() + self._settings["poll.interval.ms"] / 1000
        try:
            while count < self._settings["max.batch.size"]:
                event = self._stream.fetchone()
                if event is None:
                    raise Retriable("the server has ended its log")
                idle = type(event).__name__ == "HeartbeatLogEvent"
                if not idle:
                    count += self._take(event)
                if idle or time.monotonic() > deadline:
                    break
        except pymysql.MySQLError as error:
            if error.args and error.args[0] in _PURGED:
                raise ConnectError(f"the server cannot go on in its log: {error.args[-1]}") from error
            raise Retriable(f"the connection for changes broke: {error.args[-1]}") from error
        self._read_chunks()
        batches: list[Batch] = []
        for table, changes in self._parts:
            made, unfit = table.records(changes)
            batches += made
            self._refused += unfit
        return self._read(batches)

    def _read_chunks(self) -> None:
        place = Place(self._stream.log_file, self._stream.log_pos)
        made = self._incremental.reached(place)
        if made is not None:
            now_s = int(time.time())
            source = self._tables.source_of(made.table, now_s, *place, 0, 0, None, "incremental")
            self._add(made.table.records, [replace(each, source=source) for each in made.changes])
            self._refused += made.refused
        if self._incremental.orders.waiting:
            self._incremental.read_next(place)

    def _add(self, table: EnvelopeTable, changes: Sequence[Change]) -> None:
        newest = next((part for part in reversed(self._parts) if part[0].topic == table.topic), None)
        if newest is None or newest[0] is not table:
            newest = (table, [])
            self._parts.append(newest)
        newest[1].extend(changes)

    def _take(self, event: Any) -> int:
        kind = type(event).__name__
        if kind in ("WriteRowsEvent", "UpdateRowsEvent", "DeleteRowsEvent"):
            return self._take_rows(event, kind[0])
        if kind in ("GtidEvent", "MariadbGtidEvent"):
            self._begins(event.gtid)
        elif kind == "XidEvent":
            self._ends(event.timestamp)
        elif kind == "QueryEvent":
            text = event.query.strip().upper()
            if not text.startswith(_WITHIN):
                if not text.startswith("COMMIT"):
                    self._incremental.spoil("", "")  # of whatever table it is
                self._ends(event.timestamp)
        elif kind == "RotateEvent" and event.next_binlog != self._begun.file and not self._elsewhere:
            self._begun = replace(self._begun, file=event.next_binlog, pos=event.position)
        return 0

    def _begins(self, gtid: str) -> None:
        self._gtid = gtid
        wanted, rows = self._partial
        self._left_out = rows if wanted in ("", gtid) else 0

    def _ends(self, time_s: int) -> None:
        if self._gtid is not None:
            self._gtids.add(self._gtid)
        self._begun = BinlogPosition(
            self._stream.log_file,
            self._stream.log_pos,
            0,
            time_s,
            gtids=str(self._gtids),
            server=self._identity,
        )
        self._elsewhere = False
        self._partial, self._left_out, self._rows, self._gtid = ("", 0), 0, 0, None

    def _take_rows(self, event: Any, letter: str) -> int:
        is_captured = self._tables.captured(event.schema, event.table)
        is_signals = self._tables.is_signals(event.schema, event.table)
        if not is_captured and not is_signals:
            return 0
        op = {"W": "c", "U": "u", "D": "d"}[letter]
        if reason := _unusable(event):
            self._refuse(event, op, reason, is_captured)
            return 0
        table = self._tables.of_log(event.schema, event.table, event.columns)
        place = Place(self._stream.log_file, event.packet.log_pos)
        made: list[Change] = []
        for index, row in enumerate(event.rows):
            is_old = False
            if is_captured:
                self._rows += 1
                is_old = self._rows <= self._left_out
            source = self._tables.source_of(
                table, event.timestamp, self._stream.log_file, event.packet.log_pos, index,
                event.packet.server_id, self._gtid,
            )  # fmt: skip
            old, new = _given(table, op, row)
            try:
                changes = list(self._changes(table, op, old, new, source))
            except Unreadable as error:
                self._incremental.spoil(event.schema, event.table)
                if is_captured and not is_old and op not in self._skipped:
                    self._refused.append(table.records.refused(error, op, old, new))
                continue
            is_skipped = is_old or op in self._skipped
            self._incremental.see(event.schema, event.table, place, changes, is_skipped)
            if is_signals and op == "c" and changes[0].after is not None:
                self._incremental.signal(changes[0].after)
            if is_captured and not is_skipped:
                made += changes
        if made:
            self._add(table.records, made)
        return len(made)

    def _refuse(self, event: Any, op: str, reason: str, is_captured: bool) -> None:
        """All rows of an event."""
        self._incremental.spoil(event.schema, event.table)
        name = f"{event.schema}.{event.table}"
        for row in event.rows if is_captured else ():
            self._rows += 1
            if self._rows > self._left_out and op not in self._skipped:
                values = row.get("values")
                before = row.get("before_values") if op == "u" else values if op == "d" else None
                after = row.get("after_values") if op == "u" else values if op == "c" else None
                topic = topic_name(self._prefix, event.schema, event.table)
                self._refused.append(refusal(topic, name, BadRecord(reason), op, None, before, after))

    def _changes(
        self, table: MysqlTable, op: str, old: Any, new: Any, source: tuple[Any, ...]
    ) -> Iterator[Change]:
        records, tombstones = table.records, self._settings["tombstones.on.delete"]
        before = None if old is None else table.values(old)
        after = None if new is None else table.values(new)
        old_key = records.key_of(before) if before is not None else None
        key = records.key_of(after) if after is not None else None
        if op == "d" or (op == "u" and old_key != key):
            yield Change("d", before, None, source, old_key)
            if tombstones and old_key is not None:
                yield Change("", None, None, source, old_key)
            before = None
        if op != "d":
            yield Change("c" if before is None else "u", before, after, source, key)

    def _read(self, batches: list[Batch]) -> Read | None:
        now = time.monotonic()
        interval = self._settings["heartbeat.interval.ms"] / 1000
        if interval and now - self._heartbeat_at >= interval:
            self._heartbeat_at = now
            batches.append(heartbeat(self._settings["topic.heartbeat.prefix"], self._prefix))
        position = self._position()
        if not batches and not self._refused and (position == self._yielded or now - self._moved_at < 10):
            return None
        self._moved_at, self._yielded = now, position
        return Read(batches, position.offset(), refused=self._refused)

    def _position(self) -> BinlogPosition:
        rows, gtid = max(self._rows, self._left_out), self._gtid or ""
        if self._gtid is None and not self._rows:  # between two transactions
            gtid, rows = self._partial
        return replace(self._begun, rows=rows, rows_gtid=gtid, incremental=self._incremental.orders.state())


def _unusable(event: Any) -> str:
    """Why rows of an event cannot be records; empty: they can."""
    if not all(each.name for each in event.columns):
        return (
            "the log does not name the columns of this change, and those of the table may be others by now: "
            "binlog_row_metadata was not FULL. Set it, and delete the connector's offsets for a new snapshot"
        )
    all_of_them = (1 << len(event.columns)) - 1
    for name in ("columns_present_bitmap", "columns_present_bitmap2"):
        bitmap = getattr(event, name, None)
        if bitmap is not None and int.from_bytes(bitmap, "little") & all_of_them != all_of_them:
            return (
                "the log has only some of the columns of this change: binlog_row_image was not FULL (a "
                "session can set it for itself). An incremental snapshot brings the row as it is"
            )
    return ""


def _given(table: MysqlTable, op: str, row: Mapping[str, Any]) -> tuple[list[Any] | None, list[Any] | None]:
    """A row of the log before and after, in the order of the table's columns."""
    before = row["before_values"] if op == "u" else row["values"] if op == "d" else None
    after = row["after_values"] if op == "u" else row["values"] if op == "c" else None
    return (
        None if before is None else [before.get(name) for name in table.columns],
        None if after is None else [after.get(name) for name in table.columns],
    )
