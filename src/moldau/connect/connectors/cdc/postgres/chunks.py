"""What an incremental snapshot asks of the database: the next rows of a table by key, as of a snapshot that
is known, and a mark in the log.

    BEGIN REPEATABLE READ
    LOCK TABLE ... ACCESS SHARE   before the snapshot is taken: TRUNCATE and those ALTERs that write a table
                                  anew are not seen by snapshots as of before; a table would look empty
    pg_current_snapshot()         whose rows these are
    COPY (SELECT ... WHERE key > last ORDER BY key LIMIT n)
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.connect.connectors.cdc.postgres.catalog import Catalog
from moldau.connect.connectors.cdc.postgres.replication import quoted
from moldau.connect.connectors.cdc.postgres.rows import copied, rows_of, select_of
from moldau.connect.connectors.cdc.postgres.transactions import Followed
from moldau.connect.connectors.cdc.postgres.visibility import Visibility, visibility

_RUNNING = """
SELECT backend_xid::text::bigint FROM pg_stat_activity
WHERE backend_xid IS NOT NULL AND (state IS NULL OR wait_event = 'SyncRep')
UNION ALL SELECT transaction::text::bigint FROM pg_prepared_xacts
"""


class Chunk(NamedTuple):
    """Rows as texts."""

    seen: Visibility
    texts: list[tuple[str | None, ...]]


class Chunks:
    """Retriable, ConnectError from all of it."""

    def __init__(self, catalog: Catalog, signals: str) -> None:
        self._catalog = catalog
        self._signals = signals

    def read(self, followed: Followed, last_key: list[str | None] | None, count: int) -> Chunk:
        """So many rows behind a key, in its order."""
        relation, places = followed.relation, followed.table.key_places
        names = [quoted(relation.columns[followed.places[place]].name) for place in places]
        keys = ", ".join(names)
        behind = f"ORDER BY {keys} LIMIT {count}"
        if last_key is not None:
            literals = ", ".join("'" + str(each).replace("'", "''") + "'" for each in last_key)
            behind = f"WHERE ({keys}) > ({literals}) {behind}"
        table = f"{quoted(relation.schema)}.{quoted(relation.table)}"
        self._catalog.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            self._catalog.rows("SET LOCAL lock_timeout = '10s'")
            self._catalog.rows(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
            seen = visibility(str(self._catalog.rows("SELECT pg_current_snapshot()::text")[0][0]))
            columns = [each.name for each in followed.table.columns]
            parts = copied(self._catalog.connection(), select_of(followed, behind), columns, count)
            return Chunk(seen, [row for part in parts for row in rows_of(part, followed)])
        finally:
            self._catalog.end()

    def look(self) -> Visibility:
        """What a snapshot of now sees."""
        return visibility(str(self._catalog.rows("SELECT pg_current_snapshot()::text")[0][0]))

    def committing(self) -> set[int]:
        """Transactions (32 bits) that may have their commit in the log and are not visible: those that wait
        for a standby, that are prepared, and those of which this user may not know what they do."""
        return {int(row[0]) for row in self._catalog.rows(_RUNNING)}

    def mark(self, name: str) -> None:
        """Write the mark."""
        schema, table = self._signals.split(".")[-2:]
        name_of_it = f"{quoted(schema)}.{quoted(table)}".replace("%", "%%")
        self._catalog.rows(
            f"INSERT INTO {name_of_it} VALUES (%s, 'snapshot-window-close', '{{}}')",
            (name,),
        )
