"""Debezium's envelope: changes of one table as columns of records.

    key     the columns of the primary key
    value   before, after    the row as it was and is, or null
            source           where the change comes from: a struct of the connector's own
            transaction      with provide.transaction.metadata
            op               c created, u updated, d deleted, r read by a snapshot, t truncated
            ts_ms ts_us ts_ns    when this connector saw it

After a deletion a record of the key alone (a tombstone) lets compaction forget the key.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from moldau.connect.arrow_types import arrow_field, arrow_type
from moldau.connect.batch import Batch, Column
from moldau.connect.connectors.cdc.converting import CapturedColumn, Unreadable, refusal
from moldau.connect.errors import BadRecord
from moldau.connect.schema import Field, Schema, Type, struct_schema
from moldau.connect.source import Refused

SqlRow: TypeAlias = Sequence[Any]
_INT64 = Schema(Type.INT64)
_OPTIONAL_INT64 = Schema(Type.INT64, True)
TRANSACTION = struct_schema(
    {"id": Schema(Type.STRING), "total_order": _INT64, "data_collection_order": _INT64},
    "event.block",
    optional=True,
    version=1,
)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a row, values converted. A tombstone has no `op`."""

    op: str
    before: SqlRow | None
    after: SqlRow | None
    source: tuple[Any, ...]
    """Values of the source's fields, as `EnvelopeTable.source` has them."""
    key: SqlRow | None
    transaction: tuple[str, int, int] | None = None


class EnvelopeTable:
    """A captured table as it is at a moment; another one is made when its columns change."""

    def __init__(
        self,
        topic: str,
        schema_name: str,
        columns: Sequence[CapturedColumn],
        key_places: Sequence[int],
        source: Schema,
        name: str | None = None,
    ) -> None:
        """`name`: of the table, as errors name it."""
        self.topic = topic
        self.name = name or topic
        self.columns = columns
        self.key_places = key_places
        fields = {each.name: each.schema for each in columns}
        row = struct_schema(fields, f"{schema_name}.Value", optional=True)
        self.key_schema: Schema | None = None
        if key_places:
            keys = {columns[place].name: columns[place].schema for place in key_places}
            self.key_schema = struct_schema(keys, f"{schema_name}.Key")
            self._key_fields = [arrow_field(each.name, each.schema) for each in self.key_schema.fields]
        self.value_schema = Schema(
            Type.STRUCT,
            name=f"{schema_name}.Envelope",
            version=2,
            fields=(
                Field("before", row),
                Field("after", row),
                Field("source", source),
                Field("transaction", TRANSACTION),
                Field("op", Schema(Type.STRING)),
                Field("ts_ms", _OPTIONAL_INT64),
                Field("ts_us", _OPTIONAL_INT64),
                Field("ts_ns", _OPTIONAL_INT64),
            ),
        )
        self._row_fields = [arrow_field(each.name, each.schema) for each in row.fields]
        self._source_fields = [arrow_field(each.name, each.schema) for each in source.fields]
        self._fields = [arrow_field(each.name, each.schema) for each in self.value_schema.fields]

    def records(self, changes: Sequence[Change]) -> tuple[list[Batch], list[Refused]]:
        """Records of changes, in order; changes with a value that does not fit are refused."""
        try:
            return [self.batch(changes)], []
        except BadRecord as error:
            if len(changes) == 1:
                each = changes[0]
                key, before, after = (
                    self._named(each.key, True),
                    self._named(each.before),
                    self._named(each.after),
                )
                return [], [refusal(self.topic, self.name, error, each.op, key, before, after)]
        half = len(changes) // 2
        first, last = self.records(changes[:half]), self.records(changes[half:])
        return first[0] + last[0], first[1] + last[1]

    def refused(self, error: Unreadable, op: str, before: SqlRow | None, after: SqlRow | None) -> Refused:
        """A change whose values, as the database wrote them, cannot all be values of records."""
        row = before if after is None else after
        key = self._named(self.key_of(row), True) if row is not None and self.key_places else None
        return refusal(self.topic, self.name, error, op, key, self._named(before), self._named(after))

    def _named(self, row: SqlRow | None, key: bool = False) -> Mapping[str, Any] | None:
        if row is None:
            return None
        columns = [self.columns[place] for place in self.key_places] if key else self.columns
        return {column.name: value for column, value in zip(columns, row, strict=True)}

    def batch(self, changes: Sequence[Change]) -> Batch:
        """Records of changes, in order. BadRecord where a value does not fit."""
        gone = np.array([not each.op for each in changes], np.bool_)
        now_ns = time.time_ns()
        count = len(changes)
        ops = pa.array([each.op for each in changes], pa.string())
        columns = [
            _structs(self._row_fields, [each.before for each in changes], self.topic),
            _structs(self._row_fields, [each.after for each in changes], self.topic),
            _structs(self._source_fields, [each.source for each in changes], self.topic),
            self._transactions(changes),
            ops,
            *(pa.repeat(pa.scalar(now_ns // unit, pa.int64()), count) for unit in (1_000_000, 1000, 1)),
        ]
        value = pa.StructArray.from_arrays(columns, fields=self._fields, mask=pa.array(gone))
        return Batch(
            self.topic, self._keys(changes), Column(self.value_schema, value), pa.nulls(count, pa.int64())
        )

    def read_rows(
        self, columns: Sequence[pa.Array], count: int, source: SqlRow, first: bool, last: bool
    ) -> Batch:
        """Records of rows that a snapshot has read, columns as the schemas have them. `first`, `last`: the
        batch has the snapshot's."""
        marks = ["true"] * count
        if first:
            marks[0] = "first"
        if last:
            marks[-1] = "last"
        places = {field.name: place for place, field in enumerate(self._source_fields)}
        sources = [
            _repeated(value, field.type, count)
            for field, value in zip(self._source_fields, source, strict=True)
        ]
        sources[places["snapshot"]] = pa.array(marks, pa.string())
        now_ns = time.time_ns()
        made = [
            pa.nulls(count, pa.struct(self._row_fields)),
            _struct(self._row_fields, columns, count),
            _struct(self._source_fields, sources, count),
            pa.nulls(count, arrow_type(TRANSACTION)),
            _repeated("r", pa.string(), count),
            *(_repeated(now_ns // unit, pa.int64(), count) for unit in (1_000_000, 1000, 1)),
        ]
        value = pa.StructArray.from_arrays(made, fields=self._fields)
        key = Column(None, [None] * count)
        if self.key_schema is not None:
            keys = [columns[place] for place in self.key_places]
            key = Column(self.key_schema, _struct(self._key_fields, keys, count))
        return Batch(self.topic, key, Column(self.value_schema, value), pa.nulls(count, pa.int64()))

    def _keys(self, changes: Sequence[Change]) -> Column:
        if self.key_schema is None:
            return Column(None, [None] * len(changes))
        return Column(self.key_schema, _structs(self._key_fields, [each.key for each in changes], self.topic))

    def _transactions(self, changes: Sequence[Change]) -> pa.Array:
        if all(each.transaction is None for each in changes):
            return pa.nulls(len(changes), arrow_type(TRANSACTION))
        fields = [arrow_field(each.name, each.schema) for each in TRANSACTION.fields]
        return _structs(fields, [each.transaction for each in changes], self.topic)

    def key_of(self, row: SqlRow) -> SqlRow | None:
        """The key of a row."""
        return [row[place] for place in self.key_places] if self.key_places else None

    def filled(self, row: SqlRow) -> list[Any]:
        """A row of which the database logged only the key: required columns have the type's zero, as in
        Debezium."""
        return [
            _zero(column.schema) if value is None and not column.schema.optional else value
            for column, value in zip(self.columns, row, strict=True)
        ]


def _zero(schema: Schema) -> Any:
    if schema.name is not None and schema.name.startswith("org.apache.kafka.connect.data."):
        return None
    zeros = {
        Type.STRING: "",
        Type.BYTES: b"",
        Type.BOOLEAN: False,
        Type.ARRAY: [],
        Type.FLOAT32: 0.0,
        Type.FLOAT64: 0.0,
    }
    return None if schema.type in (Type.STRUCT, Type.MAP) else zeros.get(schema.type, 0)


def _structs(fields: Sequence[pa.Field], rows: Sequence[SqlRow | None], topic: str) -> pa.Array:
    """A struct column of rows; None: null. What is the same in all rows (most of `source`) is repeated by
    Arrow."""
    missing = [row is None for row in rows]
    if all(missing):
        return pa.nulls(len(rows), pa.struct(list(fields)))
    nothing = (None,) * len(fields)
    columns = zip(*(nothing if row is None else row for row in rows), strict=True)
    made = []
    for field, values in zip(fields, columns, strict=True):
        try:
            made.append(_column(values, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise BadRecord(
                f"{topic}: a value of column {field.name} does not fit {field.type}: {error}"
            ) from error
    if not made:
        return pa.nulls(len(rows), pa.struct(list(fields)))
    return pa.StructArray.from_arrays(
        made, fields=list(fields), mask=pa.array(missing) if any(missing) else None
    )


def _struct(fields: Sequence[pa.Field], columns: Sequence[pa.Array], count: int) -> pa.Array:
    if not columns:
        return pa.array([{}] * count, pa.struct([]))
    return pa.StructArray.from_arrays(list(columns), fields=list(fields))


def _repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def _column(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    first = values[0]
    simple = not pa.types.is_nested(kind) and not pa.types.is_floating(kind)  # 0.0 equals -0.0
    if simple and first is values[-1] and values.count(first) == len(values):
        return (
            pa.nulls(len(values), kind) if first is None else pa.repeat(pa.scalar(first, kind), len(values))
        )
    return pa.array(values, kind)
