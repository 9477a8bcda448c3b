"""What an incremental snapshot asks of MySQL and MariaDB: the next rows of a table by key, and the place in
the log up to which they have its changes.

    MariaDB   START TRANSACTION WITH CONSISTENT SNAPSHOT; the server says the place (binlog_snapshot_position)
    MySQL     LOCK TABLES t READ on one connection: whoever has changed t is done, and visible; the place on
              it; a consistent snapshot on the other; UNLOCK TABLES; the rows on the other

A table that is altered or truncated between snapshot and rows is an error of InnoDB's (1412): again, later.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moldau.connect.connectors.cdc.mysql.positions import Place
from moldau.connect.errors import ConnectError, Retriable

LOCK_SECONDS = 5
_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT"


class Chunk(NamedTuple):
    """Rows as the driver has them."""

    place: Place
    rows: list[Sequence[Any]]


class Chunks:
    """`connected`: a new connection. Retriable, ConnectError."""

    def __init__(self, connected: Callable[[], Any]) -> None:
        self._connected = connected
        self._knows_place: bool | None = None

    def read(
        self, table: tuple[str, str], columns: Sequence[str], keys: Sequence[str], last: Sequence[Any] | None,
        count: int,
    ) -> Chunk:  # fmt: skip
        """So many rows behind a key, in its order."""
        import pymysql

        names = ", ".join(map(_escaped, keys))
        where = f"WHERE ({names}) > ({', '.join(['%s'] * len(keys))})" if last is not None else ""
        wanted = ", ".join(map(_escaped, columns))
        statement = (
            f"SELECT {wanted} FROM {_escaped(table[0])}.{_escaped(table[1])} {where} "
            f"ORDER BY {names} LIMIT {count}"
        )
        try:
            with self._connected() as connection:
                _run(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                place = self._begin(connection, table)
                with connection.cursor() as cursor:
                    cursor.execute(statement, tuple(last or ()))
                    return Chunk(place, list(cursor.fetchall()))
        except pymysql.MySQLError as error:
            said = f"table {'.'.join(table)} cannot be read now: {error.args[-1]}"
            passes = isinstance(error, pymysql.OperationalError) or error.args[0] in (1412, 1205, 1213)
            raise (Retriable if passes else ConnectError)(said) from error

    def _begin(self, connection: Any, table: tuple[str, str]) -> Place:
        if self._knows_place is not False:
            _run(connection, _BEGIN)
            found = {
                name.lower(): value
                for name, value in _run(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")
            }
            self._knows_place = "binlog_snapshot_file" in found
            if self._knows_place:
                return Place(found["binlog_snapshot_file"], int(found["binlog_snapshot_position"]))
        with self._connected() as other:
            _run(other, f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}")
            _run(other, f"LOCK TABLES {quoted(table[0])}.{quoted(table[1])} READ")
            place = log_end(other)
            _run(connection, _BEGIN)
            _run(other, "UNLOCK TABLES")
        return place


def log_end(connection: Any) -> Place:
    """Where the server's log ends."""
    for statement in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):  # the second before MySQL 8.2
        with contextlib.suppress(Exception):
            row = _run(connection, statement)[0]
            return Place(row[0], int(row[1]))
    raise ConnectError(
        "the server does not say where its log ends: REPLICATION CLIENT (BINLOG MONITOR) is needed"
    )


def _run(connection: Any, statement: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def _escaped(name: str) -> str:
    """An identifier in a statement with parameters."""
    return quoted(name).replace("%", "%%")


def quoted(name: str) -> str:
    """An identifier."""
    return "`" + name.replace("`", "``") + "`"
