"""A sink into Iceberg tables. Positions are properties of the table, set in the commit that adds the rows:

    moldau.position.CONNECTOR.TOPIC.PARTITION = the offset after the last row

A commit is refused when the branch has moved since the table was loaded, and is then not repeated here but
by the worker,
from the position that the table has by then. (A snapshot's own properties would do too, but expire with it.)

The settings have the names of Apache Iceberg's own sink (iceberg.apache.org, Kafka Connect).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.batch import TopicPartition
from moldau.connect.connectors.lake.changes import MARK
from moldau.connect.connectors.lake.lake_sink import (
    LAKE_SETTINGS,
    Commit,
    LakeSink,
    LakeWriter,
    check_modes,
    without_mark,
)
from moldau.connect.connectors.lake.positions import see_unmoved
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.sink import SinkContext

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

CATALOG_PREFIX = "iceberg.catalog."
_DELETED_AT_ONCE = 1000
"""Keys in one filter: its evaluation is recursive."""


def position_property(connector: str, partition: TopicPartition) -> str:
    """Of the table."""
    return f"moldau.position.{connector}.{partition.topic}.{partition.partition}"


class IcebergLake:
    """Tables of a catalog."""

    def __init__(self, connector: str, catalog: Catalog, partition_by: Sequence[str]) -> None:
        self._connector = connector
        self._catalog = catalog
        self._partition_by = partition_by

    def columns(self, table: str) -> pa.Schema | None:
        """The columns of the table of this name."""
        found = self._load(table)
        return None if found is None else _plain(found.schema().as_arrow())

    def position(self, table: str, partition: TopicPartition) -> int | None:
        """The property of the partition."""
        return self._position(self._load(table), partition)

    def _position(self, found: Table | None, partition: TopicPartition) -> int | None:
        text = None if found is None else found.properties.get(position_property(self._connector, partition))
        return None if text is None else int(text)

    def commit(self, table: str, commit: Commit) -> None:
        """One change of the table's metadata in the catalog."""
        ends = {position_property(self._connector, each): str(end) for each, end in commit.ends.items()}
        with _told(table):
            found = self._load(table)
            see_unmoved(table, commit.seen, lambda partition: self._position(found, partition))
            if found is None:
                if commit.rows is None:
                    return
                found = self._create(table, commit.rows)
            self._write(found, commit, ends)

    def set_position(self, table: str, partition: TopicPartition, position: int | None) -> None:
        """An administrator's word."""
        found = self._load(table)
        if found is None:
            return
        name = position_property(self._connector, partition)
        with _told(table), found.transaction() as change:
            if position is not None:
                change.set_properties({name: str(position)})
            elif name in found.properties:
                change.remove_properties(name)

    def _load(self, table: str) -> Table | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        with _told(table):
            try:
                return self._catalog.load_table(table)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def _create(self, table: str, rows: pa.Table) -> Table:
        self._catalog.create_namespace_if_not_exists(table.rpartition(".")[0])
        columns = [field for field in rows.schema if field.name != MARK]
        made = self._catalog.create_table_if_not_exists(table, pa.schema(columns))
        if self._partition_by and not made.spec().fields:
            with made.update_spec() as spec:
                for name in self._partition_by:
                    spec.add_identity(name)
        return self._catalog.load_table(table)

    @staticmethod
    def _write(found: Table, commit: Commit, ends: Mapping[str, str]) -> None:
        # In this copy alone, not in the table: a commit that is repeated by the library would not look at the
        # positions again, and add rows that another task has added.
        found.metadata.properties["commit.retry.num-retries"] = "0"
        with found.transaction() as change:
            rows = commit.rows
            if rows is not None and commit.evolve:
                kept = without_mark(rows) if commit.keys else rows
                with change.update_schema() as schema:
                    schema.union_by_name(kept.schema)
            columns = _plain(change.table_metadata.schema().as_arrow())
            if rows is None:
                change.append(columns.empty_table())
            elif commit.keys:
                for condition in _conditions(rows, commit.keys):
                    change.delete(condition)
                change.append(_filled(without_mark(rows.filter(pc.invert(rows.column(MARK)))), columns))
            else:
                change.append(_filled(rows, columns))
            change.set_properties(dict(ends))


def _conditions(rows: pa.Table, keys: Sequence[str]) -> Iterator[BooleanExpression]:
    """Which rows of the table are replaced or deleted, a thousand keys at a time."""
    from pyiceberg import expressions

    make: Any = expressions  # its classes take names by position, which its types do not say
    values = rows.select(list(keys)).to_pylist()
    for first in range(0, len(values), _DELETED_AT_ONCE):
        some = values[first : first + _DELETED_AT_ONCE]
        if len(keys) == 1:
            yield make.In(keys[0], {row[keys[0]] for row in some})
            continue
        each = [make.And(*(make.EqualTo(key, row[key]) for key in keys)) for row in some]
        yield make.Or(*each) if len(each) > 1 else each[0]


def _plain(columns: pa.Schema) -> pa.Schema:
    """Without field ids, and with strings as converters have them."""
    return pa.schema([pa.field(each.name, _type(each.type), each.nullable) for each in columns])


def _type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    return kind


def _filled(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """With all columns of the table, in its order."""
    given = {name: rows.column(name) for name in rows.column_names}
    filled = [given.get(each.name, pa.nulls(rows.num_rows, each.type)) for each in columns]
    return pa.table(filled, schema=columns)


@contextmanager
def _told(table: str) -> Iterator[None]:
    """Iceberg's errors as the worker's."""
    from pyiceberg.exceptions import (
        CommitFailedException,
        CommitStateUnknownException,
        RESTError,
        ValidationException,
    )

    try:
        yield
    except (CommitFailedException, ValidationException) as problem:
        raise Retriable(f"{table}: another writer was faster: {problem}") from problem
    except (CommitStateUnknownException, RESTError, OSError) as problem:
        raise Retriable(f"{table}: the catalog or the storage did not answer: {problem}") from problem
    except ValueError as problem:
        raise ConnectError(f"{table}: the rows do not fit the table: {problem}") from problem


class IcebergSink(LakeSink):
    """Topics into Iceberg tables, exactly once."""

    settings = (
        Setting(
            "iceberg.tables",
            SettingType.STRING,
            "Namespace and name of the table; ${topic} stands for the topic: lake.${topic}.",
            REQUIRED,
            Importance.HIGH,
            "Table",
        ),
        Setting(
            "iceberg.catalog",
            SettingType.STRING,
            "The catalog's name. What else it needs stands in iceberg.catalog.uri, .type, .warehouse and so "
            "on.",
            "default",
            Importance.HIGH,
            "Table",
        ),
        Setting(
            "iceberg.tables.default-partition-by",
            SettingType.LIST,
            "Columns by which a new table is partitioned (as they are).",
            [],
            Importance.MEDIUM,
            "Table",
        ),
        Setting(
            "iceberg.tables.auto-create-enabled",
            SettingType.BOOLEAN,
            "Make a table that does not exist, with the columns of its first records.",
            False,
            Importance.MEDIUM,
            "Table",
        ),
        Setting(
            "iceberg.tables.evolve-schema-enabled",
            SettingType.BOOLEAN,
            "Add columns to a table when records have new fields. Off: such records end the task.",
            False,
            Importance.MEDIUM,
            "Table",
        ),
        Setting(
            "iceberg.tables.upsert-mode-enabled",
            SettingType.BOOLEAN,
            "A record replaces the row of its key, and a tombstone deletes it.",
            False,
            Importance.MEDIUM,
            "Table",
        ),
        Setting(
            "iceberg.tables.default-id-columns",
            SettingType.LIST,
            "In upsert mode: the columns that make a row the same row.",
            [],
            Importance.MEDIUM,
            "Table",
        ),
        *(row for row in LAKE_SETTINGS if row.name in ("metadata.columns", "commit.size.bytes")),
        Setting(
            "iceberg.control.topic",
            SettingType.STRING,
            "Apache Iceberg's sink agrees about commits in this topic.",
            None,
            Importance.LOW,
            "Table",
            without_effect="rows and positions are one commit of the table: nothing is left to agree about",
        ),
    )

    def start(self, settings: Mapping[str, Any], context: SinkContext) -> None:
        """Connect to the catalog. ConnectError, Retriable."""
        from pyiceberg.catalog import load_catalog

        super().start(settings, context)
        properties = {
            name.removeprefix(CATALOG_PREFIX): str(value)
            for name, value in settings.items()
            if name.startswith(CATALOG_PREFIX)
        }
        with _told("the catalog"):
            catalog = load_catalog(settings["iceberg.catalog"], **properties)
        self.lake = IcebergLake(context.connector, catalog, settings["iceberg.tables.default-partition-by"])
        self.writer = LakeWriter(self.lake, lake_settings(settings), context)

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions, under Iceberg's names."""
        problems = check_modes(lake_settings(settings))
        if not problems:
            return {}
        upsert = settings["iceberg.tables.upsert-mode-enabled"]
        return {
            "iceberg.tables.default-id-columns": [
                "iceberg.tables.upsert-mode-enabled needs columns that make a row the same row"
                if upsert
                else "has no meaning without iceberg.tables.upsert-mode-enabled=true"
            ]
        }

    def table(self, topic: str) -> str:
        """From the template."""
        return str(self.config["iceberg.tables"]).replace("${topic}", topic.replace(".", "_"))


def lake_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Iceberg's names as those that both formats share."""
    return {
        "write.mode": "upsert" if settings["iceberg.tables.upsert-mode-enabled"] else "append",
        "key.columns": settings["iceberg.tables.default-id-columns"],
        "auto.create": settings["iceberg.tables.auto-create-enabled"],
        "auto.evolve": settings["iceberg.tables.evolve-schema-enabled"],
        "metadata.columns": settings["metadata.columns"],
        "commit.size.bytes": settings["commit.size.bytes"],
    }
