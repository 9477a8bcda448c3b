"""Columns to record batches: Arrow arrays in, the bytes of Kafka's batches out, no Python object a record.

A record is a concatenation of pieces (records/record.py draws it). Each piece becomes a column of its own,
and one call of Arrow's `binary_join_element_wise` joins them row by row into one buffer:

    length | 0 0 | offset delta | key length | key | value length | value | headers
             attributes, timestamp delta: all records of a batch carry the time at which they were encoded

The numbers are varints; as columns they are taken out of a table of the numbers' encodings. Before that,
rows are sorted by partition (stably: the order within a partition stays) and cut into batches of about
`batch_bytes`. A batch's records then lie one after the other in the joined buffer: a slice of it is the
batch's body.

A body comes without its header (sealing.py): batches may be encoded (and compressed) by one process and sent
by another.

Not here: which partition (partitioner.py), and sending (producer.py).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.sealing import EncodedBatch
from moldau.common.records.compression import CODEC_NUMBERS, NONE, compress
from moldau.common.records.record import encode_varint

_TABLE_SIZE = 1 << 14
_FIXED_BYTES = 8
"""What a record has around key and value, about: for cutting batches."""

Integers64 = npt.NDArray[np.int64]


def encode_batches(
    topic: str,
    partitions: npt.NDArray[np.int32],
    keys: Any,
    values: Any,
    headers: Any,
    *,
    timestamp_ms: int,
    batch_bytes: int,
    compression: str = "none",
    compression_level: int | None = None,
) -> list[EncodedBatch]:
    """The batches of rows that go to these partitions of a topic.

    `keys` and `values` are pyarrow arrays of type binary; `headers` is None or an array of
    list<struct<key: string, value: binary>>. No batch is larger than twice `batch_bytes`, unless a single
    record is.
    """
    if not len(partitions):
        return []
    if (partitions[1:] < partitions[:-1]).any():
        narrow = partitions.astype(np.int16) if int(partitions.max()) < 2**15 else partitions
        order = np.argsort(narrow, kind="stable")  # a radix sort, for 16 bits
        partitions = partitions[order]
        indices = pa.array(order)
        keys, values = keys.take(indices), values.take(indices)
        headers = None if headers is None else headers.take(indices)
    key_lengths, value_lengths = _lengths(keys), _lengths(values)
    header_blobs = None if headers is None else _header_blobs(headers)
    header_lengths: Integers64 | int = 1 if header_blobs is None else _lengths(header_blobs)
    sizes = _present(key_lengths) + _present(value_lengths) + header_lengths + _FIXED_BYTES
    starts = _batch_starts(partitions, sizes, batch_bytes)
    ends = np.append(starts[1:], len(partitions))
    deltas = np.arange(len(partitions)) - np.repeat(starts, ends - starts)
    joined = _join_records(keys, key_lengths, values, value_lengths, header_blobs, header_lengths, deltas)
    positions = _offsets(joined)
    data = memoryview(joined.buffers()[2])
    codec = CODEC_NUMBERS[compression]
    batches = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        body: Any = data[positions[start] : positions[end]]
        body = bytes(body) if codec == NONE else compress(codec, body, compression_level)
        batches.append(EncodedBatch(topic, int(partitions[start]), end - start, codec, timestamp_ms, body))
    return batches


def _batch_starts(partitions: npt.NDArray[np.int32], sizes: Integers64, batch_bytes: int) -> Integers64:
    """The rows at which batches start: at each partition, at about `batch_bytes`, and around each
    larger record.
    """
    is_start = np.ones(len(partitions), dtype=bool)
    is_start[1:] = partitions[1:] != partitions[:-1]
    before = np.cumsum(sizes) - sizes
    firsts = np.flatnonzero(is_start)
    within = before - np.repeat(before[firsts], np.diff(np.append(firsts, len(partitions))))
    bucket = within // batch_bytes
    is_start[1:] |= bucket[1:] != bucket[:-1]
    large = np.flatnonzero(sizes > batch_bytes)
    if len(large):
        is_start[large] = True
        is_start[large[large + 1 < len(sizes)] + 1] = True
    return np.flatnonzero(is_start)


def _join_records(
    keys: Any,
    key_lengths: Integers64,
    values: Any,
    value_lengths: Integers64,
    header_blobs: Any,
    header_lengths: Integers64 | int,
    deltas: Integers64,
) -> Any:
    lengths = (
        2
        + _varint_lengths(deltas)
        + _varint_lengths(key_lengths)
        + _present(key_lengths)
        + _varint_lengths(value_lengths)
        + _present(value_lengths)
        + header_lengths
    )
    return pc.binary_join_element_wise(
        _varints(lengths),
        pa.scalar(b"\0\0", pa.binary()),
        _varints(deltas),
        _varints(key_lengths),
        keys,
        _varints(value_lengths),
        values,
        pa.scalar(b"\0", pa.binary()) if header_blobs is None else header_blobs,
        pa.scalar(b"", pa.binary()),
        null_handling="replace",
        null_replacement="",
    )


def _header_blobs(headers: Any) -> Any:
    """Each row's encoded headers with their count, the end of a record."""
    counts = np.asarray(pc.fill_null(pc.list_value_length(headers), 0), dtype=np.int64)
    flat = headers.flatten()
    names, values = flat.field("key").cast(pa.binary()), flat.field("value").cast(pa.binary())
    each = pc.binary_join_element_wise(
        _varints(_lengths(names)),
        names,
        _varints(_lengths(values)),
        values,
        pa.scalar(b"", pa.binary()),
        null_handling="replace",
        null_replacement="",
    )
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), each)
    return pc.binary_join_element_wise(
        _varints(counts), pc.binary_join(lists, b""), pa.scalar(b"", pa.binary())
    )


def _offsets(array: Any) -> npt.NDArray[np.int32]:
    return np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]


def _lengths(array: Any) -> Integers64:
    """The length of each value in bytes, -1 for null."""
    offsets = _offsets(array)
    lengths = np.diff(offsets).astype(np.int64)
    if array.null_count:
        lengths[np.asarray(array.is_null())] = -1
    return lengths


def _present(lengths: Integers64) -> Integers64:
    # A null takes no room beyond its length.
    present: Integers64 = np.maximum(lengths, 0)
    return present


def _varint_lengths(numbers: Integers64) -> Integers64:
    # Zigzag doubles what is not negative; each byte carries seven bits.
    sizes = np.ones(len(numbers), dtype=np.int64)
    for bits in (6, 13, 20, 27):
        sizes += numbers >= (1 << bits)
    return sizes


def _encoded(number: int) -> bytes:
    out = bytearray()
    encode_varint(number, out)
    return bytes(out)


@cache
def _table() -> Any:
    # Not made on import: `pa.array` loads pandas at its first use, and not everyone needs that.
    return pa.array([_encoded(number) for number in range(-1, _TABLE_SIZE)], pa.binary())


def _varints(numbers: Integers64) -> Any:
    """The numbers (-1 or more) as varints."""
    if not len(numbers) or int(numbers.max()) < _TABLE_SIZE:
        return _table().take(pa.array(numbers + 1))
    distinct, inverse = np.unique(numbers, return_inverse=True)
    table = pa.array([_encoded(number) for number in distinct.tolist()], pa.binary())
    return table.take(pa.array(inverse))
