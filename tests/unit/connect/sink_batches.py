"""Batches as a worker gives them to a sink, without a worker."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from moldau.connect import Batch, Column, Sink, SinkContext, Source, TopicPartition
from moldau.connect.settings import REQUIRED

ORIGIN = TopicPartition("orders", 0)


def settings_of(kind: type[Sink] | type[Source], given: Mapping[str, Any]) -> dict[str, Any]:
    """Given settings, and the defaults of the others."""
    rows = {row.name: row.default for row in kind.settings if row.default is not REQUIRED}
    return {**rows, **given}


def sink_context(bad: list[str] | None, waited: list[float] | None = None) -> SinkContext:
    """Bad records are collected as `row: message`, or with None raised, as where `errors.tolerance` is none.

    Seconds to wait are kept in `waited`, and not waited.
    """

    def report(batch: Batch, row: int, problem: Exception) -> None:
        if bad is None:
            raise problem
        bad.append(f"{row}: {problem}")

    def wait(seconds: float) -> bool:
        if waited is not None and seconds:
            waited.append(seconds)
        return False

    return SinkContext("c", 0, lambda: False, wait, report)


def _batch(key: Column, value: Column, first: int, origin: TopicPartition) -> Batch:
    count = len(value)
    times = pa.array([1000] * count, pa.int64())
    offsets = pa.array(range(first, first + count), pa.int64())
    return Batch(origin.topic, key, value, times, origin=origin, offsets=offsets)


def json_batch(rows: Sequence[Any], first: int = 0, origin: TopicPartition = ORIGIN) -> Batch:
    """Values without a schema, no keys."""
    return _batch(Column(None, [None] * len(rows)), Column(None, list(rows)), first, origin)


def columns_batch(values: pa.Array, first: int = 0, origin: TopicPartition = ORIGIN) -> Batch:
    """Values with a schema of INT32 field `id`."""
    from moldau.connect import Field, Schema, Type

    schema = Schema(Type.STRUCT, fields=(Field("id", Schema(Type.INT32)),))
    return _batch(Column(None, [None] * len(values)), Column(schema, values), first, origin)


def tombstones(keys: Sequence[Any], first: int = 0, origin: TopicPartition = ORIGIN) -> Batch:
    """Null values under these keys."""
    return _batch(Column(None, list(keys)), Column(None, [None] * len(keys)), first, origin)


def keyed_batch(rows: Mapping[Any, Any], first: int = 0, origin: TopicPartition = ORIGIN) -> Batch:
    """Values by their keys, without a schema."""
    return _batch(Column(None, list(rows)), Column(None, list(rows.values())), first, origin)
