"""In a task: turns rows, as Arrow batches, into encoded batches for partitions of topics.

Spark passes some thousands of rows at a time. They are collected to a few megabytes: larger batches compress
better, and each costs its reader and the broker about the same whatever its size.

A row's partition is that of the column `partition`; else its key's; else, without a key, that of its run
(moldau.client.partitioner). Where runs start depends on the task and the micro-batch, so that small ones do
not all go to the same partition, and a repeated attempt writes the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.cluster import Cluster
from moldau.client.encoder import encode_batches
from moldau.client.partitioner import partitions_of_keys, runs_without_keys
from moldau.client.sealing import EncodedBatch
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyspark_moldau.errors import SinkError
from pyspark_moldau.schema_options import SchemaChoice
from pyspark_moldau.sink_options import SinkOptions

COLLECTED_BYTES = 8 * 1024 * 1024
COUNTS_KEPT_SECONDS = 60.0


class Topics:
    """Partition counts of topics, requested at most once a minute."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._counts: dict[str, tuple[int, float]] = {}

    def partition_count(self, topic: str) -> int:
        """The partition count of a topic, which is created if the broker auto-creates topics."""
        count, known_at = self._counts.get(topic, (0, 0.0))
        now = time.monotonic()
        if not count or now - known_at > COUNTS_KEPT_SECONDS:
            if not count:
                self._may_be_created(topic)
            count = self._cluster.partition_counts([topic])[topic]
            self._counts[topic] = (count, now)
        return count

    def _may_be_created(self, topic: str) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
        self._cluster.persist(f"look up {topic}", lambda: self._cluster.any_broker().ask(request))


def encoded_rows(
    rows: Iterator[pa.RecordBatch], options: SinkOptions, topics: Topics, first_run: int
) -> Iterator[list[EncodedBatch]]:
    """The rows as encoded batches, some megabytes at a time."""
    for table in _collected(rows):
        columns = {name.lower(): table.column(index) for index, name in enumerate(table.schema.names)}
        batches: list[EncodedBatch] = []
        for topic, part in _by_topic(columns, options, table.num_rows):
            batches += _encode(topic, part, options, topics, first_run)
        yield batches
        first_run += 1


def _collected(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= COLLECTED_BYTES:
            yield _one(waiting)
            waiting, size = [], 0
    if waiting:
        yield _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _by_topic(
    columns: dict[str, Any], options: SinkOptions, row_count: int
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if options.topic is not None:
        yield options.topic, columns
        return
    names = columns["topic"]
    if names.null_count:
        raise SinkError(
            f"{names.null_count} of {row_count} rows have null in the column topic; give the option topic, "
            "or filter them out"
        )
    distinct = pc.unique(names).to_pylist()
    for name in distinct:
        if len(distinct) == 1:
            yield name, columns
        else:
            mask = pc.equal(names, name)
            yield name, {column: values.filter(mask) for column, values in columns.items()}


def _encode(
    topic: str, columns: Mapping[str, Any], options: SinkOptions, topics: Topics, first_run: int
) -> list[EncodedBatch]:
    values = _binary(_coded(columns["value"], options.formats.value))
    keys = pa.nulls(len(values), pa.binary())
    if "key" in columns:
        keys = _binary(_coded(columns["key"], options.formats.key))
    count = topics.partition_count(topic)
    headers = columns.get("headers")
    if headers is not None:
        _check_headers(headers)
    return encode_batches(
        topic,
        _partitions(topic, keys, values, columns.get("partition"), count, options, first_run),
        keys,
        values,
        headers,
        timestamp_ms=time.time_ns() // 1_000_000,
        batch_bytes=options.batch_bytes,
        compression=options.compression,
        compression_level=options.compression_level,
    )


def _coded(column: Any, choice: SchemaChoice | None) -> Any:
    if choice is None:
        return column
    from pyspark_moldau.encoding import encoded_column

    return encoded_column(column, choice)


def _partitions(
    topic: str, keys: Any, values: Any, wanted: Any, count: int, options: SinkOptions, first_run: int
) -> Any:
    rows = len(values)
    has_key = np.asarray(keys.is_valid())
    if has_key.all() and rows:
        partitions = _of_keys(keys, count)
    else:
        sizes = np.asarray(pc.fill_null(pc.binary_length(values), 0), dtype=np.int64)
        partitions = runs_without_keys(sizes, count, options.batch_bytes, first_run)
        if has_key.any():
            partitions[has_key] = _of_keys(keys.filter(pa.array(has_key)), count)
    if wanted is None or wanted.null_count == rows:
        return partitions
    named = np.asarray(pc.fill_null(wanted, -1), dtype=np.int64)
    is_named = ~np.asarray(wanted.is_null())
    wrong = is_named & ((named < 0) | (named >= count))
    if wrong.any():
        raise SinkError(
            f"a row names partition {named[wrong][0]} of {topic}, which has partitions 0 to {count - 1}"
        )
    return np.where(is_named, named, partitions).astype(np.int32)


def _of_keys(keys: Any, count: int) -> Any:
    offsets = np.frombuffer(keys.buffers()[1], dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
    data = keys.buffers()[2]
    octets = np.frombuffer(data if data is not None else b"", dtype=np.uint8)
    return partitions_of_keys(octets, starts, lengths, count)


def _binary(column: Any) -> Any:
    """A column of strings or bytes as Arrow binary with 32-bit offsets, mostly without a copy."""
    if pa.types.is_binary(column.type):
        return column
    if pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    return column.cast(pa.binary())


def _check_headers(headers: Any) -> None:
    flat = headers.flatten()
    if flat.null_count or flat.field("key").null_count:
        raise SinkError("a header is null, or has no name (key): Kafka's records cannot carry that")
