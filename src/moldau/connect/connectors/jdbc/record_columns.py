"""A batch as columns of a table: fields of values, columns of the primary key, and which rows are tombstones.

    pk.mode=none           no key
    pk.mode=kafka          topic, partition, offset of the record
    pk.mode=record_key     the key, or its fields; a tombstone has only these
    pk.mode=record_value   fields of the value

Records without a schema get one that fits them all. What does not fit is found by halves and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from moldau.connect.batch import Batch, Column
from moldau.connect.connectors.jdbc.sql_types import meant
from moldau.connect.errors import BadRecord, BadRecords, ConnectError
from moldau.connect.inference import infer_schema
from moldau.connect.schema import Schema, Type
from moldau.connect.structs import fields_of
from moldau.connect.values import column_of

Report: TypeAlias = Callable[[Batch, int, Exception], None]
KAFKA_COLUMNS = ("__connect_topic", "__connect_partition", "__connect_offset")


@dataclass(frozen=True, slots=True)
class KeyMode:
    """`pk.mode` and `pk.fields`; `deletes`: a tombstone deletes the row of its key."""

    mode: str
    fields: Sequence[str]
    deletes: bool
    whitelist: Sequence[str]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows for a table. `places`: of which rows of the batch; `deleted`: those of a key alone."""

    columns: Mapping[str, pa.Array]
    schemas: Mapping[str, Schema]
    keys: Sequence[str]
    batch: Batch
    places: np.ndarray[Any, Any]
    deleted: np.ndarray[Any, Any] | None

    def __len__(self) -> int:
        return len(self.places)

    def cut(self, first: int, end: int) -> Rows:
        """Some of them; columns are not copied."""
        return replace(
            self,
            columns={name: each.slice(first, end - first) for name, each in self.columns.items()},
            places=self.places[first:end],
            deleted=None if self.deleted is None else self.deleted[first:end],
        )

    @property
    def size_bytes(self) -> int:
        """Of the columns, as Arrow holds them."""
        return sum(each.nbytes for each in self.columns.values())


def rows_of(batch: Batch, key: KeyMode, report: Report) -> list[Rows]:
    """The rows of a batch in order, usually as one; rows that do not fit are reported, and left out."""
    gone = _nulls(batch.value)
    kept = np.arange(len(batch))
    if gone.any() and not (key.deletes and key.mode == "record_key"):
        for row in np.flatnonzero(gone):
            report(batch, int(row), BadRecord("the value is null: set delete.enabled=true (with "
                   "pk.mode=record_key), or leave tombstones out with a predicate", int(row)))  # fmt: skip
        kept = np.flatnonzero(~gone)
        gone = gone[kept]
    return _fitting(batch, kept, gone, key, report)


def _nulls(column: Column) -> np.ndarray[Any, Any]:
    values = column.values
    if isinstance(values, list):
        return np.fromiter((value is None for value in values), np.bool_, len(values))
    made: np.ndarray[Any, Any] = values.is_null().to_numpy(zero_copy_only=False)
    return made


def _fitting(
    batch: Batch, places: np.ndarray[Any, Any], gone: np.ndarray[Any, Any], key: KeyMode, report: Report
) -> list[Rows]:
    if not len(places):
        return []
    part = batch if len(places) == len(batch) else batch.take(places.tolist())
    try:
        return [_rows(part, batch, places, gone, key)]
    except BadRecords as problem:
        bad = dict(problem.rows)
        for row, reason in bad.items():
            report(batch, int(places[row]), BadRecord(reason, int(places[row])))
        left = np.array([row for row in range(len(places)) if row not in bad], np.int64)
        return _fitting(batch, places[left], gone[left], key, report)
    except ConnectError as problem:
        if len(places) == 1:
            place = int(places[0])
            report(
                batch, place, problem if isinstance(problem, BadRecord) else BadRecord(str(problem), place)
            )
            return []
    half = len(places) // 2
    first = _fitting(batch, places[:half], gone[:half], key, report)
    return first + _fitting(batch, places[half:], gone[half:], key, report)


def _rows(
    part: Batch, batch: Batch, places: np.ndarray[Any, Any], gone: np.ndarray[Any, Any], key: KeyMode
) -> Rows:
    found = _fields(part.value, "value", part.topic)
    keys = _key_columns(part, key, found)
    wanted = key.whitelist
    columns = {name: each for name, each in found.items() if not wanted or name in wanted}
    columns = {**{name: each for name, each in columns.items() if name not in keys}}
    columns = {**keys, **columns}
    _complete_keys(keys)
    if not columns:
        raise BadRecord("no field of the record is left to be stored (fields.whitelist, pk.mode)")
    return Rows(
        {name: meant(each.schema, each.values) for name, each in columns.items()},
        {name: each.schema for name, each in columns.items() if each.schema is not None},
        list(keys),
        batch,
        places,
        gone if gone.any() else None,
    )


def _fields(column: Column, what: str, topic: str) -> dict[str, Column]:
    """The fields of records, by name."""
    values, schema = column.values, column.schema
    if isinstance(values, list):
        given = [value for value in values if value is not None]
        if not given:
            return {}
        reason = f"the {what} is no record: a table needs fields (HoistField makes one)"
        wrong = [
            (row, reason)
            for row, value in enumerate(values)
            if value is not None and not isinstance(value, dict)
        ]
        if wrong:
            raise BadRecords(wrong)
        schema = infer_schema(given)
        values = column_of(schema.as_optional(), values).values
    if schema is None or schema.type is not Type.STRUCT:
        if _nulls(column).all():
            return {}
        raise BadRecord(
            f"the {what}s of topic {topic} are no records: a table needs fields (HoistField makes one)"
        )
    made = fields_of(values)
    return {each.name: Column(each.schema, made[index]) for index, each in enumerate(schema.fields)}


def _key_columns(part: Batch, key: KeyMode, values: Mapping[str, Column]) -> dict[str, Column]:
    if key.mode == "none":
        return {}
    if key.mode == "kafka":
        return _kafka_columns(part, key.fields or KAFKA_COLUMNS)
    if key.mode == "record_value":
        return _named(values, key.fields or list(values), "value")
    schema, found = part.key.schema, part.key.values
    is_record = schema.type is Type.STRUCT if schema else any(isinstance(each, dict) for each in found)
    if is_record:
        fields = _fields(part.key, "key", part.topic)
        return _named(fields, key.fields or list(fields), "key")
    if len(key.fields) != 1:
        raise BadRecord("the key is one value: pk.fields must name the one column for it")
    if isinstance(found, list):
        if all(each is None for each in found):
            raise BadRecords(
                [(row, "the record has no key, and pk.mode=record_key") for row in range(len(part))]
            )
        made = column_of(infer_schema(found).as_optional(), found)
        return {key.fields[0]: made}
    return {key.fields[0]: part.key}


def _kafka_columns(part: Batch, names: Sequence[str]) -> dict[str, Column]:
    origin, offsets = part.origin, part.offsets
    assert origin is not None  # a sink's batches have both
    assert offsets is not None
    count = len(part)
    made = (
        Column(Schema(Type.STRING), pa.array([origin.topic] * count, pa.string())),
        Column(Schema(Type.INT32), pa.array([origin.partition] * count, pa.int32())),
        Column(Schema(Type.INT64), offsets),
    )
    return dict(zip(names, made, strict=True))


def _named(fields: Mapping[str, Column], names: Sequence[str], what: str) -> dict[str, Column]:
    for name in names:
        if name not in fields:
            raise BadRecord(f"the {what} has no field {name}, which pk.fields names")
    return {name: fields[name] for name in names}


def _complete_keys(keys: Mapping[str, Column]) -> None:
    for name, column in keys.items():
        nulls = np.flatnonzero(_nulls(column))
        if len(nulls):
            raise BadRecords([(int(row), f"{name} is null, and is part of the primary key") for row in nulls])
