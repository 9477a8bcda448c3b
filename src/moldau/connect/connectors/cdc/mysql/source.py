"""Changes of MySQL and MariaDB as records.

no offset    rows as of a position of the log, then changes from there
an offset    changes from the transaction in which it lies; rows that were delivered are left out by their
             number; on another server of the same data by GTIDs
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from moldau.connect.batch import Batch
from moldau.connect.connectors.cdc.converting import Unreadable
from moldau.connect.connectors.cdc.envelope import Change
from moldau.connect.connectors.cdc.mysql.chunks import Chunks, quoted
from moldau.connect.connectors.cdc.mysql.following import Following
from moldau.connect.connectors.cdc.mysql.gtids import MariadbGtids, MysqlGtids
from moldau.connect.connectors.cdc.mysql.incremental import Incremental
from moldau.connect.connectors.cdc.mysql.positions import BinlogPosition, position_of
from moldau.connect.connectors.cdc.mysql.settings import MYSQL_SETTINGS, check_mysql
from moldau.connect.connectors.cdc.mysql.tables import MysqlTable, MysqlTables
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.source import Read, Refused, Source, SourceContext, SourceOffset, SourcePartition

_LOG = logging.getLogger(__name__)
_WRONG_LOGIN = (1044, 1045, 1049, 1130, 1251, 1698, 2059, 4151)
"""No right, wrong password, no such database, a host that may not, a plugin of logins that is not here."""
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
        here = self._identity()
        if position is not None and position.server not in ("", here):
            if not position.gtids:
                raise ConnectError(
                    f"this is server {here}, and the connector stands in the log of {position.server}, "
                    "without GTIDs by which another server could be gone on with: connect to that one, or "
                    "delete the connector's offsets for a new snapshot"
                )
            _LOG.warning("server %s after %s: going on by GTIDs %s", here, position.server, position.gtids)
        elif position is not None and self._purged(position):
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
            for each in self._begin(mode, here):
                yield each
                position = position_of(each.offset)
        assert position is not None
        while mode == "initial_only" and not self.context.stopping():
            yield None
        if mode != "initial_only":
            yield from self._follow(position, here)

    def stop(self) -> None:
        """Close the connection."""
        self._close()

    def _close(self) -> None:
        if getattr(self, "_connection", None) is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
            self._connection = None

    def _connected(self, **more: Any) -> Any:
        try:
            import pymysql
        except ImportError:
            raise ConnectError("the connector needs pymysql: pip install 'moldau[connect-mysql]'") from None
        try:
            return pymysql.connect(**connection_of(self.config), autocommit=True, **more)
        except pymysql.MySQLError as error:
            if error.args and error.args[0] in _WRONG_LOGIN:
                raise ConnectError(f"{self.product} refuses the login: {error.args[-1]}") from error
            raise Retriable(f"{self.product} is away or refuses: {error.args[-1]}") from error

    def _ask(self, statement: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a statement. Retriable, ConnectError."""
        if self._connection is None:
            self._connection = self._connected()
        import pymysql

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

    def _identity(self) -> str:
        """Whose log it is: names of files and places in them are a server's own."""
        name = "server_id" if self.product == "mariadb" else "server_uuid"
        found = self._ask(f"SHOW VARIABLES LIKE '{name}'")
        return str(found[0][1]) if found else ""

    def _gtids_at(self, position: BinlogPosition) -> str:
        """Which transactions lie before; empty where the server does not say."""
        if self.product != "mariadb":
            return ""
        found = self._ask("SELECT BINLOG_GTID_POS(%s, %s)", (position.file, position.pos))
        return str(found[0][0] or "")

    # The beginning

    def _begin(self, mode: str, here: str) -> Iterator[Read]:
        """Rows as of a position of the log; the last offset is that position."""
        import pymysql

        with self._connected(cursorclass=pymysql.cursors.SSCursor) as connection:
            position = replace(_consistent(connection), server=here)
            position = replace(position, gtids=position.gtids or self._gtids_at(position))
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

    def _follow(self, position: BinlogPosition, here: str) -> Iterator[Read | None]:
        from pymysqlreplication import BinLogStreamReader, event, row_event

        elsewhere = position.server not in ("", here)
        given = position.gtids or self._gtids_at(position)
        place = {"log_file": position.file, "log_pos": position.pos, "resume_stream": True}
        stream = BinLogStreamReader(
            connection_settings=connection_of(self.config),
            server_id=self._server_id,
            blocking=True,
            slave_heartbeat=max(self.config["poll.interval.ms"] / 1000, 0.01),
            is_mariadb=elsewhere and self.product == "mariadb",  # then it wants a GTID
            enable_logging=False,
            only_events=[
                event.QueryEvent, event.XidEvent, event.HeartbeatLogEvent, event.RotateEvent, event.GtidEvent,
                event.MariadbGtidEvent, row_event.WriteRowsEvent, row_event.UpdateRowsEvent,
                row_event.DeleteRowsEvent,
            ],
            **({"auto_position": given} if elsewhere else place),
        )  # fmt: skip
        incremental = Incremental(
            Chunks(self._connected),
            self._tables.by_name,
            max(self.config["incremental.snapshot.chunk.size"], 1),
        )
        incremental.orders.restore(position.incremental)
        gtids = MariadbGtids(given) if self.product == "mariadb" else MysqlGtids(given)
        following = Following(self.config, self._tables, incremental, stream, position, gtids, here)
        try:
            while not self.context.stopping():
                yield following.next()
        finally:
            with contextlib.suppress(Exception):
                stream.close()


class MariadbSource(MysqlSource):
    """The same, under MariaDB's names."""

    product = "mariadb"


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
    executed = str(status[0][4]) if len(status[0]) > 4 else ""
    return BinlogPosition(status[0][0], int(status[0][1]), gtids=executed)


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
