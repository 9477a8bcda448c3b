"""How far each topic partition is written, in the database itself: a row changes in the transaction of the
rows.

    moldau_offsets | connector | topic | partition | next_offset |   primary key: the first three

`advance` compares: the row still has what this task last saw, or nothing of the transaction is stored. So of
two tasks that write one partition (one is thought dead, and is not) the second fails, and goes on from where
the table stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moldau.connect.batch import Batch, TopicPartition
from moldau.connect.connectors.jdbc.database import Database, RowRefused, TableName, table_name
from moldau.connect.errors import ConnectError, Retriable

DEFAULT_TABLE = "moldau_offsets"
_COLUMNS = {
    "postgresql": ("VARCHAR(255)", "INT", ""),
    "sqlite": ("VARCHAR(255)", "INT", ""),
    "mysql": (
        "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "INT",
        " ENGINE=InnoDB",
    ),
}


class Offsets:
    """The connector's rows of the table, as this task last saw them."""

    def __init__(self, database: Database, connector: str, table: str = DEFAULT_TABLE) -> None:
        import sqlalchemy

        self._sql = sqlalchemy
        self._database = database
        self._connector = connector
        self._table: TableName = table_name(table)
        self._known: dict[TopicPartition, int | None] = {}
        self._made = False
        name, quote = database.table(self._table), database.in_quotes  # `partition` is a word of MySQL's
        mine = ("connector", "topic", "partition")
        where = " AND ".join(f"{quote(each)} = :{each}" for each in mine)
        self._select = f"SELECT {quote('next_offset')} FROM {name} WHERE {where}"
        next_offset = quote("next_offset")
        self._update = f"UPDATE {name} SET {next_offset} = :end WHERE {where} AND {next_offset} = :seen"
        self._delete = f"DELETE FROM {name} WHERE {where}"
        self._insert = (
            f"INSERT INTO {name} ({quote('connector')}, {quote('topic')}, {quote('partition')}, "
            f"{quote('next_offset')}) VALUES (:connector, :topic, :partition, :end)"
        )

    def prepare(self) -> None:
        """Make the table if there is none. Retriable, ConnectError."""
        if self._made:
            return
        text, number, behind = _COLUMNS.get(self._database.dialect, ("VARCHAR(255)", "INT", ""))
        quote = self._database.in_quotes
        names = [quote(name) for name in ("connector", "topic", "partition", "next_offset")]
        kinds = [text, text, number, "BIGINT"]
        columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in zip(names, kinds, strict=True))
        try:
            if not self._exists():
                with self._database.transaction() as connection:
                    self._database.run(
                        connection,
                        f"CREATE TABLE IF NOT EXISTS {self._database.table(self._table)} ({columns}, "
                        f"PRIMARY KEY ({', '.join(names[:3])})){behind}",
                    )
        except (RowRefused, ConnectError) as error:
            if isinstance(error, Retriable):
                raise
            if not self._exists():  # another task may have made it at the same moment
                raise ConnectError(
                    f"the table {self._table}, which remembers what is written, cannot be made: {error}. "
                    f"Give the "
                    f"user the right to create tables, or make it: ({columns})"
                ) from error
        self._made = True

    def _exists(self) -> bool:
        with self._database.errors():
            inspector = self._sql.inspect(self._database.engine)
            return bool(inspector.has_table(self._table.name, schema=self._table.schema))

    def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the table stands; partitions it does not have are left out. Retriable, ConnectError."""
        self.prepare()
        found = {}
        with self._database.transaction() as connection:
            for each in partitions:
                row = connection.execute(self._sql.text(self._select), self._key(each)).first()
                self._known[each] = None if row is None else int(row[0])
                if row is not None:
                    found[each] = int(row[0])
        return found

    def set(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """An administrator's positions; None: forgotten."""
        self.prepare()
        with self._database.transaction() as connection:
            for each, position in positions.items():
                connection.execute(self._sql.text(self._delete), self._key(each))
                if position is not None:
                    connection.execute(self._sql.text(self._insert), {**self._key(each), "end": position})
        self.forget(positions)

    def unwritten(self, batch: Batch) -> Batch | None:
        """What of a run the database does not have yet; None: it has all of it."""
        origin, offsets = batch.origin, batch.offsets
        assert origin is not None  # a sink's batches have both
        assert offsets is not None
        if origin not in self._known:
            self.read([origin])
        position = self._known[origin]
        if position is None or not len(batch) or offsets[0].as_py() >= position:
            return batch
        rows = [row for row, offset in enumerate(offsets.to_pylist()) if offset >= position]
        return batch.take(rows) if rows else None

    def advance(self, connection: Any, ends: Mapping[TopicPartition, int]) -> None:
        """In a transaction: from what was seen to these. Retriable if another task has moved one."""
        for each in sorted(ends):  # in one order, so that two tasks cannot wait for one another
            seen, values = self._known.get(each), {**self._key(each), "end": ends[each]}
            if seen is None:
                self._first(connection, each, values)
            elif connection.execute(self._sql.text(self._update), {**values, "seen": seen}).rowcount != 1:
                raise self._moved(each, f"this one knew of {seen}")

    def _first(self, connection: Any, each: TopicPartition, values: Mapping[str, Any]) -> None:
        from sqlalchemy.exc import IntegrityError

        try:
            connection.execute(self._sql.text(self._insert), values)
        except IntegrityError:
            raise self._moved(each, "this one knew of none") from None

    def _moved(self, each: TopicPartition, knew: str) -> Retriable:
        return Retriable(
            f"another task has written {each.topic}-{each.partition} to {self._database.place} ({knew}): "
            f"starting "
            f"again from where the table {self._table} stands"
        )

    def _key(self, each: TopicPartition) -> dict[str, Any]:
        return {"connector": self._connector, "topic": each.topic, "partition": each.partition}

    def moved(self, ends: Mapping[TopicPartition, int]) -> None:
        """The transaction of `advance` is committed."""
        self._known.update(ends)

    def forget(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read again before the next write; None: all."""
        for each in list(self._known) if partitions is None else partitions:
            self._known.pop(each, None)

    def known(self) -> Sequence[TopicPartition]:
        """Partitions whose position was read."""
        return list(self._known)
