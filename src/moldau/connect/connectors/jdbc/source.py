"""Tables (or a query) into topics: what is new since the last look, by number, by time, or all.

Rows come through a cursor of the server, `batch.max.rows` at a time. Each of these is a batch with the
offset of its last row; in mode timestamp rows of one time are never cut into two transactions, since nothing
tells them apart afterwards.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from moldau.connect.connectors.jdbc.database import Database, RowRefused, TableName
from moldau.connect.connectors.jdbc.source_offset import Reached, reached
from moldau.connect.connectors.jdbc.source_query import Columns, statement, time_expression
from moldau.connect.connectors.jdbc.source_rows import ResultRows, cut_by_time
from moldau.connect.connectors.jdbc.source_settings import SOURCE_SETTINGS, check_source
from moldau.connect.connectors.jdbc.source_tables import Catalog, Shape
from moldau.connect.connectors.jdbc.source_types import instant
from moldau.connect.errors import ConnectError
from moldau.connect.source import Read, Source, SourceContext, SourceOffset, SourcePartition

_NOW = {
    "postgresql": "SELECT clock_timestamp()",
    "mysql": "SELECT UTC_TIMESTAMP(6)",
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
}


class JdbcSource(Source):
    """See the module."""

    settings = SOURCE_SETTINGS

    def start(self, settings: Mapping[str, Any], context: SourceContext) -> None:
        """Connects when it is asked for tables, or to read."""
        super().start(settings, context)
        self._database = Database(settings)
        self._catalog = Catalog(self._database, settings)
        self._listed: list[SourcePartition] = []
        self._list_again = 0.0
        self._zone = ZoneInfo(settings["db.timezone"])
        self._time_names: Sequence[str] = settings["timestamp.column.name"]
        self._begun = datetime.datetime.now(datetime.UTC)

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions; with none, whether the database can be reached, and has the tables."""
        wrong: dict[str, list[str]] = check_source(settings)
        if wrong:
            return wrong
        try:
            database = Database(settings)
        except ConnectError as error:
            return {"connection.url": [str(error)]}
        try:
            if not settings["query"]:
                Catalog(database, settings).tables()
            with database.transaction() as connection:
                database.run(connection, "SELECT 1")
        except (ConnectError, RowRefused) as error:
            return {"connection.url": [str(error)]}
        finally:
            database.close()
        return {}

    def stop(self) -> None:
        """Close the connections."""
        if hasattr(self, "_database"):
            self._database.close()

    def check_offsets(self, offsets: Mapping[str, Any]) -> None:
        """Whole numbers, as Confluent's."""
        reached(offsets)

    def partitions(self) -> Sequence[SourcePartition]:
        """A table each, in Confluent's form; looked for every `table.poll.interval.ms`."""
        if self.config["query"]:
            return [{"query": "query"}]
        if time.monotonic() >= self._list_again:
            self._listed = [{"protocol": "1", "table": each.full} for each in self._catalog.tables()]
            self._list_again = time.monotonic() + self.config["table.poll.interval.ms"] / 1000
        return self._listed

    def read(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[Read | None]:
        """Look every `poll.interval.ms`."""
        at = reached(offset)
        while not self.context.stopping():
            for each in self._look(partition, at):
                at = reached(each.offset)
                yield each
            again = time.monotonic() + self.config["poll.interval.ms"] / 1000
            yield None  # and not a wait: other tables of the task are read meanwhile
            while time.monotonic() < again and not self.context.stopping():
                yield None

    def _look(self, partition: SourcePartition, at: Reached) -> Iterator[Read]:
        """What is new now."""
        import sqlalchemy

        table = None if self.config["query"] else self._catalog.named(str(partition["table"]))
        shape = None if table is None else self._catalog.shape(table)
        columns = self._columns(shape, table)
        options = {"stream_results": True, "max_row_buffer": self.config["batch.max.rows"]}
        try:
            with self._database.errors(), self._database.engine.connect() as connection:
                end = self._now(connection) - datetime.timedelta(
                    milliseconds=self.config["timestamp.delay.interval.ms"]
                )
                text, values = self._statement(table, shape, columns, self._first(at), end)
                result = connection.execution_options(**options).execute(sqlalchemy.text(text), values)
                yield from self._reads(result, table, shape, at)
        except RowRefused as error:
            raise ConnectError(f"{table or 'the query'} cannot be read: {error}") from error

    def _first(self, at: Reached) -> Reached:
        """Where to begin without an offset."""
        mode = self.config["mode"]
        number, when = at.number, at.time
        if number is None and "incrementing" in mode and self.config["incrementing.initial"] != -1:
            number = self.config["incrementing.initial"]
        if when is None and "timestamp" in mode and self.config["timestamp.initial"] is not None:
            initial = self.config["timestamp.initial"]
            when = self._begun if initial < 0 else reached({"timestamp": initial}).time
        return Reached(number, when)

    def _now(self, connection: Any) -> datetime.datetime:
        asked = _NOW.get(self._database.dialect, "SELECT CURRENT_TIMESTAMP")
        return instant(ZoneInfo("UTC"))(self._database.run(connection, asked).scalar())

    def _columns(self, shape: Shape | None, table: TableName | None) -> Columns:
        """What the mode goes by. ConnectError where the table does not have it."""
        mode, quote = self.config["mode"], self._database.quote
        number = self._number(shape, table) if "incrementing" in mode else None
        names = list(self._time_names) if "timestamp" in mode else []
        if shape is not None:
            self._validate(shape, table, number, names)
        when = time_expression(self._database.dialect, [quote(each) for each in names]) if names else None
        return Columns(quote(number) if number else None, when)

    def _number(self, shape: Shape | None, table: TableName | None) -> str:
        name = self.config["incrementing.column.name"] or (shape.counted if shape else None)
        if not name:
            raise ConnectError(
                f"table {table} has no column that the database counts: set incrementing.column.name"
            )
        return str(name)

    def _validate(
        self, shape: Shape, table: TableName | None, number: str | None, names: Sequence[str]
    ) -> None:
        known = {each.name: each.schema for each in shape.columns}
        for each in [*([number] if number else []), *names]:
            if each not in known:
                raise ConnectError(f"table {table} has no column {each}: it has {', '.join(known)}")
        if not self.config["validate.non.null"]:
            return
        if number and known[number].optional:
            raise ConnectError(
                f"column {number} of table {table} may be null, and rows without a number would never be "
                f"read: make "
                f"it "
                f"NOT NULL, or set validate.non.null=false"
            )
        if names and all(known[each].optional for each in names):
            raise ConnectError(
                f"columns {', '.join(names)} of table {table} may all be null, and rows without a time "
                f"would never "
                f"be "
                f"read: make one NOT NULL, or set validate.non.null=false"
            )

    def _statement(
        self,
        table: TableName | None,
        shape: Shape | None,
        columns: Columns,
        at: Reached,
        end: datetime.datetime,
    ) -> tuple[str, dict[str, Any]]:
        query = as_text(self.config["query"].strip().rstrip(";"))
        suffix = as_text(self.config["query.suffix"])
        plain = columns == Columns(None, None)
        if table is None:
            if plain:
                return f"{query} {suffix}" if suffix else query, {}
            source = f"({query}) {self._database.quote('moldau_query')}"
        else:
            source = as_text(self._database.table(table))
        zoned = shape is not None and any(
            each.zoned for each in shape.columns if each.name in self._time_names
        )

        def parameter(when: datetime.datetime) -> Any:
            if self._database.dialect == "sqlite":
                return when.strftime("%Y-%m-%d %H:%M:%S.") + f"{when.microsecond // 1000:03}"
            if zoned:
                return when if self._database.dialect == "postgresql" else when.replace(tzinfo=None)
            return when.astimezone(self._zone).replace(tzinfo=None)

        return statement(source, columns, at, end, parameter, suffix)

    def _reads(
        self, result: Any, table: TableName | None, shape: Shape | None, at: Reached
    ) -> Iterator[Read]:
        """A result, `batch.max.rows` at a time."""
        mode, names = self.config["mode"], list(result.keys())
        number = self._number(shape, table) if "incrementing" in mode else None
        if shape is None:
            shape = self._catalog.shape_of_cursor(result.cursor)
        known = {each.name: each for each in shape.columns} if shape else {}
        topic, name = (
            self.config["topic.prefix"] + (table.name if table else ""),
            table.name if table else None,
        )
        columns = [known[each] for each in names] if shape else None
        times = self._time_names if "timestamp" in mode else ()
        rows = ResultRows(topic, name, names, columns, number, times, self._zone)
        chunks = result.partitions(self.config["batch.max.rows"])
        if mode != "timestamp":
            for chunk in chunks:
                batches, refused = rows.records(chunk)
                yield Read(batches, rows.after(chunk[-1]).offset(), refused=refused)
            return
        for chunk, when in cut_by_time(chunks, rows.time_of):
            batches, refused = rows.records(chunk)
            if when is None:  # more rows of the same time may come: they belong to the same transaction
                yield Read(batches, at.offset(), ends_transaction=False, refused=refused)
            else:
                at = Reached(None, when)
                yield Read(batches, at.offset(), refused=refused)


def as_text(sql: str) -> str:
    """SQL in which SQLAlchemy shall see no parameters."""
    return sql.replace(":", "\\:")
