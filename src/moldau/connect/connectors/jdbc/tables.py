"""What tables of the database have; made (`auto.create`) and given columns (`auto.evolve`) as records need
them.

Statements that change tables run in transactions of their own, before rows are written: MySQL commits with
each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.connect.connectors.jdbc.database import Database, RowRefused, TableName
from moldau.connect.connectors.jdbc.record_columns import Rows
from moldau.connect.connectors.jdbc.sql_types import literal, sql_type
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.schema import Schema


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the database has it."""

    name: TableName
    types: Mapping[str, Any]
    """SQLAlchemy's types by column."""
    nullable: Mapping[str, bool]
    """Or with a default: a row may leave it out."""
    unique: Sequence[frozenset[str]] = field(default_factory=list)
    """Sets of columns that the primary key, a constraint or an index makes unique."""


class Tables:
    """Tables looked at once, until something is refused."""

    def __init__(self, database: Database, settings: Mapping[str, Any]) -> None:
        self._database = database
        self._create: bool = settings["auto.create"]
        self._evolve: bool = settings["auto.evolve"]
        self._kinds = {each.upper() for each in settings["table.types"]}
        self._seen: dict[TableName, Table] = {}

    def forget(self) -> None:
        """Look at all again."""
        self._seen.clear()

    def suited(self, name: TableName, rows: Rows, upsert: bool) -> tuple[Table, Rows]:
        """The table with every column of the rows, and the rows under its columns' names. ConnectError,
        Retriable."""
        table = self._seen.get(name) or self._look(name)
        if table is None:
            table = self._made(name, rows)
        rows = _renamed(table, rows)
        missing = [each for each in rows.columns if each not in table.types]
        if missing:
            table = self._evolved(table, rows, missing)
        self._require(table, rows, upsert)
        self._seen[name] = table
        return table, rows

    def _look(self, name: TableName) -> Table | None:
        import sqlalchemy

        with self._database.errors():
            inspector = sqlalchemy.inspect(self._database.engine)
            if not inspector.has_table(name.name, schema=name.schema):
                return None
            if "VIEW" not in self._kinds and name.name in inspector.get_view_names(schema=name.schema):
                raise ConnectError(f"{name} is a view: put VIEW into table.types if it can be written to")
            columns = inspector.get_columns(name.name, schema=name.schema)
            keys = [inspector.get_pk_constraint(name.name, schema=name.schema)["constrained_columns"]]
            keys += [
                each["column_names"]
                for each in inspector.get_unique_constraints(name.name, schema=name.schema)
            ]
            keys += [
                each["column_names"]
                for each in inspector.get_indexes(name.name, schema=name.schema)
                if each["unique"] and not each.get("dialect_options", {}).get("postgresql_where")
            ]
        return Table(
            name,
            {each["name"]: each["type"] for each in columns},
            {
                each["name"]: bool(
                    each["nullable"]
                    or each.get("default") is not None
                    or each.get("identity")
                    or each.get("computed")
                    or each.get("autoincrement") is True
                )
                for each in columns
            },
            [frozenset(each) for each in keys if each and None not in each],
        )

    def _made(self, name: TableName, rows: Rows) -> Table:
        if not self._create:
            raise ConnectError(
                f"there is no table {name} in {self._database.place}: make it, or set auto.create=true"
            )
        quote, dialect = self._database.quote, self._database.dialect
        parts = [self._definition(each, schema, each in rows.keys) for each, schema in rows.schemas.items()]
        if rows.keys:
            parts.append(f"PRIMARY KEY ({', '.join(map(quote, rows.keys))})")
        behind = " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4" if dialect == "mysql" else ""
        self._change(
            f"CREATE TABLE IF NOT EXISTS {self._database.table(name)} ({', '.join(parts)}){behind}", name
        )
        table = self._look(name)
        if table is None:
            raise ConnectError(f"table {name} was made and is not there: which schema does the user work in?")
        return table

    def _definition(self, name: str, schema: Schema, in_key: bool) -> str:
        dialect = self._database.dialect
        kind = sql_type(dialect, schema, in_key)
        text = f"{self._database.quote(name)} {kind}"
        if schema.default is not None and not (
            dialect == "mysql" and kind in ("LONGTEXT", "LONGBLOB", "JSON")
        ):
            text += f" DEFAULT {literal(dialect, schema.default)}"
        return text + (" NOT NULL" if in_key or not schema.optional else " NULL")

    def _evolved(self, table: Table, rows: Rows, missing: Sequence[str]) -> Table:
        if not self._evolve:
            raise ConnectError(
                f"table {table.name} has no column {', '.join(missing)}: add it, set auto.evolve=true, or "
                f"leave the "
                f"field out (fields.whitelist, ReplaceField)"
            )
        for each in missing:
            schema = rows.schemas[each]
            if each in rows.keys:
                raise ConnectError(
                    f"table {table.name} has no column {each}, which is to be of its primary key"
                )
            if not schema.optional and schema.default is None:
                raise ConnectError(
                    f"column {each} cannot be added to table {table.name}: the field is required and has no "
                    f"default, "
                    f"so the rows that are there would have no value for it. Make the field optional, or "
                    f"add the "
                    f"column yourself"
                )
        for each in missing:
            definition = self._definition(each, rows.schemas[each], False)
            self._change(
                f"ALTER TABLE {self._database.table(table.name)} ADD COLUMN {definition}", table.name
            )
        found = self._look(table.name)
        if found is None or any(each not in found.types for each in missing):
            raise ConnectError(f"table {table.name} still has no column {', '.join(missing)}")
        return found

    def _change(self, statement: str, name: TableName) -> None:
        try:
            with self._database.transaction() as connection:
                self._database.run(connection, statement)
        except Retriable:
            raise
        except (ConnectError, RowRefused) as error:
            said = str(error)
            if "exist" in said or "uplicate column" in said or "pg_type" in said:
                return  # another task has made the same change; what is there now is looked at anyway
            raise ConnectError(f"table {name} cannot be changed: {said} (statement: {statement})") from error

    def _require(self, table: Table, rows: Rows, upsert: bool) -> None:
        if upsert and frozenset(rows.keys) not in table.unique:
            raise ConnectError(
                f"table {table.name} has no primary key or unique constraint on ({', '.join(rows.keys)}), "
                f"which "
                f"insert.mode=upsert needs: add one, or choose other pk.fields"
            )
        left_out = [each for each, may in table.nullable.items() if not may and each not in rows.columns]
        if left_out and rows.deleted is None:
            raise ConnectError(
                f"column {left_out[0]} of table {table.name} is NOT NULL without a default, and the records "
                f"have no "
                f"field of that name: give it a default, or add the field (InsertField)"
            )


def _renamed(table: Table, rows: Rows) -> Rows:
    """Fields that differ from a column only in case are that column's."""
    lower = {each.lower(): each for each in table.types}
    names = {each: each if each in table.types else lower.get(each.lower(), each) for each in rows.columns}
    if all(each == name for each, name in names.items()) or len(set(names.values())) < len(names):
        return rows
    return Rows(
        {names[each]: column for each, column in rows.columns.items()},
        {names[each]: schema for each, schema in rows.schemas.items()},
        [names[each] for each in rows.keys],
        rows.batch,
        rows.places,
        rows.deleted,
    )
