"""In a task: record batches with bytes -> record batches with the columns of a schema.

    key binary, value binary, topic ...   ->   key, value struct<...>, topic ...
                                               [undecodedKey, undecodedValue, undecodedReason]

A record is bad if its key or its value cannot be decoded; then both are null, and the bytes of both are in
the columns of the undecoded, where those are wanted. A tombstone (null value) is not bad.

Decoders are kept by the process: each has a program for every writer's schema that it has seen.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from moldau.schemas.columns import Decoder, NoColumns, spark_types
from moldau.schemas.wire import WireError, header_name, unpack_record
from pyspark_moldau.errors import OptionError, UndecodableError
from pyspark_moldau.registries import SchemasById
from pyspark_moldau.schema_options import DROP, FAIL, KEY, RecordFormats, SchemaChoice

UNDECODED = (
    pa.field("undecodedKey", pa.binary()),
    pa.field("undecodedValue", pa.binary()),
    pa.field("undecodedReason", pa.string()),
)
DECODERS_MAX = 16


class _Side(NamedTuple):
    """A key's or a value's decoder, and the type of its column."""

    decoder: Decoder
    column: Any


_decoders: dict[object, _Side] = {}


def column_type(choice: SchemaChoice) -> StructType:
    """The type of the column of keys or values. OptionError if Spark can have no such column."""
    from pyspark.sql.pandas.types import from_arrow_schema

    assert choice.pinned is not None
    try:
        columns = spark_types(choice.pinned.parsed)
    except NoColumns as failure:
        where = choice.pinned.subject or f"id {choice.pinned.schema_id}"
        raise OptionError(f"{choice.side}.format: the schema of {where} cannot be read: {failure}") from None
    nullable = all_nullable(from_arrow_schema(columns))
    assert isinstance(nullable, StructType)
    return nullable


def all_nullable(kind: DataType) -> DataType:
    """The same type with everything in it nullable: a record that cannot be decoded is null."""
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, all_nullable(each.dataType)) for each in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(all_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(all_nullable(kind.keyType), all_nullable(kind.valueType))
    return kind


def decoded(
    batches: Iterable[pa.RecordBatch], formats: RecordFormats, *, keep_headers: bool
) -> Iterator[pa.RecordBatch]:
    """The record batches with decoded keys and values; they come with headers, which are kept or not.
    UndecodableError where bad records are to fail.
    """
    sides = [(each.side, _side(each, formats)) for each in formats.choices]
    for batch in batches:
        made = _decoded(batch, sides, formats, keep_headers)
        if made.num_rows:
            yield made


def _side(choice: SchemaChoice, formats: RecordFormats) -> _Side:
    from pyspark.sql.pandas.types import to_arrow_type

    pinned = choice.pinned
    assert pinned is not None
    key = (pinned, tuple(sorted(formats.registry.items())))
    known = _decoders.get(key)
    if known is None or known.decoder.problems:  # what was unknown before may be registered by now
        if len(_decoders) >= DECODERS_MAX:
            _decoders.clear()
        schemas = SchemasById(formats.registry)
        for each in (pinned, *pinned.others):
            schemas.add(each.schema_id, each)
        column = to_arrow_type(column_type(choice), timezone="UTC")
        _decoders[key] = _Side(Decoder(pinned.parsed, schemas, schemas.by_guid), column)
    return _decoders[key]


def _decoded(
    batch: pa.RecordBatch, sides: list[tuple[str, _Side]], formats: RecordFormats, keep_headers: bool
) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        name: batch.column(name) for name in batch.schema.names if keep_headers or name != "headers"
    }
    bad_sides: dict[str, Any] = {}
    for name, side in sides:
        heads = header_values(batch.column("headers"), header_name(name == KEY))
        rows, bad_sides[name] = side.decoder.decode(columns[name], heads)
        columns[name] = rows if rows.type == side.column else rows.cast(side.column)
    bad = functools.reduce(pc.or_, bad_sides.values())
    some_bad = bool(pc.any(bad).as_py())
    if formats.include_undecoded:
        columns |= _undecoded(batch, sides, bad_sides, bad if some_bad else None)
    if some_bad:
        if formats.bad_records == FAIL and not formats.include_undecoded:
            raise UndecodableError(_complaint(batch, sides, bad_sides, pc.index(bad, True).as_py()))
        for name, side in sides if len(sides) > 1 else ():  # a side's own bad records are null already
            columns[name] = pc.if_else(bad, pa.scalar(None, side.column), columns[name])
    made = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    if some_bad and formats.bad_records == DROP and not formats.include_undecoded:
        made = made.filter(pc.invert(bad))
    return made


def header_values(headers: Any, name: str) -> Any:
    """For each record the value of its first header of this name, or null; None if no record has one."""
    if headers.null_count == len(headers):
        return None
    flat = headers.flatten()
    wanted = pc.and_kleene(pc.equal(flat.field("key"), name), flat.field("value").is_valid())
    rows = pc.list_parent_indices(headers).filter(wanted).to_pylist()
    if not rows:
        return None
    found: list[bytes | None] = [None] * len(headers)
    for row, value in zip(
        reversed(rows), reversed(flat.field("value").filter(wanted).to_pylist()), strict=True
    ):
        found[row] = value
    return pa.array(found, pa.binary())


def _undecoded(
    batch: pa.RecordBatch, sides: list[tuple[str, _Side]], bad_sides: Mapping[str, Any], bad: Any
) -> dict[str, Any]:
    if bad is None:
        return {each.name: pa.nulls(batch.num_rows, each.type) for each in UNDECODED}
    reasons = [
        _reason(batch, sides, bad_sides, index) if one else None for index, one in enumerate(bad.to_pylist())
    ]
    originals = (batch.column("key"), batch.column("value"), pa.array(reasons, pa.string()))
    return {
        field.name: pc.if_else(bad, original, pa.scalar(None, field.type))
        for field, original in zip(UNDECODED, originals, strict=True)
    }


def _complaint(
    batch: pa.RecordBatch, sides: list[tuple[str, _Side]], bad_sides: Mapping[str, Any], index: int
) -> str:
    place = f"{batch.column('topic')[index].as_py()}-{batch.column('partition')[index].as_py()}"
    offset = batch.column("offset")[index].as_py()
    return f"bad record at {place} offset {offset}: {_reason(batch, sides, bad_sides, index)}"


def _reason(
    batch: pa.RecordBatch, sides: list[tuple[str, _Side]], bad_sides: Mapping[str, Any], index: int
) -> str:
    """Why a bad record is bad."""
    name, side = next(each for each in sides if bad_sides[each[0]][index].as_py())
    headers = [(each["key"], each["value"]) for each in batch.column("headers")[index].as_py() or ()]
    try:
        schema = unpack_record(batch.column(name)[index].as_py(), headers, name == KEY).schema
    except WireError as failure:
        return f"the {name} has no schema: {failure}"
    problem = side.decoder.problems.get(schema)
    if problem is not None:
        return f"the {name} has schema {schema}, which cannot be read: {problem}"
    return f"the {name} is not what its schema {schema} says"
