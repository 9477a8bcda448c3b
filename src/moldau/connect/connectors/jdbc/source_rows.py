"""Rows of a result: as batches, and where reading stands after each."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import pyarrow as pa

from moldau.connect.arrow_types import arrow_field
from moldau.connect.batch import Batch, Column
from moldau.connect.building import batch_of
from moldau.connect.connectors.jdbc.source_offset import Reached
from moldau.connect.connectors.jdbc.source_types import SourceColumn, converted, instant
from moldau.connect.errors import BadRecord, ConnectError
from moldau.connect.inference import infer_schema
from moldau.connect.schema import struct_schema
from moldau.connect.source import Refused
from moldau.connect.values import column_of

SqlRow: TypeAlias = Sequence[Any]
_FAILURES = (BadRecord, ValueError, ArithmeticError, TypeError, AttributeError, pa.ArrowException)
"""At a value that is not as its column says."""


class ResultRows:
    """Makes batches of a result's rows. `columns` None: types are taken from the values."""

    def __init__(
        self,
        topic: str,
        name: str | None,
        names: Sequence[str],
        columns: Sequence[SourceColumn] | None,
        number: str | None,
        times: Sequence[str],
        zone: ZoneInfo,
    ) -> None:
        self._topic = topic
        self._name = name
        self._names = names
        self._columns = columns
        places = {each: index for index, each in enumerate(names)}
        for each in [*([number] if number else []), *times]:
            if each not in places:
                raise ConnectError(
                    f"{name or 'the query'} gives no column {each}: it gives {', '.join(names)}"
                )
        self._number = places[number] if number else None
        plain = instant(zone)
        self._times: list[tuple[int, Callable[[Any], Any]]] = [
            (places[each], (columns[places[each]].convert or plain) if columns else plain) for each in times
        ]
        if columns is not None:
            self._schema = struct_schema({each.name: each.schema for each in columns}, name)
            self._fields = [arrow_field(each.name, each.schema) for each in self._schema.fields]

    def records(self, rows: Sequence[SqlRow]) -> tuple[list[Batch], list[Refused]]:
        """Batches, and the rows that have a value which its column's schema has not."""
        try:
            return [self.batch(rows)], []
        except _FAILURES as error:
            if len(rows) == 1:
                return [], [self._refused(rows[0], error)]
        half = len(rows) // 2
        first, last = self.records(rows[:half]), self.records(rows[half:])
        return first[0] + last[0], first[1] + last[1]

    def _refused(self, row: SqlRow, error: Exception) -> Refused:
        value = {
            name: None if each is None else str(each) for name, each in zip(self._names, row, strict=True)
        }
        where = self._name or "the query"
        if self._number is not None:
            where += f", {self._names[self._number]}={row[self._number]}"
        batch = Batch(self._topic, Column(None, [None]), Column(None, [value]), pa.nulls(1, pa.int64()))
        said = (
            f"a row of {where} has a value that its column has not in records: "
            f"{self._column_of(row, error)}. Read it by a query that casts it (CAST(column AS VARCHAR)), "
            "choose numeric.mapping, or leave such rows out (errors.tolerance=all)"
        )
        return Refused(batch, BadRecord(said))

    def _column_of(self, row: SqlRow, error: Exception) -> str:
        for column, value in zip(self._columns or (), row, strict=False):
            try:
                column_of(column.schema, converted([column], [[value]])[0])
            except _FAILURES as reason:
                return f"column {column.name}, {str(value)[:100]!r}: {reason}"
        return str(error)

    def batch(self, rows: Sequence[SqlRow]) -> Batch:
        """BadRecords where a value does not fit its column's schema."""
        if self._columns is None:
            values = [dict(zip(self._names, row, strict=True)) for row in rows]
            return batch_of(self._topic, values, infer_schema(values))
        parts = [
            column_of(column.schema, values).values
            for column, values in zip(self._columns, converted(self._columns, rows), strict=True)
        ]
        return batch_of(self._topic, pa.StructArray.from_arrays(parts, fields=self._fields), self._schema)

    def time_of(self, row: SqlRow) -> datetime.datetime:
        """The first time of a row that is not null. ConnectError if all are."""
        for place, convert in self._times:
            if row[place] is not None:
                when = convert(row[place])
                assert isinstance(when, datetime.datetime)
                return when
        names = ", ".join(self._names[place] for place, _ in self._times)
        raise ConnectError(f"a row has no time in {names}: leave such rows out by a query")

    def after(self, row: SqlRow) -> Reached:
        """Where reading stands after it."""
        number = None if self._number is None else int(row[self._number])
        return Reached(number, self.time_of(row) if self._times else None)


def cut_by_time(
    chunks: Iterable[Sequence[SqlRow]], time_of: Callable[[SqlRow], Any]
) -> Iterator[tuple[list[SqlRow], Any]]:
    """Rows in order of time, cut where it changes: (rows, the time that they end with), or (rows, None) for
    a part of the rows of one time, of which more may follow. Holds no more than two chunks."""
    tail: list[SqlRow] = []
    tail_time: Any = None
    for rows in chunks:
        last = time_of(rows[-1])
        index = len(rows) - 1
        while index and time_of(rows[index - 1]) == last:
            index -= 1
        if index == 0 and tail and tail_time == last:
            yield tail, None
            tail = list(rows)
            continue
        complete = tail + list(rows[:index])
        if complete:
            yield complete, time_of(complete[-1])
        tail, tail_time = list(rows[index:]), last
    if tail:
        yield tail, tail_time
