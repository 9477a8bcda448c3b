"""Hand-tuned Produce codec. With Fetch the only messages that carry the data, and worth it.

The compiled declarations build an object a struct; here a request becomes plain tuples, and the records of a
partition stay a `memoryview` into the receive buffer, valid until the handler returns. The tests decode the
same bytes with both decoders and compare.

    v3-8    | transactional id | acks 2 | timeout 4 | topics: [name | [index 4 | size 4 | records]]
    v9-12   the same with varint lengths and tagged fields
    v13     a 16-byte topic id in place of the name

Budget: decoding a one-partition request 2.0 reference loops, encoding its response 1.8 (bench/hot_path.py).
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau.common.protocol.hot_wire import checked_count, skip_tagged_fields, uvarint
from moldau.common.protocol.wire import MalformedMessage
from moldau.common.protocol.wire import uvarint as write_uvarint

_I16 = struct.Struct(">h").unpack_from
_I32 = struct.Struct(">i").unpack_from
_ACKS_TIMEOUT_COUNT = struct.Struct(">hii").unpack_from
_ACKS_TIMEOUT = struct.Struct(">hi").unpack_from
_INDEX_LENGTH = struct.Struct(">ii").unpack_from

PartitionRecords = tuple[int, memoryview | None]
ProduceTopic = tuple[bytes, list[PartitionRecords]]
ProduceBody = tuple[bytes | None, int, int, list[ProduceTopic]]

_TOPIC_ID_BYTES = 16
ROWS_MAX = 500
"""More topics and partitions than that are for the compiled decoder, which works in slices."""
_TAGS_MAX = 16
"""More tagged fields in one place, of which none is defined, are for it, too."""
_PRODUCE_MIN_PARTITION_BYTES = 5  # an index and at least one byte of length


class ManyRows(Exception):
    """The request has more rows or tagged fields than are decoded at once; none of it was processed."""


def decode_produce(view: memoryview, position: int, version: int) -> ProduceBody:
    """A Produce body that starts at `position`: (transactional id, acks, timeout in ms, topics).

    A topic is keyed by its name as UTF-8, or from version 13 by its 16-byte id. Raises MalformedMessage, and
    ManyRows beyond `ROWS_MAX` of them or with many tagged fields.
    """
    try:
        if version >= 9:
            return _decode_produce_flexible(view, position, version >= 13)
        return _decode_produce_classic(view, position)
    except (struct.error, IndexError) as error:
        raise MalformedMessage("the Produce request ends before its content does") from error


def _decode_produce_classic(view: memoryview, position: int) -> ProduceBody:
    end = len(view)
    (size_bytes,) = _I16(view, position)
    position += 2
    transactional_id = None
    if size_bytes >= 0:
        transactional_id = bytes(view[position : position + size_bytes])
        position += size_bytes
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT(view, position)
    position += 10
    topics: list[ProduceTopic] = []
    rows_left = ROWS_MAX
    for _ in range(checked_count(topic_count, end - position, 6)):
        (size_bytes,) = _I16(view, position)
        position += 2
        if size_bytes < 0:
            raise MalformedMessage("a topic without a name")
        name = bytes(view[position : position + size_bytes])
        position += size_bytes
        (partition_count,) = _I32(view, position)
        position += 4
        rows_left -= partition_count if partition_count > 1 else 1
        if rows_left < 0:
            raise ManyRows
        partitions: list[PartitionRecords] = []
        for _ in range(checked_count(partition_count, end - position, 8)):
            index, size_bytes = _INDEX_LENGTH(view, position)
            position += 8
            if size_bytes < 0:
                partitions.append((index, None))
                continue
            after = position + size_bytes
            if after > end:
                raise MalformedMessage("the records of a partition reach past the end of the frame")
            partitions.append((index, view[position:after]))
            position = after
        topics.append((name, partitions))
    if position > end:
        raise MalformedMessage("the Produce request ends before its content does")
    return transactional_id, acks, timeout_ms, topics


def _decode_produce_flexible(view: memoryview, position: int, by_id: bool) -> ProduceBody:
    end = len(view)
    size_bytes, position = uvarint(view, position)
    transactional_id = None
    if size_bytes:
        transactional_id = bytes(view[position : position + size_bytes - 1])
        position += size_bytes - 1
    acks, timeout_ms = _ACKS_TIMEOUT(view, position)
    topic_count, position = uvarint(view, position + 6)
    topics: list[ProduceTopic] = []
    rows_left = ROWS_MAX
    for _ in range(checked_count(topic_count - 1, end - position, 3)):
        if by_id:
            name = bytes(view[position : position + _TOPIC_ID_BYTES])
            position += _TOPIC_ID_BYTES
        else:
            size_bytes, position = uvarint(view, position)
            if size_bytes == 0:
                raise MalformedMessage("a topic without a name")
            name = bytes(view[position : position + size_bytes - 1])
            position += size_bytes - 1
        partition_count, position = uvarint(view, position)
        rows_left -= partition_count - 1 if partition_count > 2 else 1
        if rows_left < 0:
            raise ManyRows
        partitions: list[PartitionRecords] = []
        for _ in range(checked_count(partition_count - 1, end - position, _PRODUCE_MIN_PARTITION_BYTES)):
            (index,) = _I32(view, position)
            size_bytes, position = uvarint(view, position + 4)
            records = None
            if size_bytes:
                after = position + size_bytes - 1
                if after > end:
                    raise MalformedMessage("the records of a partition reach past the end of the frame")
                records = view[position:after]
                position = after
            partitions.append((index, records))
            position = position + 1 if view[position] == 0 else _skip_tags(view, position)
        topics.append((name, partitions))
        position = position + 1 if view[position] == 0 else _skip_tags(view, position)
    if (position + 1 if view[position] == 0 else _skip_tags(view, position)) > end:
        raise MalformedMessage("the Produce request ends before its content does")
    return transactional_id, acks, timeout_ms, topics


def _skip_tags(view: memoryview, position: int) -> int:
    if view[position] > _TAGS_MAX:  # also the first byte of a longer count
        raise ManyRows
    return skip_tagged_fields(view, position)


class RecordsRefused(NamedTuple):
    """A message, and the records that are the reason (KIP-467): (place in the batch, message)."""

    message: str
    record_errors: Sequence[tuple[int, str]]


PartitionAnswer = tuple[int, int, int, int, int, str | RecordsRefused | None]
"""(index, error code, base offset, log append time ms, log start offset, error message); a plain tuple, as a
named one costs three times as much to make."""
ANSWER_INDEX: Final = 0
ANSWER_ERROR_CODE: Final = 1

_ANSWER_V3 = struct.Struct(">ihqq").pack
_ANSWER_V5 = struct.Struct(">ihqqq").pack
_NO_RECORD_ERRORS = bytes(4)
_NULL_STRING = b"\xff\xff"
_PACK_I32 = struct.Struct(">i").pack
_PACK_I16 = struct.Struct(">h").pack


def encode_produce_response(
    version: int, topics: Sequence[tuple[bytes, Sequence[PartitionAnswer]]], throttle_time_ms: int = 0
) -> bytes:
    """The body of a Produce response; topics are keyed as the request keyed them."""
    flexible = version >= 9
    parts: list[bytes] = [write_uvarint(len(topics) + 1) if flexible else _PACK_I32(len(topics))]
    for key, partitions in topics:
        if flexible:
            parts.append(key if version >= 13 else write_uvarint(len(key) + 1) + key)
            parts.append(write_uvarint(len(partitions) + 1))
        else:
            parts.append(_PACK_I16(len(key)) + key + _PACK_I32(len(partitions)))
        for index, error_code, base_offset, log_append_time_ms, log_start_offset, message in partitions:
            if version < 5:
                parts.append(_ANSWER_V3(index, error_code, base_offset, log_append_time_ms))
                continue
            parts.append(_ANSWER_V5(index, error_code, base_offset, log_append_time_ms, log_start_offset))
            if flexible:
                if message is None:
                    parts.append(b"\x01\x00\x00")
                else:
                    _add_message_flexible(message, parts)
            elif version == 8:
                _add_message(message, parts)
        if flexible:
            parts.append(b"\x00")
    parts.append(_PACK_I32(throttle_time_ms))
    if flexible:
        parts.append(b"\x00")
    return b"".join(parts)


def _add_message_flexible(message: str | RecordsRefused, parts: list[bytes]) -> None:
    if isinstance(message, RecordsRefused):
        message, record_errors = message
        parts.append(write_uvarint(len(record_errors) + 1))
        for batch_index, reason in record_errors:
            text = reason.encode()
            parts.append(_PACK_I32(batch_index) + write_uvarint(len(text) + 1) + text + b"\x00")
    else:
        parts.append(b"\x01")
    text = message.encode()
    parts.append(write_uvarint(len(text) + 1) + text + b"\x00")


def _add_message(message: str | RecordsRefused | None, parts: list[bytes]) -> None:
    if isinstance(message, RecordsRefused):
        message, record_errors = message
        parts.append(_PACK_I32(len(record_errors)))
        for batch_index, reason in record_errors:
            text = reason.encode()
            parts.append(_PACK_I32(batch_index) + _PACK_I16(len(text)) + text)
    else:
        parts.append(_NO_RECORD_ERRORS)
    if message is None:
        parts.append(_NULL_STRING)
        return
    text = message.encode()
    parts.append(_PACK_I16(len(text)) + text)
