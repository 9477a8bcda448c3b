"""Protobuf messages -> Arrow types, as Spark's from_protobuf maps them (its SchemaConverters, Spark 4.3).

    int32 sint32 uint32 fixed32 sfixed32     int32       string    string
    int64 sint64 uint64 fixed64 sfixed64     int64       bytes     binary
    float double bool                        same        enum      string
    google.protobuf.Timestamp                timestamp[us, UTC]
    google.protobuf.Duration                 duration[us]
    message, group                           struct; a message without fields is left out
    repeated                                 list
    map<K, V>                                map

As in Spark, unsigned numbers keep their bits, and everything but required fields is nullable. A field that
knows no "not set" (proto3 without `optional`) has its default where it does not come; that is Spark's
`emit.default.values`, without which a count of 0 would be null. Recursive messages are refused.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from moldau.schemas.columns.errors import NoColumns
from moldau.schemas.columns.program import COLUMNS_MAX
from moldau.schemas.schema import InvalidSchema, ParsedSchema

# google.protobuf.descriptor.FieldDescriptor.TYPE_*
DOUBLE, FLOAT, INT64, UINT64, INT32, FIXED64, FIXED32, BOOL, STRING, GROUP = range(1, 11)
MESSAGE, BYTES, UINT32, ENUM, SFIXED32, SFIXED64, SINT32, SINT64 = range(11, 19)

_SCALARS = {
    DOUBLE: pa.float64(),
    FLOAT: pa.float32(),
    **dict.fromkeys((INT64, UINT64, FIXED64, SFIXED64, SINT64), pa.int64()),
    **dict.fromkeys((INT32, UINT32, FIXED32, SFIXED32, SINT32), pa.int32()),
    BOOL: pa.bool_(),
    STRING: pa.string(),
    ENUM: pa.string(),
    BYTES: pa.binary(),
}


def message_of(parsed: ParsedSchema, indexes: tuple[int, ...] = ()) -> Any:
    """The descriptor of a message: the first one, or that which a record's indexes lead to. NoColumns."""
    from moldau.schemas.protobuf.descriptors import descriptor_pool
    from moldau.schemas.protobuf.parsed import ProtobufSchema

    assert isinstance(parsed, ProtobufSchema)
    name = written_message(parsed, indexes or (0,))
    try:
        return descriptor_pool(parsed).FindMessageTypeByName(name)
    except InvalidSchema as error:
        raise NoColumns(f"Google's library cannot use the schema: {error}") from None


def written_message(parsed: ParsedSchema, indexes: tuple[int, ...]) -> str:
    """The full name of the message that a record's indexes lead to. NoColumns."""
    from moldau.schemas.protobuf.parsed import ProtobufSchema
    from moldau.schemas.serde import SerdeError
    from moldau.schemas.serde.protobuf import message_name

    assert isinstance(parsed, ProtobufSchema)
    try:
        return message_name(parsed, indexes)
    except SerdeError as error:
        raise NoColumns(str(error)) from None


def arrow_fields(message: Any) -> list[pa.Field]:
    """The columns of a message."""
    if _column_count(message, {}) > COLUMNS_MAX:
        raise NoColumns(f"the schema has more than {COLUMNS_MAX} columns")
    return [made for _, made in fields_of(message, (message.full_name,))]


def fields_of(message: Any, inside: tuple[str, ...]) -> list[tuple[Any, pa.Field]]:
    """The fields that are columns; `inside` are the names of this message and those around it."""
    made = []
    for field in message.fields:
        kind = _type(field, inside)
        if kind is None:
            continue
        if is_map(field):
            made.append((field, pa.field(field.name, kind)))
        elif field.is_repeated:
            element = pa.field("element", kind, nullable=False)
            made.append((field, pa.field(field.name, pa.list_(element))))
        else:
            made.append((field, pa.field(field.name, kind, nullable=not field.is_required)))
    return made


def is_map(field: Any) -> bool:
    """Whether the field is a map."""
    return bool(
        field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry
    )


def time_unit(message: Any) -> pa.DataType | None:
    """The type of a Timestamp or Duration; None for other messages."""
    found = {"Timestamp": pa.timestamp("us", "UTC"), "Duration": pa.duration("us")}.get(message.name)
    shape = [(each.name, each.number, each.type) for each in message.fields]
    return found if shape == [("seconds", 1, INT64), ("nanos", 2, INT32)] else None


def _type(field: Any, inside: tuple[str, ...]) -> pa.DataType | None:
    """The type of a field, or of one of its items; None if nothing of it is a column."""
    if field.type not in (MESSAGE, GROUP):
        return _SCALARS[field.type]
    message = field.message_type
    time = time_unit(message)
    if time is not None:
        return time
    if is_map(field):
        key, value = (_type(message.fields_by_name[name], inside) for name in ("key", "value"))
        return None if value is None else pa.map_(key, pa.field("value", value, nullable=False))
    if message.full_name in inside:
        raise NoColumns(f"{message.full_name} contains itself, and Spark has no recursive types")
    below = fields_of(message, (*inside, message.full_name))
    return pa.struct([made for _, made in below]) if below else None


def _column_count(message: Any, known: dict[str, int]) -> int:
    """How many columns there will be, without making them: messages that use messages twice double it."""
    found = known.get(message.full_name)
    if found is not None:
        return found
    known[message.full_name] = 1  # a recursive use: refused when its turn comes
    below = (each.message_type for each in message.fields if each.message_type is not None)
    count = 1 + len(message.fields) + sum(_column_count(each, known) for each in below)
    known[message.full_name] = count
    return count
