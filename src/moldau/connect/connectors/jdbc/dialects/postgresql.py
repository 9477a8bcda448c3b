"""PostgreSQL: COPY. Rows to be merged are copied into a temporary table of the transaction and merged by one
statement.

Arrow writes the CSV (texts quoted, nulls not), and PostgreSQL reads each text as its column's type: so a
number goes into numeric and a text into uuid, and what does not fit is named by line and column.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from moldau.connect.connectors.jdbc.database import Database
from moldau.connect.connectors.jdbc.sql_types import each_value, in_zone, json_text
from moldau.connect.connectors.jdbc.tables import Table

_STAGED = "moldau_staged"
_T = pa.types


class PostgresqlWriter:
    """See the module."""

    def __init__(self, database: Database, zone: str) -> None:
        self._database = database
        self._zone = zone

    def insert(self, connection: Any, table: Table, columns: Mapping[str, pa.Array]) -> None:
        """COPY into the table."""
        self._copy(connection, self._database.table(table.name), table, columns)

    def upsert(
        self, connection: Any, table: Table, columns: Mapping[str, pa.Array], keys: Sequence[str]
    ) -> None:
        """INSERT ... ON CONFLICT, from the temporary table."""
        self._stage(connection, table, columns)
        names = self._names(columns)
        others = [each for each in columns if each not in keys]
        does = "DO UPDATE SET " + self._set(others, "EXCLUDED") if others else "DO NOTHING"
        self._run(
            connection,
            f"INSERT INTO {self._database.table(table.name)} ({names}) SELECT {names} FROM {_STAGED} "
            f"ON CONFLICT ({self._names(keys)}) {does}",
        )
        self._run(connection, f"DROP TABLE {_STAGED}")

    def update(
        self, connection: Any, table: Table, columns: Mapping[str, pa.Array], keys: Sequence[str]
    ) -> None:
        """UPDATE ... FROM the temporary table."""
        others = [each for each in columns if each not in keys]
        if not others:
            return
        self._stage(connection, table, columns)
        self._run(
            connection,
            f"UPDATE {self._database.table(table.name)} AS t SET {self._set(others, 's')} FROM {_STAGED} AS "
            f"s "
            f"WHERE {self._same(keys)}",
        )
        self._run(connection, f"DROP TABLE {_STAGED}")

    def delete(self, connection: Any, table: Table, keys: Mapping[str, pa.Array]) -> None:
        """DELETE ... USING the temporary table."""
        self._stage(connection, table, keys)
        self._run(
            connection,
            f"DELETE FROM {self._database.table(table.name)} AS t USING {_STAGED} AS s WHERE "
            f"{self._same(list(keys))}",
        )
        self._run(connection, f"DROP TABLE {_STAGED}")

    def _stage(self, connection: Any, table: Table, columns: Mapping[str, pa.Array]) -> None:
        self._run(
            connection,
            f"CREATE TEMPORARY TABLE {_STAGED} ON COMMIT DROP AS SELECT {self._names(columns)} "
            f"FROM {self._database.table(table.name)} WITH NO DATA",
        )
        self._copy(connection, _STAGED, table, columns)

    def _copy(self, connection: Any, into: str, table: Table, columns: Mapping[str, pa.Array]) -> None:
        text = csv_text({name: self._readable(each, table.types[name]) for name, each in columns.items()})
        statement = f"COPY {into} ({self._names(columns)}) FROM STDIN (FORMAT csv)"
        with connection.connection.driver_connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(text)

    def _run(self, connection: Any, statement: str) -> None:
        with connection.connection.driver_connection.cursor() as cursor:
            cursor.execute(statement)

    def _names(self, names: Any) -> str:
        return ", ".join(map(self._database.quote, names))

    def _set(self, names: Sequence[str], source: str) -> str:
        return ", ".join(
            f"{self._database.quote(each)} = {source}.{self._database.quote(each)}" for each in names
        )

    def _same(self, keys: Sequence[str]) -> str:
        return " AND ".join(
            f"t.{self._database.quote(each)} = s.{self._database.quote(each)}" for each in keys
        )

    def _readable(self, column: pa.Array, wanted: Any) -> pa.Array:
        """What Arrow writes as PostgreSQL reads it."""
        kind = column.type
        if _T.is_timestamp(kind) and kind.tz is not None and getattr(wanted, "timezone", False):
            return column  # with its Z
        column = in_zone(column, self._zone)
        if _T.is_list(kind) and type(wanted).__name__ == "ARRAY":
            return pa.array(each_value(column, array_text), pa.string())
        if _T.is_nested(kind):
            return pa.array(each_value(column, json_text), pa.string())
        if _T.is_binary(kind) or _T.is_fixed_size_binary(kind):
            return pa.array(each_value(column, lambda value: "\\x" + value.hex()), pa.string())
        return column


def csv_text(columns: Mapping[str, pa.Array]) -> memoryview:
    """Rows as CSV."""
    out = io.BytesIO()
    options = pa_csv.WriteOptions(include_header=False, quoting_style="needed")
    pa_csv.write_csv(pa.table(dict(columns)), out, options)
    return out.getbuffer()


def array_text(values: Sequence[Any]) -> str:
    """An array as PostgreSQL writes it."""
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return array_text(value)
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        value = "\\x" + value.hex()
    if isinstance(value, dict):
        value = json_text(value)
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
