"""How rows get into a table, by product: `writer(database)` chooses.

postgresql.py   COPY, straight into the table or into one of the transaction's own, which is merged from there
statements.py   many rows a statement: MySQL and MariaDB, SQLite, and others without upsert
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from moldau.connect.connectors.jdbc.database import Database
from moldau.connect.connectors.jdbc.tables import Table


class Writer(Protocol):
    """Rows as columns, in the transaction of `connection`; the database's own errors are let through."""

    def insert(self, connection: Any, table: Table, columns: Mapping[str, pa.Array]) -> None:
        """Add rows."""

    def upsert(
        self, connection: Any, table: Table, columns: Mapping[str, pa.Array], keys: Sequence[str]
    ) -> None:
        """Add rows, or change those of the same key. No key occurs twice."""

    def update(
        self, connection: Any, table: Table, columns: Mapping[str, pa.Array], keys: Sequence[str]
    ) -> None:
        """Change rows that are there. No key occurs twice."""

    def delete(self, connection: Any, table: Table, keys: Mapping[str, pa.Array]) -> None:
        """Delete the rows of these keys."""


def writer(database: Database, zone: str, rows_max: int) -> Writer:
    """The fastest for the product."""
    from moldau.connect.connectors.jdbc.dialects.postgresql import PostgresqlWriter
    from moldau.connect.connectors.jdbc.dialects.statements import StatementWriter

    if database.dialect == "postgresql" and database.engine.driver == "psycopg":
        return PostgresqlWriter(database, zone)
    return StatementWriter(database, zone, rows_max)
