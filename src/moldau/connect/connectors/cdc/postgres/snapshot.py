"""The first snapshot: all rows as of the moment from which the slot has changes, so that none is missed or
doubled.

Making a slot exports a snapshot of that very moment; rows are read in it (REPEATABLE READ) table by table
through COPY, and the connection that made the slot stays idle meanwhile. A snapshot that was broken off
begins again with a new slot: its moment is gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from moldau.connect.batch import Batch
from moldau.connect.connectors.cdc.envelope import Change
from moldau.connect.connectors.cdc.postgres.catalog import connected
from moldau.connect.connectors.cdc.postgres.rows import copied, select_of, values_of
from moldau.connect.connectors.cdc.postgres.tables import Tables
from moldau.connect.connectors.cdc.postgres.transactions import Followed

OVERRIDE = "snapshot.select.statement.overrides"


def snapshot_batches(
    conninfo: str, name: str, lsn: int, tables: Tables, settings: Mapping[str, Any]
) -> Iterator[Batch]:
    """Records of all rows in the exported snapshot `name`; the first and the last one are marked as such."""
    size = max(settings["snapshot.fetch.size"], 1)
    now_us = time.time_ns() // 1000
    held: tuple[Followed, list[list[Any]]] | None = None
    first = True
    with connected(conninfo) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
        for each in tables.chosen():
            followed = tables.of_catalog(each)
            select = settings.get(f"{OVERRIDE}.{each.schema}.{each.name}") or select_of(followed)
            for part in copied(connection, select, size):
                if held is not None:
                    yield _batch(tables, *held, lsn, now_us, first, False)
                    first = False
                held = (followed, values_of(followed, part))
        if held is not None:
            yield _batch(tables, *held, lsn, now_us, first, True)
        connection.execute("COMMIT")


def _batch(
    tables: Tables, followed: Followed, rows: list[list[Any]], lsn: int, now_us: int, first: bool, last: bool
) -> Batch:
    relation, table = followed.relation, followed.table

    def source(snapshot: str) -> tuple[Any, ...]:
        return tables.source_of(relation.schema, relation.table, lsn, 0, now_us, 0, snapshot)

    plain = source("true")
    changes = [Change("r", None, row, plain, table.key_of(row)) for row in rows]
    if first:
        changes[0] = Change("r", None, rows[0], source("first"), changes[0].key)
    if last:
        changes[-1] = Change("r", None, rows[-1], source("last"), changes[-1].key)
    return table.batch(changes)
