"""A batch as columns of a table: the fields of its values, and what is wanted of topic, partition, offset,
time.

Records without a schema get the types that Arrow infers from a run; columns that the table has keep its
types. What does
not fit is found row by row, so that one bad record does not take its run with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from moldau.connect.batch import Batch
from moldau.connect.errors import BadRecord, ConnectError
from moldau.connect.schema import Type

METADATA = ("topic", "partition", "offset", "timestamp", "key")
"""What `metadata.columns` may name; the columns' names have an underscore before."""

Report: TypeAlias = Callable[[Batch, int, Exception], None]


def table_rows(
    batch: Batch, metadata: Sequence[str], wanted: pa.Schema | None, report: Report
) -> tuple[pa.Table, list[int]]:
    """The rows of a batch that fit (tombstones do not), and which they are; the others are reported.

    `wanted`: the table's columns; None: there is no table yet.
    """
    rows = [row for row, valid in enumerate(_present(batch)) if valid]
    return _fitting(batch, rows, metadata, wanted, report)


def _present(batch: Batch) -> Sequence[bool]:
    values = batch.value.values
    if isinstance(values, list):
        return [value is not None for value in values]
    present: list[bool] = values.is_valid().to_pylist()
    return present


def _fitting(
    batch: Batch, rows: list[int], metadata: Sequence[str], wanted: pa.Schema | None, report: Report
) -> tuple[pa.Table, list[int]]:
    """By halves: a run with one bad record among a thousand is looked at some twenty times."""
    if not rows:
        return pa.table({}), []
    try:
        return fit(_columns(batch.take(rows), metadata), wanted), rows
    except (BadRecord, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as problem:
        if len(rows) == 1:
            report(batch, rows[0], BadRecord(f"does not fit the table: {problem}", rows[0]))
            return pa.table({}), []
    half = len(rows) // 2
    first, first_rows = _fitting(batch, rows[:half], metadata, wanted, report)
    second, second_rows = _fitting(batch, rows[half:], metadata, wanted, report)
    parts = [part for part in (first, second) if part.num_columns]
    if not parts:
        return pa.table({}), []
    return pa.concat_tables(parts, promote_options="permissive"), first_rows + second_rows


def _columns(batch: Batch, metadata: Sequence[str]) -> pa.Table:
    values = batch.value.values
    if isinstance(values, list):
        if not all(isinstance(value, dict) for value in values):
            raise BadRecord("the value is no record: a table needs fields (HoistField makes one)")
        table = pa.Table.from_pylist(values)
    elif batch.value.schema is not None and batch.value.schema.type is Type.STRUCT:
        table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(values)])
    else:
        raise ConnectError(
            f"values of topic {batch.topic} are no records: a table needs fields (HoistField makes one)"
        )
    for name in metadata:
        table = table.append_column(f"_{name}", _metadata(batch, name))
    return table


def _metadata(batch: Batch, name: str) -> pa.Array:
    count = len(batch)
    match name:
        case "topic":
            return pa.array([batch.origin.topic if batch.origin else batch.topic] * count, pa.string())
        case "partition":
            return pa.array([batch.origin.partition if batch.origin else None] * count, pa.int32())
        case "offset":
            return batch.offsets if batch.offsets is not None else pa.nulls(count, pa.int64())
        case "timestamp":
            return batch.timestamps_ms.cast(pa.timestamp("ms", tz="UTC"))
        case "key":
            return _key(batch)
    raise AssertionError(name)


def _key(batch: Batch) -> pa.Array:
    values = batch.key.values
    if not isinstance(values, list):
        return values
    if all(value is None for value in values):
        return pa.nulls(len(values), pa.string())
    return pa.array(values)


def fit(table: pa.Table, wanted: pa.Schema | None) -> pa.Table:
    """These columns with the types of the table's, and as they are where the table has none.

    Columns of nulls alone have no type: they are left out. ArrowInvalid and its kin; BadRecord.
    """
    known = {} if wanted is None else {field.name: field for field in wanted}
    names, columns = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        field = known.get(name)
        if field is not None:
            column = _cast(name, column, field.type)
        elif pa.types.is_null(column.type):
            continue
        names.append(name)
        columns.append(column)
    if not names and table.num_rows:
        raise BadRecord("no field of the value has anything to store")
    return pa.table(columns, names=names)


def _cast(name: str, column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if column.type == wanted:
        return column
    try:
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as problem:
        raise BadRecord(f"field {name} is {column.type}, the table's column {wanted}: {problem}") from None
