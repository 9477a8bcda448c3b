"""Records in Confluent's wire format -> columns of the reader's schema.

    | magic 0 | schema id 4    | [Protobuf: message indexes] | payload |
    | magic 1 | schema GUID 16 | [Protobuf: message indexes] | payload |

Or a header of the record has all but the payload. Every record names the schema it was written with; it is
resolved to the reader's, so that a batch whose schema changes half-way has one set of columns. A record is
bad if it has no such header, if `schema_by_id` does not know its schema (UnknownSchema), if that schema
cannot be resolved to the reader's, or if its bytes are not what the schema says. A bad record is a null row,
and leaves nothing else behind. A null value (a tombstone) is a null row and not bad.

JSON needs the reader's schema only (json_decoder.py). Else each writer's schema is compiled once (program.py)
and run by a kernel (kernel.py) over all its records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from moldau.schemas.columns import avro_types, json_types, protobuf_types
from moldau.schemas.columns.avro_program import Unresolvable, avro_program
from moldau.schemas.columns.avro_tree import avro_tree
from moldau.schemas.columns.errors import NoColumns, UnknownSchema
from moldau.schemas.columns.json_decoder import JsonDecoder
from moldau.schemas.columns.kernel import Taken, make_kernel
from moldau.schemas.columns.program import Layout, Program
from moldau.schemas.schema import InvalidSchema, ParsedSchema, SchemaType
from moldau.schemas.wire import WireError, unpack

HEADERS_MAX = 10_000
"""So many different headers are remembered; then all are forgotten."""
PROGRAM_BYTES_MAX = 64 << 20
"""Nor are their programs to be larger: a message has as many headers as there are long forms of a short
number.
"""


def spark_types(parsed: ParsedSchema, indexes: tuple[int, ...] = ()) -> pa.Schema:
    """The columns of a schema; NoColumns if Spark can have none for it.

    `indexes`: which message of a Protobuf file (the first).
    """
    if parsed.schema_type is SchemaType.AVRO:
        return pa.schema(avro_types.arrow_fields(avro_tree(parsed)))
    if parsed.schema_type is SchemaType.PROTOBUF:
        return pa.schema(protobuf_types.arrow_fields(protobuf_types.message_of(parsed, indexes)))
    return pa.schema(list(json_types.arrow_row(parsed)[0]))


def is_record(parsed: ParsedSchema) -> bool:
    """Whether the columns are a record's fields; else a value has one column, named `value` here."""
    if parsed.schema_type is SchemaType.AVRO:
        return avro_types.not_null(avro_tree(parsed))[0].kind == "record"
    return parsed.schema_type is SchemaType.PROTOBUF or json_types.arrow_row(parsed)[1]


class Compiler(Protocol):
    """How records with one header become rows."""

    def __call__(self, header: bytes, writer: ParsedSchema) -> Program:
        """The program; Unresolvable or InvalidSchema if there is none."""


class Decoder:
    """Decodes batches with one reader's schema; writers' schemas are asked for once each.

    Not thread-safe. `problems` says for ids (and GUIDs) of schemas why their records are bad.
    """

    def __init__(
        self,
        reader: ParsedSchema,
        schema_by_id: Callable[[int], ParsedSchema],
        schema_by_guid: Callable[[str], ParsedSchema] | None = None,
        message_indexes: tuple[int, ...] = (),
    ) -> None:
        self.schema = spark_types(reader, message_indexes)
        self.problems: dict[int | str, str] = {}
        self._schema_by_id, self._schema_by_guid = schema_by_id, schema_by_guid
        self._json = JsonDecoder(reader) if reader.schema_type is SchemaType.JSON else None
        if self._json is not None:
            return
        self._layout = Layout(pa.struct(list(self.schema)))
        self._compile = _compiler(reader, self._layout, message_indexes)
        self._kernel = make_kernel(self._layout, reader.schema_type is SchemaType.PROTOBUF)
        self._headers = self._program_bytes = 0

    def decode(
        self, values: pa.Array, headers: pa.Array | None = None
    ) -> tuple[pa.StructArray, pa.BooleanArray]:
        """The rows of these records (binary), and which of them are bad; as many as there are values.

        `headers` are the records' headers named `wire.header_name`, null where a record has none: then its
        value begins with the schema. Errors of `schema_by_id` other than UnknownSchema come through.
        """
        values = values.cast(pa.binary()) if values.type != pa.binary() else values
        if headers is not None and headers.null_count < len(headers):
            named = pc.fill_null(headers.cast(pa.binary()), b"")
            values = pc.binary_join_element_wise(named, values, b"")
        if self._json is not None:
            return self._json.decode(values)
        validity, offsets, data = values.buffers()
        row, end = values.offset, values.offset + len(values)
        if not len(values):  # its offsets may be missing
            return pa.array([], self._layout.type), pa.array([], pa.bool_())
        try:
            while True:
                row, header = self._kernel.run(validity, offsets, data if data is not None else b"", row, end)
                if header is None:
                    break
                self._learn(header)
        except BaseException:
            self._kernel.take()
            raise
        columns, bad = self._kernel.take()
        return _array(0, self._layout, columns), _values(pa.bool_(), bad)

    def _writer(self, schema: int | str) -> ParsedSchema:
        if isinstance(schema, int):
            return self._schema_by_id(schema)
        if self._schema_by_guid is None:
            raise UnknownSchema(f"schemas named by GUID ({schema}) are not looked up here")
        return self._schema_by_guid(schema)

    def _learn(self, header: bytes) -> None:
        """Give the kernel the program for a header."""
        if self._headers == HEADERS_MAX or self._program_bytes > PROGRAM_BYTES_MAX:
            self._kernel.forget()
            self.problems.clear()
            self._headers = self._program_bytes = 0
        schema = unpack(header).schema
        try:
            program = self._compile(header, self._writer(schema))
        except (UnknownSchema, Unresolvable, InvalidSchema, NoColumns, WireError) as error:
            self.problems[schema] = str(error)
            self._kernel.add(header, b"", b"", [], -1)
        else:
            self._kernel.add(header, *program.packed())
            self._program_bytes += program.size_bytes
        self._headers += 1


def _compiler(reader: ParsedSchema, layout: Layout, indexes: tuple[int, ...]) -> Compiler:
    if reader.schema_type is SchemaType.PROTOBUF:
        return _protobuf_compiler(reader, layout, indexes)
    root = avro_tree(reader)

    def compile_avro(header: bytes, writer: ParsedSchema) -> Program:
        if writer.schema_type is not SchemaType.AVRO:
            raise Unresolvable(f"it is a schema of type {writer.schema_type}, not of AVRO as the reader's")
        try:
            return avro_program(avro_tree(writer), root, layout)
        except RecursionError:
            raise Unresolvable("the schema is too deep") from None

    return compile_avro


def _protobuf_compiler(reader: ParsedSchema, layout: Layout, indexes: tuple[int, ...]) -> Compiler:
    from moldau.schemas.columns.protobuf_program import protobuf_program

    message = protobuf_types.message_of(reader, indexes)
    program = protobuf_program(message, layout)

    def compile_protobuf(header: bytes, writer: ParsedSchema) -> Program:
        if writer.schema_type is not SchemaType.PROTOBUF:
            raise Unresolvable(
                f"it is a schema of type {writer.schema_type}, not of PROTOBUF as the reader's"
            )
        name = protobuf_types.written_message(writer, unpack(header, with_indexes=True).message_indexes)
        if name != message.full_name:
            raise Unresolvable(f"{name} was written, and {message.full_name} is read")
        return program

    return compile_protobuf


def _array(column: int, layout: Layout, taken: list[Taken]) -> Any:
    """The Arrow array of a column and what is below it."""
    kind = layout.types[column]
    _, first, count = layout.rows[column]
    if pa.types.is_struct(kind) or pa.types.is_map(kind) or pa.types.is_list(kind):
        children = [_array(first + index, layout, taken) for index in range(count)]
        return _values(kind, taken[column], children)
    return _values(kind, taken[column])


def _values(kind: pa.DataType, taken: Taken, children: list[Any] | None = None) -> Any:
    rows, nulls, validity, data, heap = taken
    buffers = [None if validity is None else pa.py_buffer(validity)]
    if not pa.types.is_struct(kind) and not pa.types.is_null(kind):
        buffers.append(pa.py_buffer(data))
    if heap is not None:
        buffers.append(pa.py_buffer(heap))
    return pa.Array.from_buffers(kind, rows, buffers, rows if pa.types.is_null(kind) else nulls, 0, children)
