"""A range of a partition as Arrow record batches with the columns of Spark's Kafka connector.

    | key binary | value binary | topic string | partition int32 | offset int64 |
    | timestamp timestamp[us, UTC] | timestampType int32 (0: its producer's, 1: the broker's) |
    | headers list<struct<key string, value binary>> |

No Python object comes about per record: a builder (columns.py; compiled: _columns.c) copies keys and values
into the buffers that become Arrow's. A record batch has at most `rows_max` rows and about `bytes_max` bytes
of records; it may begin and end anywhere in the batches of the log.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator

import pyarrow as pa

from moldau.client import columns
from moldau.client.cluster import Cluster
from moldau.client.errors import CorruptRecords
from moldau.client.fetcher import fetch_range
from moldau.common.core.unreadable import advice
from moldau.common.records.batch import LOG_APPEND_TIME, BatchView

ROWS_MAX = 20_000
BYTES_MAX = 16 * 1024 * 1024
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_COLUMNS = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("timestampType", pa.int32()),
)
_HEADERS = pa.field("headers", pa.list_(_HEADER))


def ARROW_SCHEMA(include_headers: bool) -> pa.Schema:
    """The schema of `record_batches`."""
    return pa.schema([*_COLUMNS, _HEADERS] if include_headers else _COLUMNS)


def record_batches(
    cluster: Cluster,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    read_committed: bool = False,
    include_headers: bool = False,
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """The records of [start, end) of a partition, in order, in non-empty Arrow batches. Errors as
    `fetch_range`.
    """
    batches = fetch_range(cluster, topic, partition, start, end, read_committed=read_committed)
    return decode_batches(
        batches,
        topic,
        partition,
        start,
        end,
        include_headers=include_headers,
        rows_max=rows_max,
        bytes_max=bytes_max,
    )


def decode_batches(
    batches: Iterable[BatchView],
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    include_headers: bool,
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """The records of these batches with offsets in [start, end). CorruptRecords if one is malformed."""
    maker = _RecordBatchMaker(topic, partition, rows_max, include_headers)
    builder = columns.make_columns(include_headers)
    for batch in batches:
        append_time_ms = batch.max_timestamp_ms if batch.attributes & LOG_APPEND_TIME else None
        position = index = 0
        payload = None
        try:
            payload = batch.payload()
            while True:
                rows_before = builder.rows
                position, index = builder.add(
                    payload,
                    position,
                    index,
                    batch.count,
                    batch.base_offset,
                    batch.base_timestamp_ms,
                    append_time_ms,
                    start,
                    end,
                    rows_max,
                    bytes_max,
                )
                maker.rows_of_type(int(append_time_ms is not None), builder.rows - rows_before)
                if index >= batch.count:
                    break
                yield maker.make(builder.take())
        except ValueError as error:
            raise _corrupt(topic, partition, batch, payload, error) from error
    if builder.rows:
        yield maker.make(builder.take())


def _corrupt(
    topic: str, partition: int, batch: BatchView, payload: columns.Readable | None, error: ValueError
) -> CorruptRecords:
    if payload is not None:
        try:
            columns.explain(payload, batch.count)
        except ValueError as reason:
            error = reason
    how = advice(topic, partition, batch.base_offset, batch.next_offset)
    return CorruptRecords(f"{topic}-{partition}, the batch at offset {batch.base_offset}: {error}; {how}")


class _RecordBatchMaker:
    """Wraps buffers in Arrow arrays; columns with the same value in every row are built once."""

    def __init__(self, topic: str, partition: int, rows_max: int, include_headers: bool) -> None:
        self._schema = ARROW_SCHEMA(include_headers)
        self._topic, self._partition = topic.encode(), partition
        self._repeated = [_repeat_text(self._topic, 0), _repeat_int32(partition, 0)]
        self._types = [_repeat_int32(kind, 0) for kind in (0, 1)]
        self._runs: list[tuple[int, int]] = []

    def rows_of_type(self, timestamp_type: int, rows: int) -> None:
        """Count rows by their timestamp type."""
        if rows and self._runs and self._runs[-1][0] == timestamp_type:
            self._runs[-1] = (timestamp_type, self._runs[-1][1] + rows)
        elif rows:
            self._runs.append((timestamp_type, rows))

    def make(self, taken: columns.Taken) -> pa.RecordBatch:
        """Build the record batch of these columns."""
        rows = taken[0]
        _, offsets, timestamps_us, keys, values, headers = taken
        arrays = [
            _binary(pa.binary(), rows, keys),
            _binary(pa.binary(), rows, values),
            *self._constant_columns(rows),
            pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(offsets)], 0),
            pa.Array.from_buffers(_COLUMNS[5].type, rows, [None, pa.py_buffer(timestamps_us)], 0),
            self._timestamp_types(),
        ]
        if headers is not None:
            arrays.append(_header_lists(rows, headers))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _constant_columns(self, rows: int) -> list[pa.Array]:
        if len(self._repeated[0]) < rows:
            self._repeated = [_repeat_text(self._topic, rows), _repeat_int32(self._partition, rows)]
        return [column.slice(0, rows) for column in self._repeated]

    def _timestamp_types(self) -> pa.Array:
        parts = []
        for kind, rows in self._runs:
            if len(self._types[kind]) < rows:
                self._types[kind] = _repeat_int32(kind, rows)
            parts.append(self._types[kind].slice(0, rows))
        self._runs = []
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


# `pyarrow.repeat` would do the same, but imports pandas at its first use: a third of a second for each task.


def _repeat_int32(value: int, rows: int) -> pa.Array:
    buffer = pa.py_buffer(value.to_bytes(4, sys.byteorder, signed=True) * rows)
    return pa.Array.from_buffers(pa.int32(), rows, [None, buffer], 0)


def _repeat_text(text: bytes, rows: int) -> pa.Array:
    offsets = array("i", range(0, len(text) * (rows + 1), len(text)))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text * rows)]
    return pa.Array.from_buffers(pa.string(), rows, buffers, 0)


def _binary(kind: pa.DataType, rows: int, column: tuple[bytes | None, bytes, bytes, int]) -> pa.Array:
    validity, offsets, data, null_count = column
    buffers = [validity and pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, rows, buffers, null_count)


def _header_lists(rows: int, column) -> pa.Array:  # type: ignore[no-untyped-def]
    validity, offsets, null_count, names, values = column
    count = len(names[1]) // 4 - 1
    pairs = pa.StructArray.from_arrays(
        [_binary(pa.string(), count, names), _binary(pa.binary(), count, values)], fields=list(_HEADER)
    )
    buffers = [validity and pa.py_buffer(validity), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(_HEADERS.type, rows, buffers, null_count, children=[pairs])
