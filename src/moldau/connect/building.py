"""Batches made of Python values or Arrow tables, read as Python values, and put together.

batch_of("orders", [{"id": 1}])                         without schema: JSON objects
batch_of("orders", rows, schema=infer_schema(rows))     with a schema
batch_of("orders", table, keys="id")                    an Arrow table; the key is a field of the value
for row in rows(batch): row.key, row.value, row.timestamp_ms, row.headers, row.offset
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.arrow_types import schema_of, suited
from moldau.connect.batch import Batch, Column, Header, Values
from moldau.connect.errors import BadRecords, ConnectError
from moldau.connect.schema import Schema, Type
from moldau.connect.structs import fields_of
from moldau.connect.values import column_of, python_values

Given: TypeAlias = Sequence[Any] | pa.Array | pa.ChunkedArray | pa.Table | pa.RecordBatch


class Row(NamedTuple):
    """One record in Python."""

    key: Any
    value: Any
    timestamp_ms: int | None
    headers: tuple[Header, ...]
    offset: int | None


def rows(batch: Batch) -> Iterator[Row]:
    """The records of a batch."""
    offsets = repeat(None) if batch.offsets is None else batch.offsets.to_pylist()
    return map(
        Row,
        python_values(batch.key),
        python_values(batch.value),
        batch.timestamps_ms.to_pylist(),
        repeat(()) if batch.headers is None else batch.headers,
        offsets,
    )


def batch_of(
    topic: str,
    values: Given,
    schema: Schema | None = None,
    keys: Given | str | None = None,
    key_schema: Schema | None = None,
    *,
    timestamps_ms: Sequence[int | None] | pa.Array | None = None,
    headers: Sequence[Sequence[Header]] | None = None,
    partition: int | None = None,
) -> Batch:
    """A source's batch. BadRecords, ConnectError.

    Python values without a schema stay as they are; Arrow's have the schema of their type if none is given.
    `keys`: a value a record; or the name of a field of the values (its schema is the key's).
    """
    value = _column(values, schema)
    count = len(value)
    if isinstance(keys, str):
        key = field_column(value, keys)
    else:
        key = Column(None, [None] * count) if keys is None else _column(keys, key_schema)
    if timestamps_ms is None:
        timestamps_ms = pa.nulls(count, pa.int64())
    times = timestamps_ms if isinstance(timestamps_ms, pa.Array) else pa.array(timestamps_ms, pa.int64())
    made = None if headers is None else tuple(map(tuple, headers))
    lengths = {len(key), len(times), *(() if made is None else (len(made),))}
    if lengths != {count}:
        raise ConnectError(f"{count} values need as many keys, timestamps and headers: there are {lengths}")
    return Batch(topic, key, value, times, made, partition)


def _column(given: Given, schema: Schema | None) -> Column:
    if isinstance(given, pa.Table):
        given = given.to_struct_array()
    elif isinstance(given, pa.RecordBatch):
        given = pa.StructArray.from_arrays(given.columns, fields=list(given.schema))
    if isinstance(given, (pa.Array, pa.ChunkedArray)):
        schema = schema_of(given.type, False) if schema is None else schema
        return Column(schema, suited(given, schema))
    if schema is None:
        return Column(None, given if isinstance(given, list) else list(given))
    if schema.type is Type.STRUCT:
        known = {each.name for each in schema.fields}
        for row, value in enumerate(given):
            if isinstance(value, dict) and not value.keys() <= known:
                unknown = ", ".join(sorted(map(str, value.keys() - known)))
                raise BadRecords([(row, f"the schema has no field {unknown}")])
    return column_of(schema, given)


def field_column(column: Column, name: str) -> Column:
    """A field of the values as a column of its own. ConnectError if there is no such."""
    schema = column.schema
    if schema is None:
        return Column(None, [None if value is None else value.get(name) for value in python_values(column)])
    for index, each in enumerate(schema.fields):
        if each.name == name:
            return Column(each.schema, fields_of(column.values)[index])
    raise ConnectError(f"the values have no field {name!r}: {', '.join(f.name for f in schema.fields)}")


def joined(batches: Sequence[Batch]) -> Sequence[Batch]:
    """The same records in as few batches as can be: neighbours of one kind become one."""
    made: list[list[Batch]] = []
    for each in batches:
        if not len(each):
            continue
        if made and kind_of(made[-1][-1]) == kind_of(each):
            made[-1].append(each)
        else:
            made.append([each])
    return [concat(each) for each in made]


def kind_of(batch: Batch) -> tuple[object, ...]:
    """What batches have in common that may be put together."""
    return (
        batch.topic,
        batch.key.schema,
        batch.value.schema,
        isinstance(batch.key.values, list),
        isinstance(batch.value.values, list),
        batch.partition,
        batch.origin,
        batch.offsets is None,
        batch.rows is None,
    )


def concat(batches: Sequence[Batch]) -> Batch:
    """One batch of several of one kind (`kind_of`), one behind the other."""
    first = batches[0]
    if len(batches) == 1:
        return first
    headers = None
    if any(each.headers is not None for each in batches):
        headers = tuple(chain.from_iterable(each.headers or ((),) * len(each) for each in batches))
    return replace(
        first,
        key=_concat_columns([each.key for each in batches]),
        value=_concat_columns([each.value for each in batches]),
        timestamps_ms=pa.concat_arrays([each.timestamps_ms for each in batches]),
        headers=headers,
        offsets=None if first.offsets is None else pa.concat_arrays([each.offsets for each in batches]),
        rows=None if first.rows is None else pa.concat_arrays([each.rows for each in batches]),
    )


def _concat_columns(columns: Sequence[Column]) -> Column:
    if isinstance(columns[0].values, list):
        return Column(columns[0].schema, list(chain.from_iterable(each.values for each in columns)))
    return Column(columns[0].schema, pa.concat_arrays([each.values for each in columns]))


def is_null(values: Values) -> Sequence[bool]:
    """Which rows are null."""
    if isinstance(values, list):
        return [each is None for each in values]
    found: Sequence[bool] = pc.is_null(values).to_pylist()
    return found
