"""Captured tables: what their records look like, from the log's description and information_schema.

The log has names, signs, keys, digits; whether a column may be null, and JSON's own name in MariaDB, only
information_schema has, as it is now. It is asked once for each set of columns; a column that is gone
meanwhile may be null.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from moldau import __version__
from moldau.connect.connectors.cdc.choice import Choice
from moldau.connect.connectors.cdc.converting import converted
from moldau.connect.connectors.cdc.envelope import EnvelopeTable
from moldau.connect.connectors.cdc.mysql.types import MysqlColumn, MysqlTypes
from moldau.connect.connectors.cdc.naming import adjusted, topic_name
from moldau.connect.connectors.cdc.orders import means
from moldau.connect.schema import Schema, Type, struct_schema

_LOG = logging.getLogger(__name__)
_TEXT, _LONG = Schema(Type.STRING), Schema(Type.INT64)
_OPTIONAL_TEXT, _OPTIONAL_LONG = Schema(Type.STRING, True), Schema(Type.INT64, True)
_SNAPSHOT = Schema(
    Type.STRING,
    True,
    "io.debezium.data.Enum",
    1,
    default="false",
    parameters={
        "allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
    },
)
_COLUMNS = """
SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION,
IS_NULLABLE, COLUMN_KEY FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY
ORDINAL_POSITION
"""
_SYSTEM = ("information_schema", "mysql", "performance_schema", "sys")


def source_schema(product: str) -> Schema:
    """Of the envelope's `source`."""
    fields = {
        "version": _TEXT,
        "connector": _TEXT,
        "name": _TEXT,
        "ts_ms": _LONG,
        "snapshot": _SNAPSHOT,
        "db": _TEXT,
        "sequence": _OPTIONAL_TEXT,
        "ts_us": _OPTIONAL_LONG,
        "ts_ns": _OPTIONAL_LONG,
        "table": _OPTIONAL_TEXT,
        "server_id": _LONG,
        "gtid": _OPTIONAL_TEXT,
        "file": _TEXT,
        "pos": _LONG,
        "row": Schema(Type.INT32),
        "thread": _OPTIONAL_LONG,
        "query": _OPTIONAL_TEXT,
    }
    return struct_schema(fields, f"io.debezium.connector.{product}.Source", version=1)


class MysqlTable:
    """A captured table: its records, and which of its columns they have."""

    def __init__(self, schema: str, name: str, records: EnvelopeTable, columns: Sequence[str]) -> None:
        self.schema, self.name, self.records, self.columns = schema, name, records, columns

    def values(self, row: Sequence[Any]) -> list[Any]:
        """A driver's values as the schemas have them; `row` in the order of `columns`. Unreadable."""
        return converted(self.records.columns, row)


class MysqlTables:
    """Makes what is followed. `ask`: rows of a statement."""

    def __init__(self, ask: Any, settings: Mapping[str, Any], product: str) -> None:
        self._ask = ask
        self._types = MysqlTypes(settings)
        self._choice = Choice(settings, "database")
        self._prefix: str = settings["topic.prefix"]
        self._schema_names = settings["schema.name.adjustment.mode"]
        self._field_names = settings["field.name.adjustment.mode"]
        self._source = source_schema(product)
        self._product = product
        self._signals: str | None = settings["signal.data.collection"]
        self._known: dict[tuple[Any, ...], MysqlTable] = {}

    def captured(self, schema: str, table: str) -> bool:
        """Whether a table's changes are to be records."""
        return schema not in _SYSTEM and self._choice.table(schema, table)

    def chosen(self) -> list[tuple[str, str]]:
        """All captured tables that there are now."""
        rows = self._ask(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' "
            "ORDER BY TABLE_SCHEMA, TABLE_NAME"
        )
        return [(schema, table) for schema, table in rows if self.captured(schema, table)]

    def by_name(self, name: str) -> MysqlTable | None:
        """A table that an incremental snapshot can be made of; None: a warning says why not."""
        place = next((each for each in self.chosen() if means(name, ".".join(each))), None)
        if place is None:
            _LOG.warning("table %s is not captured: no incremental snapshot of it is made", name)
            return None
        found = self.of_catalog(*place)
        if not found.records.key_places:
            _LOG.warning("table %s has no primary key: no incremental snapshot of it is made", name)
            return None
        return found

    def is_signals(self, schema: str, table: str) -> bool:
        """Whether it is `signal.data.collection`."""
        return bool(self._signals) and f"{schema}.{table}" == self._signals

    def of_catalog(self, schema: str, table: str) -> MysqlTable:
        """A table as it is now."""
        return self._made(schema, table, self._catalog(schema, table))

    def of_log(self, schema: str, table: str, columns: Sequence[Any]) -> MysqlTable:
        """A table as the log describes it."""
        shape = (schema, table, *((each.name, each.type, each.unsigned, each.is_primary) for each in columns))
        found = self._known.get(shape)
        if found is None:
            now = {each.name: each for each in self._catalog(schema, table)}
            found = self._known[shape] = self._made(
                schema, table, [_of_log(each, now.get(each.name)) for each in columns]
            )
        return found

    def _catalog(self, schema: str, table: str) -> list[MysqlColumn]:
        return [_of_catalog(row) for row in self._ask(_COLUMNS, (schema, table))]

    def _made(self, schema: str, table: str, columns: Sequence[MysqlColumn]) -> MysqlTable:
        places = self._choice.columns(schema, table, [each.name for each in columns])
        kept = [columns[place] for place in places]
        captured = [self._types.column(adjusted(each.name, self._field_names), each) for each in kept]
        keys = [place for place, each in enumerate(kept) if each.in_key]
        name = adjusted(f"{self._prefix}.{schema}.{table}", self._schema_names)
        topic = topic_name(self._prefix, schema, table)
        records = EnvelopeTable(topic, name, captured, keys, self._source, f"{schema}.{table}")
        return MysqlTable(schema, table, records, [each.name for each in kept])

    def source_of(
        self, table: MysqlTable, time_s: int, file: str, pos: int, row: int, server_id: int, gtid: str | None,
        snapshot: str = "false",
    ) -> tuple[Any, ...]:  # fmt: skip
        """The source's values."""
        us = time_s * 1_000_000
        return (
            __version__,
            self._product,
            self._prefix,
            time_s * 1000,
            snapshot,
            table.schema,
            None,
            us,
            us * 1000,
            table.name,
            server_id,
            gtid,
            file,
            pos,
            row,
            None,
            None,
        )


def _of_catalog(row: Sequence[Any]) -> MysqlColumn:
    name, data_type, column_type, digits, scale, fraction, nullable, key = row
    data_type, column_type = _str(data_type).lower(), _str(column_type)
    values = tuple(each.replace("''", "'") for each in re.findall(r"'((?:[^']|'')*)'", column_type))
    bits = re.fullmatch(r"bit\((\d+)\)", column_type)
    return MysqlColumn(
        name,
        data_type,
        "unsigned" in column_type,
        int(digits or 10),
        int(scale or 0),
        int(fraction or 0),
        int(bits.group(1)) if bits else 1,
        nullable == "YES",
        key == "PRI",
        values if data_type in ("enum", "set") else (),
    )


def _str(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


_LOGGED = {
    1: "tinyint",
    2: "smallint",
    9: "mediumint",
    3: "int",
    8: "bigint",
    4: "float",
    5: "double",
    246: "decimal",
    10: "date",
    14: "date",
    11: "time",
    19: "time",
    7: "timestamp",
    17: "timestamp",
    12: "datetime",
    18: "datetime",
    13: "year",
    16: "bit",
    247: "enum",
    248: "set",
    245: "json",
    255: "geometry",
}
"""Types in the log -> as information_schema names them."""


def _of_log(column: Any, now: MysqlColumn | None) -> MysqlColumn:
    kind = _LOGGED.get(column.type)
    if kind is None:  # texts and bytes
        kind = "blob" if column.character_set_name in (None, "binary") else "text"
    if now is not None and (
        now.data_type == kind or (kind in ("text", "blob") and now.data_type not in _LOGGED.values())
    ):
        kind = now.data_type  # varchar, longblob, ...
    return MysqlColumn(
        column.name,
        kind,
        bool(column.unsigned),
        getattr(column, "precision", 10) or 10,
        getattr(column, "decimals", 0) or 0,
        getattr(column, "fsp", 0) or 0,
        getattr(column, "bits", 1) or 1,
        now.optional if now is not None else not column.is_primary,
        bool(column.is_primary),
        tuple(each for each in (column.enum_values or column.set_values or ()) if each),
    )
