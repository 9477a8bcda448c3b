"""The first snapshot: all rows as of the moment from which the slot has changes, so that none is missed or
doubled.

Making a slot exports a snapshot of that very moment; rows are read in it (REPEATABLE READ) table by table
through COPY, and the connection that made the slot stays idle meanwhile. A snapshot that was broken off
begins again with a new slot: its moment is gone.

A table that is truncated, or written anew by an ALTER, looks empty to older snapshots: its file is another
one than before the slot was made, and all begins again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from moldau.connect.batch import Batch
from moldau.connect.connectors.cdc.postgres.catalog import CatalogTable, connected
from moldau.connect.connectors.cdc.postgres.columns import columns_of
from moldau.connect.connectors.cdc.postgres.replication import quoted
from moldau.connect.connectors.cdc.postgres.rows import copied, rows_of, select_of
from moldau.connect.connectors.cdc.postgres.tables import Tables
from moldau.connect.connectors.cdc.postgres.transactions import Followed
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.source import Refused

OVERRIDE = "snapshot.select.statement.overrides"
Part = tuple[list[Batch], list[Refused]]
_FILES = """
SELECT string_agg(coalesce(pg_relation_filenode(p.relid)::text, ''), ',' ORDER BY p.relid)
FROM (SELECT %(id)s::oid AS relid UNION SELECT relid FROM pg_partition_tree(%(id)s::oid)) p
"""


class Snapshot:
    """Of the tables that are chosen when it is made, which is to be before the slot is."""

    def __init__(self, conninfo: str, tables: Tables, settings: Mapping[str, Any]) -> None:
        self._conninfo = conninfo
        self._tables = tables
        self._settings = settings
        self._chosen = tables.chosen()
        with connected(conninfo) as connection:
            self._files = {each.id: _files(connection, each) for each in self._chosen}

    def parts(self, name: str, lsn: int) -> Iterator[Part]:
        """Records of all rows in the exported snapshot `name`; the first and the last one are marked as
        such. Retriable, ConnectError."""
        now_us = time.time_ns() // 1000
        held: tuple[Followed, pa.Table] | None = None
        first = True
        with connected(self._conninfo) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
            for each in self._chosen:
                for followed, texts in self._read(connection, each):
                    if held is not None:
                        yield self._part(*held, lsn, now_us, first, False)
                        first = False
                    held = (followed, texts)
            if held is not None:
                yield self._part(*held, lsn, now_us, first, True)
            connection.execute("COMMIT")

    def _read(self, connection: Any, table: CatalogTable) -> Iterator[tuple[Followed, pa.Table]]:
        self._lock(connection, table)
        followed = self._tables.of_catalog(table)
        override = self._settings.get(f"{OVERRIDE}.{table.schema}.{table.name}")
        names = [each.name for each in followed.table.columns]
        size = max(self._settings["snapshot.fetch.size"], 1)
        for texts in copied(connection, override or select_of(followed), names, size):
            yield followed, texts

    def _lock(self, connection: Any, table: CatalogTable) -> None:
        import psycopg

        name = f"{table.schema}.{table.name}"
        try:
            connection.execute("SET LOCAL lock_timeout = '60s'")
            connection.execute(f"LOCK TABLE {quoted(table.schema)}.{quoted(table.name)} IN ACCESS SHARE MODE")
            files = _files(connection, table)
        except psycopg.errors.UndefinedTable:
            raise Retriable(f"table {name} is gone since the snapshot began: it begins again") from None
        except psycopg.OperationalError as error:
            raise Retriable(f"table {name} cannot be read now: {error}") from error
        except psycopg.Error as error:
            raise ConnectError(f"table {name} cannot be read: {error}") from error
        if files != self._files[table.id]:
            raise Retriable(
                f"table {name} was truncated or written anew since the snapshot began: it begins again"
            )

    def _part(
        self, followed: Followed, texts: pa.Table, lsn: int, now_us: int, first: bool, last: bool
    ) -> Part:
        relation, table = followed.relation, followed.table
        columns, bad = columns_of(table, texts)
        refused = []
        if bad:
            rows = rows_of(texts, followed)
            refused = [table.refused(error, "r", None, rows[row]) for row, error in sorted(bad.items())]
            kept = pa.array([row for row in range(texts.num_rows) if row not in bad], pa.int64())
            columns = [each.take(kept) for each in columns]
        count = texts.num_rows - len(bad)
        if not count:
            return [], refused
        source = self._tables.source_of(relation.schema, relation.table, lsn, 0, now_us, 0, "true")
        return [table.read_rows(columns, count, source, first, last)], refused


def _files(connection: Any, table: CatalogTable) -> str:
    """The files of a table and its partitions."""
    row = connection.execute(_FILES, {"id": table.id}).fetchone()
    return str(row[0]) if row else ""
