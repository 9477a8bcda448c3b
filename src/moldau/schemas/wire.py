"""Which schema a record's key or value was written with: Confluent's wire format.

    in front of the payload     | 0 | schema id 4, big-endian | Protobuf: message indexes | payload
                                | 1 | schema GUID 16          | Protobuf: message indexes | payload
    in a header of the record   __key_schema_id or __value_schema_id, with the same bytes; then the key or
                                value is the payload alone

Message indexes lead from a Protobuf file to one of its messages, level by level: a count and so many numbers,
all zigzag varints; the first message, (0,), is written as the single byte 0.

Whether indexes follow depends on the schema's language, which only the schema tells: `unpack` reads the rest
with `with_indexes`, or the caller goes on with `unpack_indexes`.
"""

import struct
import uuid
from collections.abc import Iterable, Sequence
from typing import NamedTuple

KEY_HEADER = "__key_schema_id"
VALUE_HEADER = "__value_schema_id"

_MAGIC_ID = 0
_MAGIC_GUID = 1
_ID = struct.Struct(">BI")
_GUID_BYTES = 16
_VARINT_BYTES_MAX = 5


class WireError(ValueError):
    """The bytes do not begin as a record with a schema does; the message says what they are instead."""


class Unpacked(NamedTuple):
    """What stands before a payload."""

    schema: int | str
    """An id, or a GUID as text."""
    message_indexes: tuple[int, ...]
    """Empty unless they were asked for."""
    payload_offset: int
    """Where the payload begins in the key or value: 0 if the schema is named in a header."""


def pack_header(schema_id: int, indexes: Sequence[int] | None = None) -> bytes:
    """Return the bytes before a payload; `indexes` for Protobuf only."""
    return _ID.pack(_MAGIC_ID, schema_id) + (b"" if indexes is None else pack_indexes(indexes))


def pack_guid(guid: str, indexes: Sequence[int] | None = None) -> bytes:
    """Return a header's value that names a schema by its GUID."""
    packed = bytes((_MAGIC_GUID,)) + uuid.UUID(guid).bytes
    return packed + (b"" if indexes is None else pack_indexes(indexes))


def header_name(is_key: bool) -> str:
    """The name of the header that may hold the schema's GUID."""
    return KEY_HEADER if is_key else VALUE_HEADER


def unpack(data: bytes | memoryview, *, with_indexes: bool = False) -> Unpacked:
    """Read what stands before a payload. WireError if there is no such thing."""
    if not len(data):
        raise WireError("it is empty: no schema id")
    magic = data[0]
    schema: int | str
    if magic == _MAGIC_ID:
        end = _ID.size
        if len(data) < end:
            raise WireError(f"it has {len(data)} bytes: too short for a schema id")
        schema = _ID.unpack_from(data)[1]
    elif magic == _MAGIC_GUID:
        end = 1 + _GUID_BYTES
        if len(data) < end:
            raise WireError(f"it has {len(data)} bytes: too short for a schema GUID")
        schema = str(uuid.UUID(bytes=bytes(data[1:end])))
    else:
        raise WireError(f"it begins with byte {magic}, not with 0 and a schema id: not written with a schema")
    indexes: tuple[int, ...] = ()
    if with_indexes:
        indexes, end = unpack_indexes(data, end)
    return Unpacked(schema, indexes, end)


def unpack_record(
    data: bytes,
    headers: Iterable[tuple[str, bytes | None]] | None,
    is_key: bool,
    *,
    with_indexes: bool = False,
) -> Unpacked:
    """Read the schema of a record's key or value, from its header if it has one. WireError."""
    wanted = header_name(is_key)
    for name, value in headers or ():
        if name == wanted and value is not None:
            return unpack(value, with_indexes=with_indexes)._replace(payload_offset=0)
    return unpack(data, with_indexes=with_indexes)


def pack_indexes(indexes: Sequence[int]) -> bytes:
    """Return message indexes as bytes."""
    if not indexes:
        raise ValueError("a message has at least one index")
    if tuple(indexes) == (0,):
        return b"\0"
    packed = bytearray()
    for number in (len(indexes), *indexes):
        rest = number << 1
        while rest > 0x7F:
            packed.append(rest & 0x7F | 0x80)
            rest >>= 7
        packed.append(rest)
    return bytes(packed)


def unpack_indexes(data: bytes | memoryview, offset: int) -> tuple[tuple[int, ...], int]:
    """Read message indexes at `offset`; they and where they end. WireError."""
    count, offset = _index(data, offset)
    if count == 0:
        return (0,), offset
    if count > len(data) - offset:
        raise WireError(f"it announces {count} message indexes and ends before them")
    indexes = []
    for _ in range(count):
        index, offset = _index(data, offset)
        indexes.append(index)
    return tuple(indexes), offset


def _index(data: bytes | memoryview, offset: int) -> tuple[int, int]:
    value = 0
    for position in range(_VARINT_BYTES_MAX):
        if offset >= len(data):
            raise WireError("it ends within the message indexes")
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            if value & 1:
                raise WireError("it has a negative message index")
            return value >> 1, offset
    raise WireError("it has a message index that is no number")
