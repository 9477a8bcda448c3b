"""Captured tables: what their records look like, from the log's description and the catalog's."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from moldau import __version__
from moldau.common.core.patterns import Pattern, PatternError
from moldau.connect.connectors.cdc.choice import Choice, pattern_of
from moldau.connect.connectors.cdc.envelope import EnvelopeTable
from moldau.connect.connectors.cdc.naming import adjusted, topic_name
from moldau.connect.connectors.cdc.orders import means
from moldau.connect.connectors.cdc.postgres.catalog import Catalog, CatalogColumn, CatalogTable
from moldau.connect.connectors.cdc.postgres.pgoutput import Relation, RelationColumn
from moldau.connect.connectors.cdc.postgres.transactions import Followed
from moldau.connect.connectors.cdc.postgres.types import Types
from moldau.connect.errors import ConnectError
from moldau.connect.schema import Schema, Type, struct_schema

_LOG = logging.getLogger(__name__)
_TEXT, _OPTIONAL_TEXT = Schema(Type.STRING), Schema(Type.STRING, True)
_OPTIONAL_LONG = Schema(Type.INT64, True)
SNAPSHOT = Schema(
    Type.STRING,
    True,
    "io.debezium.data.Enum",
    1,
    default="false",
    parameters={
        "allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
    },
)
SOURCE = struct_schema(
    {
        "version": _TEXT,
        "connector": _TEXT,
        "name": _TEXT,
        "ts_ms": Schema(Type.INT64),
        "snapshot": SNAPSHOT,
        "db": _TEXT,
        "sequence": _OPTIONAL_TEXT,
        "ts_us": _OPTIONAL_LONG,
        "ts_ns": _OPTIONAL_LONG,
        "schema": _TEXT,
        "table": _TEXT,
        "txId": _OPTIONAL_LONG,
        "lsn": _OPTIONAL_LONG,
        "xmin": _OPTIONAL_LONG,
    },
    "io.debezium.connector.postgresql.Source",
    version=1,
)


class Tables:
    """Makes what is followed."""

    def __init__(self, catalog: Catalog, settings: Mapping[str, Any]) -> None:
        self._catalog = catalog
        self._types = Types(settings)
        self._choice = Choice(settings, "schema")
        self._prefix: str = settings["topic.prefix"]
        self._database: str = settings["database.dbname"]
        self._schema_names = settings["schema.name.adjustment.mode"]
        self._field_names = settings["field.name.adjustment.mode"]
        self._keys = key_columns(settings["message.key.columns"])
        self._signals: str | None = settings["signal.data.collection"]

    def chosen(self) -> list[CatalogTable]:
        """All captured tables that there are now."""
        return [each for each in self._catalog.tables() if self._choice.table(each.schema, each.name)]

    def published(self) -> list[CatalogTable]:
        """Those, and the table of signals: its rows have to come through the log."""
        signals = ".".join((self._signals or "").split(".")[-2:])
        return [
            each
            for each in self._catalog.tables()
            if self._choice.table(each.schema, each.name) or f"{each.schema}.{each.name}" == signals
        ]

    def is_signals(self, relation: Relation) -> bool:
        """Whether it is `signal.data.collection`."""
        return bool(self._signals) and f"{relation.schema}.{relation.table}" == ".".join(
            self._signals.split(".")[-2:] if self._signals else ()
        )

    def captured(self, relation: Relation) -> bool:
        """Whether its changes are to be records."""
        return self._choice.table(relation.schema, relation.table)

    def follow(self, relation: Relation) -> Followed | None:
        """What the log describes; None: not captured."""
        if not self.captured(relation) and not self.is_signals(relation):
            return None
        return self._followed(relation, {each.name: each for each in self._catalog.columns(relation.id)})

    def of_catalog(self, table: CatalogTable) -> Followed:
        """A table as it is now."""
        columns = self._catalog.columns(table.id)
        described = tuple(RelationColumn(each.name, each.type_id, each.modifier, False) for each in columns)
        relation = Relation(table.id, table.schema, table.name, "d", described)
        return self._followed(relation, {each.name: each for each in columns})

    def by_name(self, name: str) -> Followed | None:
        """A table that an incremental snapshot can be made of; None: a warning says why not."""
        for each in self.chosen():
            if means(name, f"{each.schema}.{each.name}"):
                followed = self.of_catalog(each)
                primary = {column.name for column in self._catalog.columns(each.id) if column.key_place}
                names = {
                    followed.relation.columns[followed.places[at]].name for at in followed.table.key_places
                }
                if primary and names == primary:  # rows that share a key would be taken for one
                    return followed
                _LOG.warning(
                    "table %s has no primary key, or its records have another key (message.key.columns): no "
                    "incremental snapshot of it is made",
                    name,
                )
                return None
        _LOG.warning("table %s is not captured: no incremental snapshot of it is made", name)
        return None

    def _followed(self, relation: Relation, known: Mapping[str, CatalogColumn]) -> Followed:
        names = [each.name for each in relation.columns]
        places = self._choice.columns(relation.schema, relation.table, names)
        columns = []
        for place in places:
            each = relation.columns[place]
            optional = known[each.name].optional if each.name in known else True
            kind = self._catalog.type(each.type_id, each.modifier)
            columns.append(self._types.column(adjusted(each.name, self._field_names), kind, optional))
        kept = [names[place] for place in places]
        keys = [kept.index(each) for each in self._key_names(relation, known) if each in kept]
        full = f"{self._prefix}.{relation.schema}.{relation.table}"
        table = EnvelopeTable(
            topic_name(self._prefix, relation.schema, relation.table),
            adjusted(full, self._schema_names),
            columns,
            keys,
            SOURCE,
            f"{relation.schema}.{relation.table}",
        )
        return Followed(relation, table, tuple(places))

    def _key_names(self, relation: Relation, known: Mapping[str, CatalogColumn]) -> list[str]:
        name = f"{relation.schema}.{relation.table}"
        for pattern, columns in self._keys:
            if pattern.fullmatch(name):
                return columns
        primary = [
            name
            for _, name in sorted((each.key_place, each.name) for each in known.values() if each.key_place)
        ]
        if primary and {each.name for each in relation.columns}.issuperset(primary):
            return primary
        if relation.identity in "di":  # the primary key as it was: the table is changed or gone now
            return [each.name for each in relation.columns if each.in_key]
        return []

    def source_of(
        self,
        schema: str,
        table: str,
        lsn: int,
        xid: int,
        time_us: int,
        last_commit: int,
        snapshot: str = "false",
    ) -> tuple[Any, ...]:
        """The source's values."""
        sequence = f'["{last_commit}","{lsn}"]' if last_commit else f'[null,"{lsn}"]'
        return (
            __version__,
            "postgresql",
            self._prefix,
            time_us // 1000,
            snapshot,
            self._database,
            sequence,
            time_us,
            time_us * 1000,
            schema,
            table,
            xid or None,
            lsn,
            None,
        )


def key_columns(entries: Sequence[str]) -> list[tuple[Pattern, list[str]]]:
    """`message.key.columns`: a list was made of it by its commas, which part columns, too. ConnectError."""
    made = []
    for entry in filter(None, (each.strip() for each in ",".join(entries).split(";"))):
        table, colon, columns = entry.rpartition(":")
        if not colon or not columns:
            raise ConnectError(f"message.key.columns: {entry!r} is not `schema.table:column,column`")
        try:
            pattern = pattern_of(table)
        except PatternError as error:
            raise ConnectError(f"message.key.columns: {table!r} is no regular expression: {error}") from None
        made.append((pattern, [each.strip() for each in columns.split(",")]))
    return made
