"""What PostgreSQL says of its tables: columns with types and nullability, primary keys; slots and
publications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from moldau.connect.connectors.cdc.postgres.positions import lsn_number
from moldau.connect.connectors.cdc.postgres.replication import SESSION, quoted
from moldau.connect.connectors.cdc.postgres.types import ColumnType
from moldau.connect.connectors.jdbc.database import is_wrong_login
from moldau.connect.errors import ConnectError, Retriable

_COLUMNS = """
SELECT a.attname, a.atttypid, a.atttypmod, a.attnotnull, coalesce(k.place, 0)
FROM pg_attribute a
LEFT JOIN (
    SELECT i.indrelid, c.number, c.place FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS c (number,
    place) WHERE i.indisprimary
) k ON k.indrelid = a.attrelid AND k.number = a.attnum
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum
"""
_TYPE = """
SELECT t.typname, t.typtype, t.typcategory, t.typelem, t.typbasetype, t.typtypmod,
       ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
FROM pg_type t WHERE t.oid = %s
"""
_TABLES = """
SELECT c.oid, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY n.nspname, c.relname
"""
_SLOT = """
SELECT plugin, active, database, confirmed_flush_lsn, wal_status,
       pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint
FROM pg_replication_slots WHERE slot_name = %s
"""


class CatalogColumn(NamedTuple):
    """A column of a table as it is now."""

    name: str
    type_id: int
    modifier: int
    optional: bool
    key_place: int
    """1 for the first column of the primary key, 0 for none of it."""


class CatalogTable(NamedTuple):
    """A table."""

    id: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot. `status`: lost, unreserved, extended, reserved."""

    plugin: str
    active: bool
    database: str
    confirmed_lsn: int
    status: str
    retained_bytes: int


class Catalog:
    """Asks by a connection of its own, which is opened again when it breaks."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: Any = None
        self._types: dict[int, ColumnType] = {}

    def connection(self) -> Any:
        """psycopg's connection, in autocommit."""
        import psycopg

        if self._connection is None or self._connection.closed:
            self._connection = connected(self._conninfo)
            self._types.clear()
        assert isinstance(self._connection, psycopg.Connection)
        return self._connection

    def rows(self, statement: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a statement. Retriable, ConnectError."""
        import psycopg

        try:
            cursor = self.connection().execute(statement, values)
            return list(cursor.fetchall()) if cursor.description else []
        except psycopg.OperationalError as error:
            raise Retriable(f"PostgreSQL is away or busy: {_line(error)}") from error
        except psycopg.Error as error:
            raise ConnectError(f"PostgreSQL refuses: {_line(error)}") from error

    def end(self) -> None:
        """Roll back what was begun by `rows`."""
        import psycopg

        if self._connection is not None and not self._connection.closed:
            try:
                self._connection.execute("ROLLBACK")
            except psycopg.Error:
                self._connection.close()

    def tables(self) -> list[CatalogTable]:
        """All tables that are not the system's."""
        return [CatalogTable(*row) for row in self.rows(_TABLES)]

    def columns(self, table_id: int) -> list[CatalogColumn]:
        """Of a table; empty if it is gone."""
        return [
            CatalogColumn(name, type_id, modifier, not required, place)
            for name, type_id, modifier, required, place in self.rows(_COLUMNS, (table_id,))
        ]

    def type(self, type_id: int, modifier: int) -> ColumnType:
        """A type; a domain is what it is based on."""
        found = self._types.get(type_id)
        if found is None:
            rows = self.rows(_TYPE, (type_id,))
            if not rows:
                return ColumnType("text")  # dropped meanwhile
            name, kind, category, element, base, base_modifier, labels = rows[0]
            if kind == "d":
                found = self.type(base, base_modifier)
            else:
                inner = self.type(element, -1) if category == "A" and element else None
                found = ColumnType(name, -1, kind, tuple(labels), inner)
            self._types[type_id] = found
        if modifier == -1:
            return found
        inner = found.element
        if inner is not None:
            inner = ColumnType(inner.name, modifier, inner.kind, inner.labels, inner.element)
        return ColumnType(found.name, modifier, found.kind, found.labels, inner)

    def slot(self, name: str) -> Slot | None:
        """A slot, or None."""
        rows = self.rows(_SLOT, (name,))
        if not rows:
            return None
        plugin, active, database, confirmed, status, retained = rows[0]
        return Slot(plugin, active, database, lsn_number(confirmed or "0/0"), status or "", retained or 0)

    def drop_slot(self, name: str) -> None:
        """Retriable while somebody reads from it."""
        self.rows("SELECT pg_drop_replication_slot(%s)", (name,))

    def current_lsn(self) -> int:
        """The end of the log."""
        return lsn_number(self.rows("SELECT pg_current_wal_lsn()")[0][0])

    def require_publication(self, name: str, mode: str, tables: Sequence[CatalogTable]) -> None:
        """Make it as `publication.autocreate.mode` says. ConnectError."""
        if self.rows("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,)):
            return
        if mode == "disabled":
            raise ConnectError(
                f"there is no publication {name}: CREATE PUBLICATION {quoted(name)} FOR TABLE ..., or set "
                f"publication.autocreate.mode"
            )
        what = "FOR ALL TABLES"
        if mode == "filtered":
            if not tables:
                raise ConnectError(
                    "publication.autocreate.mode=filtered, and no table is chosen: see table.include.list"
                )
            what = "FOR TABLE " + ", ".join(f"{quoted(each.schema)}.{quoted(each.name)}" for each in tables)
        if mode == "no_tables":
            what = ""
        self.rows(f"CREATE PUBLICATION {quoted(name)} {what} WITH (publish_via_partition_root = true)")

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


def connected(conninfo: str) -> Any:
    """A connection in autocommit whose texts are as those of the log, and whose few rows (marks, heartbeats)
    wait for no standby. Retriable, ConnectError."""
    import psycopg

    try:
        return psycopg.connect(
            conninfo, autocommit=True, options=f"{SESSION} -c synchronous_commit=local", connect_timeout=10
        )
    except psycopg.OperationalError as error:
        if is_wrong_login(str(error)):
            raise ConnectError(f"PostgreSQL refuses the login: {_line(error)}") from error
        raise Retriable(f"PostgreSQL is away or refuses: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
