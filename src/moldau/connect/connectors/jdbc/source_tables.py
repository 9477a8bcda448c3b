"""Which tables there are to read, and what a table or a query gives."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from moldau.common.core.java_patterns import compile_java
from moldau.connect.connectors.jdbc.database import Database, TableName
from moldau.connect.connectors.jdbc.source_types import SourceColumn, column_of_type
from moldau.connect.errors import ConnectError

_SYSTEM = {"information_schema", "pg_catalog", "pg_toast", "mysql", "performance_schema", "sys"}
_REGULAR = {
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "bool": "boolean",
    "timestamptz": "timestamp with time zone",
    "timetz": "time",
}
"""PostgreSQL's inner names of types -> those of its documentation."""
_MYSQL = {
    "TINY": "tinyint",
    "SHORT": "smallint",
    "INT24": "mediumint",
    "LONG": "int",
    "LONGLONG": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DATE": "date",
    "TIME": "time",
    "DATETIME": "datetime",
    "TIMESTAMP": "timestamp",
    "YEAR": "year",
    "BIT": "bit",
}
"""Types in MySQL's protocol -> in its tables."""


class Found(NamedTuple):
    """A table: its full name as in Confluent's offsets, and as it is asked for."""

    full: str
    table: TableName


class Shape(NamedTuple):
    """What a table gives: its columns, and the one that the database counts."""

    columns: Sequence[SourceColumn]
    counted: str | None


class Catalog:
    """The database's tables, as settings choose them."""

    def __init__(self, database: Database, settings: Mapping[str, Any]) -> None:
        self._database = database
        self._settings = settings
        self._zone = ZoneInfo(settings["db.timezone"])

    def tables(self) -> list[Found]:
        """Chosen tables, in order of their names. Retriable, ConnectError."""
        import sqlalchemy

        with self._database.errors():
            inspector = sqlalchemy.inspect(self._database.engine)
            kinds = {each.upper() for each in self._settings["table.types"]}
            found = []
            for schema in self._schemas(inspector):
                names = list(inspector.get_table_names(schema=schema)) if kinds - {"VIEW"} else []
                if "VIEW" in kinds:
                    names += inspector.get_view_names(schema=schema)
                found += [Found(self.full_name(schema, name), TableName(schema, name)) for name in names]
        return sorted(each for each in found if self._chosen(each))

    def _schemas(self, inspector: Any) -> list[str | None]:
        dialect = self._database.dialect
        if dialect == "sqlite":
            return [None]
        if dialect == "mysql":
            return [self._database.engine.url.database or inspector.default_schema_name]
        wanted = self._settings["schema.pattern"]
        return [
            each
            for each in inspector.get_schema_names()
            if (fnmatch.fnmatchcase(each, wanted.replace("%", "*")) if wanted else each not in _SYSTEM)
        ]

    def full_name(self, schema: str | None, name: str) -> str:
        """`database.schema.table`; MySQL: `database.table`; SQLite: `table`."""
        parts = [schema, name]
        if self._database.dialect == "postgresql":
            parts.insert(0, self._database.engine.url.database)
        return ".".join(each for each in parts if each)

    def _chosen(self, found: Found) -> bool:
        settings = self._settings
        parts = found.full.split(".")
        names = {".".join(parts[first:]) for first in range(len(parts))}

        def matches(name: str) -> bool:
            return any(compile_java(each, linear=True).fullmatch(found.full) for each in settings[name])

        if settings["table.whitelist"] and not names & set(settings["table.whitelist"]):
            return False
        if settings["table.include.list"] and not matches("table.include.list"):
            return False
        return not names & set(settings["table.blacklist"]) and not matches("table.exclude.list")

    def named(self, full: str) -> TableName:
        """The table of an offset's partition, `schema.table` without database too. ConnectError if it is
        gone."""
        for each in self.tables():
            if each.full == full or each.full.endswith("." + full):
                return each.table
        raise ConnectError(
            f"table {full} is not there, or not chosen any more: look at table.whitelist and its kin, and "
            f"the "
            f"user's "
            f"rights"
        )

    def shape(self, table: TableName) -> Shape:
        """A table's columns."""
        import sqlalchemy

        with self._database.errors():
            inspector = sqlalchemy.inspect(self._database.engine)
            found = inspector.get_columns(table.name, schema=table.schema)
            keys = inspector.get_pk_constraint(table.name, schema=table.schema)["constrained_columns"]
        counted = [
            each["name"] for each in found if each.get("autoincrement") is True or each.get("identity")
        ]
        counted += [each["name"] for each in found if "nextval(" in str(each.get("default"))]
        if self._database.dialect == "sqlite" and len(keys) == 1:
            counted += [each["name"] for each in found if each["name"] in keys and _is_integer(each["type"])]
        columns = [
            self._column(each["name"], each["type"], each["nullable"] and each["name"] not in keys)
            for each in found
        ]
        return Shape(columns, counted[0] if counted else None)

    def shape_of_cursor(self, cursor: Any) -> Shape | None:
        """A query's columns, from the driver's description; None where it says no types (SQLite)."""
        description = cursor.description
        names = self._database.engine.dialect.ischema_names
        if self._database.dialect == "postgresql":
            import psycopg

            made = []
            for each in description:
                info = psycopg.adapters.types.get(each.type_code)
                kind = _postgresql_type(names, info, each)
                made.append(self._column(each.name, kind, True))
            return Shape(made, None)
        if self._database.dialect == "mysql":
            made = [self._column(each[0], _mysql_type(names, each), True) for each in description]
            return Shape(made, None)
        return None

    def _column(self, name: str, kind: Any, nullable: bool) -> SourceColumn:
        mapping = self._settings["numeric.mapping"]
        return column_of_type(name, kind, nullable, mapping, self._zone, self._database.dialect)


def _is_integer(kind: Any) -> bool:
    return str(kind).upper() == "INTEGER"


def _postgresql_type(names: Mapping[str, Any], info: Any, column: Any) -> Any:
    import sqlalchemy

    if info is None:
        return sqlalchemy.Text()
    name = _REGULAR.get(info.name, info.name)
    if name == "numeric":
        made = sqlalchemy.Numeric(column.precision, column.scale)
    elif name == "timestamp with time zone":
        made = sqlalchemy.TIMESTAMP(timezone=True)
    elif name == "timestamp":
        made = sqlalchemy.TIMESTAMP()
    else:
        made = names.get(name, sqlalchemy.Text)()
    return sqlalchemy.ARRAY(made) if getattr(info, "array_oid", None) == column.type_code else made


def _mysql_type(names: Mapping[str, Any], described: Sequence[Any]) -> Any:
    import sqlalchemy
    from pymysql.constants import FIELD_TYPE

    code = described[1]
    kinds = {getattr(FIELD_TYPE, name): kind for name, kind in _MYSQL.items()}
    if code in (FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL):
        return sqlalchemy.Numeric(65, described[5])
    return names[kinds[code]]() if code in kinds else sqlalchemy.Text()
