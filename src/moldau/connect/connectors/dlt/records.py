"""What a resource of dlt yields, as batches: rows without a schema from dictionaries, columns from Arrow
and pandas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa
from dlt.common import json

from moldau.connect.batch import Batch
from moldau.connect.building import batch_of
from moldau.connect.errors import ConnectError

_ROWS_MAX = 5000


def batches_of(topic: str, data: Any, keys: Sequence[str]) -> Iterator[Batch]:
    """One item of a resource: a row, a list of rows, a table. ConnectError for what is none of these."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif hasattr(data, "__dataframe__") and not isinstance(data, pa.Table):
        data = pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, pa.Table):
        for first in range(0, data.num_rows, _ROWS_MAX):
            yield _columns(topic, data.slice(first, _ROWS_MAX), keys)
        return
    rows = data if isinstance(data, list) else [data]
    for first in range(0, len(rows), _ROWS_MAX):
        yield _rows(topic, rows[first : first + _ROWS_MAX], keys)


def _rows(topic: str, rows: Sequence[Any], keys: Sequence[str]) -> Batch:
    plain = orjson.loads(json.dumpb(rows))  # dlt's: times, decimals, bytes as its destinations have them
    if not all(isinstance(row, dict) for row in plain):
        raise ConnectError(f"the resource for {topic} yields a {type(rows[0]).__name__}, and no record")
    return batch_of(topic, plain, keys=None if not keys else [_key(row, keys) for row in plain])


def _key(row: dict[str, Any], keys: Sequence[str]) -> Any:
    return row.get(keys[0]) if len(keys) == 1 else {key: row.get(key) for key in keys}


def _columns(topic: str, table: pa.Table, keys: Sequence[str]) -> Batch:
    missing = [key for key in keys if key not in table.column_names]
    if missing:
        raise ConnectError(f"the table for {topic} has no column {missing[0]}, which is its key")
    if not keys:
        return batch_of(topic, table)
    if len(keys) == 1:
        return batch_of(topic, table, keys=keys[0])
    return batch_of(topic, table, keys=table.select(list(keys)))
