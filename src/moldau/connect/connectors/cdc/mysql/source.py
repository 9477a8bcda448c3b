"""Changes of MySQL and MariaDB as records.

no offset    rows as of a position of the log, then changes from there
an offset    changes from the transaction in which it lies; rows that were delivered are left out by their
number
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from moldau.connect.batch import Batch
from moldau.connect.connectors.cdc.converting import Unreadable
from moldau.connect.connectors.cdc.envelope import Change, EnvelopeTable
from moldau.connect.connectors.cdc.mysql.positions import BinlogPosition, position_of
from moldau.connect.connectors.cdc.mysql.settings import MYSQL_SETTINGS, check_mysql
from moldau.connect.connectors.cdc.mysql.tables import MysqlTable, MysqlTables
from moldau.connect.connectors.cdc.postgres.metadata import heartbeat
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.source import Read, Refused, Source, SourceContext, SourceOffset, SourcePartition

_LOG = logging.getLogger(__name__)
_PURGED = (1236,)
Records = tuple[list[Batch], list[Refused]]
_WANTED = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}


class MysqlSource(Source):
    """See the module."""

    settings = MYSQL_SETTINGS
    product: ClassVar[str] = "mysql"

    def start(self, settings: Mapping[str, Any], context: SourceContext) -> None:
        """Connects when it is asked to read."""
        super().start(settings, context)
        self._server: str = settings["topic.prefix"]
        self._tables = MysqlTables(self._ask, settings, self.product)
        self._server_id = settings["database.server.id"] or random.randint(100_000, 1 << 31)
        self._connection: Any = None

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions; with none, whether the server can be reached and writes rows to its log."""
        wrong: dict[str, list[str]] = check_mysql(settings)
        if wrong:
            return wrong
        self.config, self._connection = settings, None
        try:
            found = dict(self._ask("SHOW VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format', "
                                   "'binlog_row_image', 'binlog_row_metadata')"))  # fmt: skip
        except ConnectError as error:
            return {"database.hostname": [str(error)]}
        finally:
            self._close()
        missing = [f"{name}={value}" for name, value in _WANTED.items() if found.get(name) != value]
        if missing:
            return {
                "database.hostname": [
                    f"the server's log does not have what is needed: set {', '.join(missing)}"
                ]
            }
        return {}

    def check_offsets(self, offsets: Mapping[str, Any]) -> None:
        """Debezium's, or ours."""
        position_of(offsets)

    def partitions(self) -> Sequence[SourcePartition]:
        """The server: its log is one."""
        return [{"server": self._server}]

    def read(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[Read | None]:
        """A snapshot if there is to be one, then changes."""
        position = position_of(offset)
        mode = self.config["snapshot.mode"].lower()
        if position is not None and self._purged(position):
            if mode != "when_needed":
                raise ConnectError(
                    f"the server's log does not have {position.file} any more: changes since then are lost. "
                    f"Stop "
                    f"the "
                    f"connector and delete its offsets (DELETE /connectors/NAME/offsets): it then makes a "
                    f"snapshot "
                    f"anew. "
                    f"Or set snapshot.mode=when_needed, which does so by itself. Keep the log longer "
                    f"(binlog_expire_logs_seconds)"
                )
            position = None
        if position is None:
            for each in self._begin(mode):
                yield each
                position = position_of(each.offset)
        assert position is not None
        while mode == "initial_only" and not self.context.stopping():
            yield None
        if mode != "initial_only":
            yield from self._follow(position)

    def stop(self) -> None:
        """Close the connection."""
        self._close()

    def _close(self) -> None:
        if getattr(self, "_connection", None) is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
            self._connection = None

    def _connected(self, **more: Any) -> Any:
        import pymysql

        try:
            return pymysql.connect(**connection_of(self.config), autocommit=True, **more)
        except pymysql.MySQLError as error:
            raise Retriable(f"{self.product} is away or refuses: {error.args[-1]}") from error

    def _ask(self, statement: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a statement. Retriable, ConnectError."""
        import pymysql

        if self._connection is None:
            self._connection = self._connected()
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement, values)
                return list(cursor.fetchall())
        except pymysql.OperationalError as error:
            self._close()
            raise Retriable(f"{self.product} is away or busy: {error.args[-1]}") from error
        except pymysql.MySQLError as error:
            raise ConnectError(f"{self.product} refuses: {error.args[-1]}") from error

    def _purged(self, position: BinlogPosition) -> bool:
        return position.file not in {row[0] for row in self._ask("SHOW BINARY LOGS")}

    # The beginning

    def _begin(self, mode: str) -> Iterator[Read]:
        """Rows as of a position of the log; the last offset is that position."""
        import pymysql

        with self._connected(cursorclass=pymysql.cursors.SSCursor) as connection:
            position = _consistent(connection)
            if mode not in ("no_data", "never"):
                going_on = BinlogPosition(position.file, position.pos, snapshot=True).offset()
                for batches, refused in self._snapshot(connection, position):
                    yield Read(batches, going_on, refused=refused)
        yield Read([], position.offset())

    def _snapshot(self, connection: Any, position: BinlogPosition) -> Iterator[Records]:
        import pymysql

        held: tuple[MysqlTable, Sequence[Any]] | None = None
        first = True
        now_s = int(time.time())
        for schema, name in self._tables.chosen():
            table = self._tables.of_catalog(schema, name)
            columns = ", ".join(quoted(each) for each in table.columns)
            try:
                with connection.cursor() as cursor:
                    cursor.execute(f"SELECT {columns} FROM {quoted(schema)}.{quoted(name)}")
                    while rows := cursor.fetchmany(self.config["snapshot.fetch.size"]):
                        if held is not None:
                            yield self._snapshot_batch(*held, position, now_s, first, False)
                            first = False
                        held = (table, rows)
            except pymysql.OperationalError as error:
                raise Retriable(
                    f"{self.product} went away while {schema}.{name} was read: {error}"
                ) from error
        if held is not None:
            yield self._snapshot_batch(*held, position, now_s, first, True)

    def _snapshot_batch(
        self,
        table: MysqlTable,
        rows: Sequence[Any],
        position: BinlogPosition,
        now_s: int,
        first: bool,
        last: bool,
    ) -> Records:
        changes, refused = [], []
        for index, row in enumerate(rows):
            mark = "first" if first and not index else "last" if last and index == len(rows) - 1 else "true"
            source = self._tables.source_of(table, now_s, position.file, position.pos, 0, 0, None, mark)
            try:
                values = table.values(row)
            except Unreadable as error:
                refused.append(table.records.refused(error, "r", None, row))
                continue
            changes.append(Change("r", None, values, source, table.records.key_of(values)))
        batches, unfit = table.records.records(changes) if changes else ([], [])
        return batches, refused + unfit

    # Changes

    def _follow(self, position: BinlogPosition) -> Iterator[Read | None]:
        from pymysqlreplication import BinLogStreamReader, event, row_event

        stream = BinLogStreamReader(
            connection_settings=connection_of(self.config),
            server_id=self._server_id,
            log_file=position.file,
            log_pos=position.pos,
            resume_stream=True,
            blocking=True,
            slave_heartbeat=max(self.config["poll.interval.ms"] / 1000, 0.01),
            is_mariadb=False,  # else it would want a GTID
            enable_logging=False,
            only_events=[
                event.QueryEvent, event.XidEvent, event.HeartbeatLogEvent, event.RotateEvent, event.GtidEvent,
                row_event.WriteRowsEvent, row_event.UpdateRowsEvent, row_event.DeleteRowsEvent,
            ],
        )  # fmt: skip
        following = _Following(self, self._tables, stream, position)
        try:
            while not self.context.stopping():
                yield following.next()
        finally:
            with contextlib.suppress(Exception):
                stream.close()


class MariadbSource(MysqlSource):
    """The same, under MariaDB's names."""

    product = "mariadb"


class _Following:
    """Reads the log from a position on."""

    def __init__(
        self, source: MysqlSource, tables: MysqlTables, stream: Any, position: BinlogPosition
    ) -> None:
        self._settings = source.config
        self._server = source._server
        self._tables = tables
        self._stream = stream
        self._begun = position
        """Behind the last complete transaction; `rows`: of the next one, delivered before."""
        self._rows = 0
        self._yielded = position
        self._moved_at = self._heartbeat_at = time.monotonic()
        self._skipped = set(self._settings["skipped.operations"])
        self._gtid: str | None = None
        self._refused: list[Refused] = []

    def next(self) -> Read | None:
        """Wait for a change or the server's sign of life."""
        import pymysql

        parts: list[tuple[EnvelopeTable, list[Change]]] = []
        self._refused = []
        count = 0
        deadline = time.monotonic() + self._settings["poll.interval.ms"] / 1000
        try:
            while count < self._settings["max.batch.size"]:
                event = self._stream.fetchone()
                if event is None:
                    raise Retriable("the server has ended its log")
                idle = type(event).__name__ == "HeartbeatLogEvent"
                if not idle:
                    count += self._take(event, parts)
                if idle or time.monotonic() > deadline:
                    break
        except pymysql.MySQLError as error:
            if error.args and error.args[0] in _PURGED:
                raise ConnectError(f"the server cannot go on in its log: {error.args[-1]}") from error
            raise Retriable(f"the connection for changes broke: {error.args[-1]}") from error
        batches: list[Batch] = []
        for table, changes in parts:
            made, unfit = table.records(changes)
            batches += made
            self._refused += unfit
        return self._read(batches)

    def _take(self, event: Any, parts: list[tuple[EnvelopeTable, list[Change]]]) -> int:
        kind = type(event).__name__
        if kind in ("WriteRowsEvent", "UpdateRowsEvent", "DeleteRowsEvent"):
            return self._take_rows(event, kind[0], parts)
        if kind == "GtidEvent":
            self._gtid = event.gtid
        elif kind == "XidEvent" or (kind == "QueryEvent" and event.query.strip().upper() != "BEGIN"):
            # The end of a transaction, or a change of a table, which is one of its own.
            self._begun = BinlogPosition(self._stream.log_file, self._stream.log_pos, 0, event.timestamp)
            self._rows = 0
        elif kind == "RotateEvent" and event.next_binlog != self._begun.file:
            self._begun = BinlogPosition(event.next_binlog, event.position, 0, self._begun.time_s)
            self._rows = 0
        return 0

    def _take_rows(self, event: Any, letter: str, parts: list[tuple[EnvelopeTable, list[Change]]]) -> int:
        if not self._tables.captured(event.schema, event.table):
            return 0
        op = {"W": "c", "U": "u", "D": "d"}[letter]
        table = self._tables.of_log(event.schema, event.table, event.columns)
        made: list[Change] = []
        for index, row in enumerate(event.rows):
            self._rows += 1
            if self._rows <= self._begun.rows or op in self._skipped:
                continue
            source = self._tables.source_of(
                table, event.timestamp, self._stream.log_file, event.packet.log_pos, index,
                event.packet.server_id, self._gtid,
            )  # fmt: skip
            try:
                made += list(self._changes(table, op, row, source))
            except Unreadable as error:
                self._refused.append(table.records.refused(error, op, *_given(table, op, row)))
        if made:
            newest = next((part for part in reversed(parts) if part[0].topic == table.records.topic), None)
            if newest is None or newest[0] is not table.records:
                newest = (table.records, [])
                parts.append(newest)
            newest[1].extend(made)
        return len(made)

    def _changes(self, table: MysqlTable, op: str, row: Any, source: tuple[Any, ...]) -> Iterator[Change]:
        records, tombstones = table.records, self._settings["tombstones.on.delete"]
        old, new = _given(table, op, row)
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
            batches.append(heartbeat(self._settings["topic.heartbeat.prefix"], self._server))
        begun = self._begun
        rows = max(self._rows, begun.rows)
        position = BinlogPosition(begun.file, begun.pos, rows, begun.time_s)
        if not batches and not self._refused and (position == self._yielded or now - self._moved_at < 10):
            return None
        self._moved_at, self._yielded = now, position
        return Read(batches, position.offset(), refused=self._refused)


def _given(table: MysqlTable, op: str, row: Mapping[str, Any]) -> tuple[list[Any] | None, list[Any] | None]:
    """A row of the log before and after, in the order of the table's columns."""
    before = row["before_values"] if op == "u" else row["values"] if op == "d" else None
    after = row["after_values"] if op == "u" else row["values"] if op == "c" else None
    return (
        None if before is None else [before.get(name) for name in table.columns],
        None if after is None else [after.get(name) for name in table.columns],
    )


def _consistent(connection: Any) -> BinlogPosition:
    """Begin a transaction that sees what the log had up to the position; a short lock only where MySQL needs
    it."""

    def rows(statement: str) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
    if "mariadb" in str(rows("SELECT VERSION()")[0][0]).lower():
        rows(begin)
        found = {name.lower(): value for name, value in rows("SHOW STATUS LIKE 'binlog_snapshot_%'")}
        return BinlogPosition(found["binlog_snapshot_file"], int(found["binlog_snapshot_position"]))
    rows("FLUSH TABLES WITH READ LOCK")
    try:
        rows(begin)
        try:
            status = rows("SHOW BINARY LOG STATUS")
        except Exception:
            status = rows("SHOW MASTER STATUS")  # before 8.2
    finally:
        rows("UNLOCK TABLES")
    return BinlogPosition(status[0][0], int(status[0][1]))


def quoted(name: str) -> str:
    """An identifier."""
    return "`" + name.replace("`", "``") + "`"


def connection_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """pymysql's words for the connection."""
    return {
        "host": settings["database.hostname"],
        "port": settings["database.port"],
        "user": settings["database.user"],
        "password": settings["database.password"] or "",
        "charset": "utf8mb4",
        "connect_timeout": 10,
        "init_command": "SET time_zone='+00:00'",
    }
