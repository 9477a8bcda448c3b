"""A sink into Delta tables. Positions are transaction identifiers (`txn` of the Delta protocol):

    appId    moldau:CONNECTOR/TOPIC/PARTITION        version    the offset after the last row

Delta refuses a commit with an appId that another commit has used since the table was read, so two tasks that
write the same partition cannot both succeed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

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
    from deltalake import CommitProperties, DeltaTable

STORAGE_PREFIX = "storage."


def app_id(connector: str, partition: TopicPartition) -> str:
    """Of the table's transaction identifier."""
    return f"moldau:{connector}/{partition.topic}/{partition.partition}"


class DeltaLake:
    """Delta tables under addresses made from a template."""

    def __init__(
        self, connector: str, storage: Mapping[str, str], partition_by: Sequence[str], compact_every: int
    ) -> None:
        self._connector = connector
        self._storage = dict(storage)
        self._partition_by = list(partition_by)
        self._compact_every = compact_every

    def columns(self, table: str) -> pa.Schema | None:
        """The columns of the table at this address."""
        found = self._open(table)
        return None if found is None else pa.schema(found.schema().to_arrow())

    def position(self, table: str, partition: TopicPartition) -> int | None:
        """The version under the partition's appId."""
        return self._position(self._open(table), partition)

    def _position(self, found: DeltaTable | None, partition: TopicPartition) -> int | None:
        return None if found is None else found.transaction_version(app_id(self._connector, partition))

    def commit(self, table: str, commit: Commit) -> None:
        """One entry of the table's log."""
        from deltalake import CommitProperties, Transaction

        ends = [Transaction(app_id(self._connector, each), end) for each, end in commit.ends.items()]
        properties = CommitProperties(app_transactions=ends)
        found = self._open(table)
        see_unmoved(table, commit.seen, lambda partition: self._position(found, partition))
        with _told(table):
            if commit.rows is None:
                if found is not None:
                    self._append(table, found, pa.schema(found.schema().to_arrow()).empty_table(), properties)
            elif found is None or not commit.keys:
                rows = commit.rows
                if commit.keys:
                    rows = without_mark(rows.filter(pa.compute.invert(rows.column(MARK))))
                self._append(table, found, rows, properties)
            else:
                self._merge(found, commit, properties)
        self._compact(table)

    def set_position(self, table: str, partition: TopicPartition, position: int | None) -> None:
        """An administrator's word: an entry without rows. A table cannot forget an appId: 0 stands for
        nothing."""
        from deltalake import CommitProperties, Transaction

        found = self._open(table)
        if found is not None:
            mark = Transaction(app_id(self._connector, partition), position or 0)
            empty = pa.schema(found.schema().to_arrow()).empty_table()
            with _told(table):
                self._append(table, found, empty, CommitProperties(app_transactions=[mark]))

    def _open(self, table: str) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            with _told(table):
                return DeltaTable(table, storage_options=self._storage)
        except TableNotFoundError:
            return None

    def _append(
        self, table: str, found: DeltaTable | None, rows: pa.Table, properties: CommitProperties
    ) -> None:
        from deltalake import write_deltalake

        if found is None and "://" not in table:
            Path(table).mkdir(parents=True, exist_ok=True)
        write_deltalake(
            table if found is None else found,
            rows,
            mode="append",
            schema_mode="merge" if found is not None else None,
            partition_by=self._partition_by or None if found is None else None,
            storage_options=self._storage,
            commit_properties=properties,
        )

    @staticmethod
    def _merge(found: DeltaTable, commit: Commit, properties: CommitProperties) -> None:
        assert commit.rows is not None
        columns = [name for name in commit.rows.column_names if name != MARK]
        same = " AND ".join(f"target.`{key}` = source.`{key}`" for key in commit.keys)
        values = {f"`{name}`": f"source.`{name}`" for name in columns}
        (
            found.merge(
                commit.rows,
                predicate=same,
                source_alias="source",
                target_alias="target",
                merge_schema=commit.evolve,
                commit_properties=properties,
            )
            .when_matched_delete(predicate=f"source.`{MARK}`")
            .when_matched_update(updates=values)
            .when_not_matched_insert(updates=values, predicate=f"NOT source.`{MARK}`")
            .execute()
        )

    def _compact(self, table: str) -> None:
        found = self._open(table) if self._compact_every else None
        if found is not None and found.version() and found.version() % self._compact_every == 0:
            with _told(table):
                found.optimize.compact()


class _told:
    """Delta's errors as the worker's: what another writer or the store did may be tried again."""

    def __init__(self, table: str) -> None:
        self._table = table

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if problem is None:
            return
        from deltalake.exceptions import CommitFailedError, SchemaMismatchError, TableNotFoundError

        if isinstance(problem, TableNotFoundError):
            return
        if isinstance(problem, CommitFailedError):
            raise Retriable(f"{self._table}: another writer was faster: {problem}") from problem
        if isinstance(problem, SchemaMismatchError):
            raise ConnectError(f"{self._table}: the rows do not fit the table: {problem}") from problem
        if isinstance(problem, OSError):
            raise Retriable(f"{self._table} cannot be reached or written: {problem}") from problem


class DeltaSink(LakeSink):
    """Topics into Delta tables, exactly once."""

    gains_on_spark = True
    settings = (
        Setting(
            "table.uri",
            SettingType.STRING,
            "Where a topic's table is: a folder, or an address such as s3://bucket/tables/${topic}.",
            REQUIRED,
            Importance.HIGH,
            "Table",
        ),
        Setting(
            "partition.by",
            SettingType.LIST,
            "Columns by which a new table is partitioned.",
            [],
            Importance.MEDIUM,
            "Table",
        ),
        Setting(
            "compact.every",
            SettingType.INT,
            "After so many commits small files are merged; 0: never.",
            100,
            Importance.LOW,
            "Table",
        ),
        *LAKE_SETTINGS,
    )

    def start(self, settings: Mapping[str, Any], context: SinkContext) -> None:
        """Reads nothing yet."""
        super().start(settings, context)
        storage = {
            name.removeprefix(STORAGE_PREFIX): str(value)
            for name, value in settings.items()
            if name.startswith(STORAGE_PREFIX)
        }
        self.lake = DeltaLake(context.connector, storage, settings["partition.by"], settings["compact.every"])
        self.writer = LakeWriter(self.lake, settings, context)

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions."""
        return check_modes(settings)

    def table(self, topic: str) -> str:
        """From the template."""
        return str(self.config["table.uri"]).replace("${topic}", topic)
