"""Columns -> records in Confluent's wire format (decoder.py draws it), written with one schema.

Columns are matched with fields by name. A field without a column is written as its default, or as null or
absent where the schema allows it; a column without a field is refused, since it would be lost. Types are
those that the schema's own columns have (spark_types), or may be made them without loss of meaning: wider
numbers, other units of time, decimals of another scale. A null row is a null value (a tombstone).

Columns are taken as they are in memory: gathered by the schema's layout (`gather`), and handed to a kernel
(encode_kernel.py) with the program for what is there.
"""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from moldau.schemas.columns import avro_types, json_types, protobuf_types
from moldau.schemas.columns.avro_tree import avro_tree
from moldau.schemas.columns.encode_kernel import SENTENCES, Column, Reason, encode
from moldau.schemas.columns.errors import NotEncodable
from moldau.schemas.columns.json_types import is_text
from moldau.schemas.columns.program import Layout
from moldau.schemas.columns.writing import AvroWriting, JsonWriting, ProtobufWriting, Writing
from moldau.schemas.schema import ParsedSchema, SchemaType
from moldau.schemas.wire import pack_header


class Encoder:
    """Encodes batches with one schema. Not thread-safe."""

    def __init__(self, parsed: ParsedSchema, schema_id: int) -> None:
        self._type = parsed.schema_type
        indexes = (0,) if self._type is SchemaType.PROTOBUF else None
        self._header = pack_header(schema_id, indexes)
        self._root: Any
        if self._type is SchemaType.AVRO:
            self._root = avro_tree(parsed)
            row = pa.struct(avro_types.arrow_fields(self._root))
        elif self._type is SchemaType.PROTOBUF:
            self._root = protobuf_types.message_of(parsed)
            row = pa.struct(protobuf_types.arrow_fields(self._root))
        else:
            row, self._root = json_types.arrow_row(parsed)
        self._layout = Layout(row)
        self._programs: dict[frozenset[int], Writing] = {}

    def encode(self, rows: pa.StructArray) -> pa.Array:
        """One record for each row, with header; NotEncodable if a row does not fit the schema."""
        columns: list[Column | None] = [None] * len(self._layout.rows)
        gather(rows, self._layout, 0, columns, "")
        present = frozenset(index for index, each in enumerate(columns) if each is not None)
        writing = self._programs.get(present)
        if writing is None:
            writing = self._programs[present] = self._compile(present)
        program = writing.program
        result = encode(self._layout.packed(), columns, *program.packed(), self._header, len(rows))
        if len(result) == 3:
            row, node, reason = result
            sentence = f"row {row}: {writing.paths.get(node, 'value')} {SENTENCES[Reason(reason)]}"
            raise NotEncodable(sentence, row)
        offsets, data = result
        validity = None if rows.null_count == 0 else pc.is_valid(rows).buffers()[1]
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), len(rows), buffers)

    def _compile(self, present: frozenset[int]) -> Writing:
        made: Any = {
            SchemaType.AVRO: AvroWriting,
            SchemaType.PROTOBUF: ProtobufWriting,
            SchemaType.JSON: JsonWriting,
        }[self._type](self._layout, present)
        made.root(self._root)
        writing: Writing = made
        return writing


def gather(array: Any, layout: Layout, column: int, found: list[Column | None], path: str) -> None:
    """Put an Arrow array, and what is below it, where the layout has its columns. NotEncodable."""
    wanted, kind, types = layout.types[column], array.type, pa.types
    place = path or "value"
    if types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if types.is_null(kind) and not types.is_null(wanted):
        array = pa.nulls(len(array), wanted)
        kind = wanted
    if types.is_struct(wanted):
        if not types.is_struct(kind):
            raise NotEncodable(f"the column {place} is {kind}, and the schema has a record there")
        known = {wanted.field(index).name: index for index in range(wanted.num_fields)}
        for index in range(kind.num_fields):
            name = kind.field(index).name
            inner = f"{path}.{name}" if path else name
            if name not in known:
                raise NotEncodable(f"the schema has no field for the column {inner}")
            gather(array.field(index), layout, layout.child(column, known.pop(name)), found, inner)
        found[column] = (array.offset, array.buffers()[0], None, None)
    elif types.is_map(wanted):
        if not types.is_map(kind):
            raise NotEncodable(f"the column {place} is {kind}, and the schema has a map there")
        entries = layout.child(column, 0)
        found[entries] = (0, None, None, None)
        gather(array.keys, layout, layout.child(entries, 0), found, f"{place}'s keys")
        gather(array.items, layout, layout.child(entries, 1), found, f"{place}'s values")
        found[column] = (array.offset, *array.buffers()[:2], None)
    elif types.is_list(wanted):
        if types.is_large_list(kind) or types.is_fixed_size_list(kind):
            array = pc.cast(array, pa.list_(kind.value_type))
            kind = array.type
        if not types.is_list(kind):
            raise NotEncodable(f"the column {place} is {kind}, and the schema has an array there")
        gather(array.values, layout, layout.child(column, 0), found, f"{place}'s items")
        found[column] = (array.offset, *array.buffers()[:2], None)
    else:
        array = _suited(array, wanted, place)
        if is_text(layout.fields[column]):
            _check_json(array, place)
        buffers = [*array.buffers(), None, None]  # nulls have one, numbers two, strings three
        found[column] = (array.offset, buffers[0], buffers[1], buffers[2])


def _suited(array: Any, wanted: pa.DataType, place: str) -> Any:
    """The array in the column's type."""
    kind = array.type
    if kind == wanted:
        return array
    if _family(kind, wanted) is None:
        raise NotEncodable(f"the column {place} is {kind}, and the schema has {wanted} there")
    try:
        return pc.cast(array, wanted)
    except pa.ArrowInvalid as error:
        raise NotEncodable(f"the column {place}: {error}") from None


_T = pa.types
_FAMILIES = (
    ((_T.is_integer,), (_T.is_integer, _T.is_floating, _T.is_decimal)),
    ((_T.is_floating,), (_T.is_floating,)),
    ((_T.is_decimal,), (_T.is_decimal, _T.is_floating)),
    ((_T.is_timestamp,), (_T.is_timestamp,)),
    ((_T.is_date,), (_T.is_date,)),
    ((_T.is_duration,), (_T.is_duration,)),
    ((_T.is_string, _T.is_large_string), (_T.is_string, _T.is_binary)),
    ((_T.is_binary, _T.is_large_binary, _T.is_fixed_size_binary), (_T.is_binary,)),
)


def _family(kind: pa.DataType, wanted: pa.DataType) -> bool | None:
    """True where values of one type may stand for values of the other."""
    for sources, targets in _FAMILIES:
        if any(is_source(kind) for is_source in sources):
            return True if any(is_target(wanted) for is_target in targets) else None
    return None


def _check_json(array: Any, place: str) -> None:
    for text in array.to_pylist():
        try:
            if text is not None:
                orjson.loads(text)
        except ValueError:
            raise NotEncodable(
                f"{place} is any JSON by the schema; the column's text is none: {text[:50]!r}"
            ) from None
