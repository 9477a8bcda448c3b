"""Rows by parameters, many a statement: MySQL and MariaDB (which their driver makes multi-row INSERTs of),
SQLite, and any product whose driver takes `?` or `%s`, there without upsert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from moldau.connect.connectors.jdbc.database import Database
from moldau.connect.connectors.jdbc.sql_types import each_value, in_zone, json_text
from moldau.connect.connectors.jdbc.tables import Table
from moldau.connect.errors import ConnectError

_PLACES = {"qmark": "?", "format": "%s", "pyformat": "%s"}
_T = pa.types


class StatementWriter:
    """See the module."""

    def __init__(self, database: Database, zone: str, rows_max: int) -> None:
        self._database = database
        self._zone = zone
        self._rows_max = rows_max
        paramstyle = database.engine.dialect.paramstyle
        if paramstyle not in _PLACES:
            raise ConnectError(
                f"databases of {database.dialect} are not written to: their driver takes {paramstyle}"
            )
        self._place = _PLACES[paramstyle]

    def insert(self, connection: Any, table: Table, columns: Mapping[str, pa.Array]) -> None:
        """INSERT of many rows."""
        self._run(connection, self._insert(table, columns), columns)

    def upsert(
        self, connection: Any, table: Table, columns: Mapping[str, pa.Array], keys: Sequence[str]
    ) -> None:
        """INSERT ... ON DUPLICATE KEY UPDATE, or ... ON CONFLICT."""
        quote = self._name
        others = [each for each in columns if each not in keys]
        if self._database.dialect == "mysql":
            changes = ", ".join(f"{quote(each)} = VALUES({quote(each)})" for each in others or keys)
            behind = f"ON DUPLICATE KEY UPDATE {changes}"
        elif self._database.dialect == "sqlite":
            changes = ", ".join(f"{quote(each)} = excluded.{quote(each)}" for each in others)
            does = f"DO UPDATE SET {changes}" if others else "DO NOTHING"
            behind = f"ON CONFLICT ({', '.join(map(quote, keys))}) {does}"
        else:
            raise ConnectError(
                f"insert.mode=upsert is not there for {self._database.dialect}: use insert or update"
            )
        self._run(connection, f"{self._insert(table, columns)} {behind}", columns)

    def update(
        self, connection: Any, table: Table, columns: Mapping[str, pa.Array], keys: Sequence[str]
    ) -> None:
        """An UPDATE a row."""
        others = [each for each in columns if each not in keys]
        if not others:
            return
        changes = ", ".join(f"{self._name(each)} = {self._place}" for each in others)
        statement = f"UPDATE {self._table(table)} SET {changes} WHERE {self._same(keys)}"
        self._run(connection, statement, {each: columns[each] for each in [*others, *keys]})

    def delete(self, connection: Any, table: Table, keys: Mapping[str, pa.Array]) -> None:
        """A DELETE a key."""
        self._run(connection, f"DELETE FROM {self._table(table)} WHERE {self._same(list(keys))}", keys)

    def _insert(self, table: Table, columns: Mapping[str, pa.Array]) -> str:
        names = ", ".join(map(self._name, columns))
        places = ", ".join([self._place] * len(columns))
        return f"INSERT INTO {self._table(table)} ({names}) VALUES ({places})"

    def _same(self, keys: Sequence[str]) -> str:
        return " AND ".join(f"{self._name(each)} = {self._place}" for each in keys)

    def _table(self, table: Table) -> str:
        text = self._database.table(table.name)
        return text.replace("%", "%%") if self._place == "%s" else text

    def _name(self, name: str) -> str:
        text = self._database.quote(name)
        return text.replace("%", "%%") if self._place == "%s" else text

    def _run(self, connection: Any, statement: str, columns: Mapping[str, pa.Array]) -> None:
        rows = list(zip(*(self._values(each) for each in columns.values()), strict=True))
        for first in range(0, len(rows), self._rows_max):
            connection.exec_driver_sql(statement, rows[first : first + self._rows_max])

    def _values(self, column: pa.Array) -> list[Any]:
        kind = column.type
        sqlite = self._database.dialect == "sqlite"
        if _T.is_nested(kind):
            return each_value(column, json_text)
        column = in_zone(column, self._zone)
        if _T.is_timestamp(kind):
            if kind.unit == "ns":
                column = column.cast(pa.timestamp("us"), safe=False)
            return (
                each_value(column, lambda value: value.isoformat(" ")) if sqlite else list(column.to_pylist())
            )
        if sqlite and (_T.is_decimal(kind) or _T.is_temporal(kind)):
            return each_value(column, str)
        values: list[Any] = column.to_pylist()
        return values
