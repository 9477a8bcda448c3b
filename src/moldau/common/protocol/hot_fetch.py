"""Hand-tuned Fetch codec: the request becomes plain tuples, the records in the response are not copied.

    a partition of the request:
    v4   | index 4 | offset 8 | max bytes 4 |
    v5   + log start offset 8 before max bytes
    v9   + current leader epoch 4 after index
    v12  + last fetched epoch 4 after offset, varint lengths, tagged fields

Bytes after the content are ignored, as Kafka does; librdkafka sends some. Budget: decoding a one-partition
request 3.0 reference loops, encoding its response 2.2 (bench/hot_path.py).
"""

import struct
from collections.abc import Generator, Mapping, Sequence
from typing import Final

from moldau.common.protocol.hot_wire import checked_count, skip_tagged_fields, uvarint
from moldau.common.protocol.wire import MalformedMessage
from moldau.common.protocol.wire import uvarint as write_uvarint

_I16 = struct.Struct(">h").unpack_from
_I32 = struct.Struct(">i").unpack_from
_PACK_I32 = struct.Struct(">i").pack
_PACK_I16 = struct.Struct(">h").pack
_TOPIC_ID_BYTES = 16

# (index, current leader epoch, fetch offset, last fetched epoch, follower's log start offset, max bytes);
# what a client leaves out is -1
FetchPartition = tuple[int, int, int, int, int, int]
FetchTopic = tuple[bytes, list[FetchPartition]]
# (replica id, max wait ms, min bytes, max bytes, isolation level, session id, session epoch, topics,
#  forgotten topics, rack, the replica's broker epoch or -1)
FetchBody = tuple[
    int, int, int, int, int, int, int, list[FetchTopic], list[tuple[bytes, list[int]]], bytes, int
]

_FETCH_V4 = struct.Struct(">iiiib").unpack_from
_FETCH_V7 = struct.Struct(">iiiibii").unpack_from
_FETCH_V15 = struct.Struct(">iiibii").unpack_from
_PARTITION_V4 = struct.Struct(">iqi").unpack_from
_PARTITION_V5 = struct.Struct(">iqqi").unpack_from
_PARTITION_V9 = struct.Struct(">iiqqi").unpack_from
_PARTITION_V12 = struct.Struct(">iiqiqi").unpack_from
_REPLICA_STATE_TAG = 1
_REPLICA_STATE = struct.Struct(">iq").unpack_from
_PARTITIONS_AT_ONCE = 64
# What a follower's request ends with, if it forgets no partition: empty arrays of forgotten partitions and of
# the rack, and one tagged field, its state.
_FOLLOWERS_END = struct.Struct(">5siqb").unpack_from
_FOLLOWERS_END_BYTES = 18
_FOLLOWERS_END_START = b"\x01\x01\x01\x01\x0d"


def decode_fetch(view: memoryview, position: int, version: int) -> FetchBody:
    """A Fetch body that starts at `position`; topics are keyed by UTF-8 name, from version 13 by 16-byte id.

    Raises MalformedMessage.
    """
    try:
        if version >= 12:
            return _decode_fetch_flexible(view, position, version)
        return _decode_fetch_classic(view, position, version)
    except (struct.error, IndexError) as error:
        raise MalformedMessage("the Fetch request ends before its content does") from error


def _decode_fetch_classic(view: memoryview, position: int, version: int) -> FetchBody:
    session_id, session_epoch = 0, -1
    if version >= 7:
        head = _FETCH_V7(view, position)
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = head
        position += 25
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation = _FETCH_V4(view, position)
        position += 17
    topics: list[FetchTopic] = []
    (topic_count,) = _I32(view, position)
    position += 4
    for _ in range(checked_count(topic_count, len(view) - position, 6)):
        name, position = _classic_name(view, position)
        (partition_count,) = _I32(view, position)
        position += 4
        partitions: list[FetchPartition] = []
        for _ in range(checked_count(partition_count, len(view) - position, 16)):
            if version >= 9:
                index, leader_epoch, offset, log_start_offset, limit = _PARTITION_V9(view, position)
                partitions.append((index, leader_epoch, offset, -1, log_start_offset, limit))
                position += 28
            elif version >= 5:
                index, offset, log_start_offset, limit = _PARTITION_V5(view, position)
                partitions.append((index, -1, offset, -1, log_start_offset, limit))
                position += 24
            else:
                index, offset, limit = _PARTITION_V4(view, position)
                partitions.append((index, -1, offset, -1, -1, limit))
                position += 16
        topics.append((name, partitions))
    forgotten: list[tuple[bytes, list[int]]] = []
    if version >= 7:
        (topic_count,) = _I32(view, position)
        position += 4
        for _ in range(checked_count(topic_count, len(view) - position, 6)):
            name, position = _classic_name(view, position)
            (count,) = _I32(view, position)
            position += 4
            checked_count(count, len(view) - position, 4)
            forgotten.append((name, list(struct.unpack_from(f">{count}i", view, position))))
            position += 4 * count
    rack = b""
    if version >= 11:
        rack, position = _classic_name(view, position)
    if position > len(view):
        raise MalformedMessage("the Fetch request ends before its content does")
    return (
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack,
        -1,
    )


def _classic_name(view: memoryview, position: int) -> tuple[bytes, int]:
    (size_bytes,) = _I16(view, position)
    position += 2
    if size_bytes < 0 or position + size_bytes > len(view):
        raise MalformedMessage("a string reaches past the end of the frame, or is null where it may not be")
    return bytes(view[position : position + size_bytes]), position + size_bytes


def _decode_fetch_flexible(view: memoryview, position: int, version: int) -> FetchBody:
    replica_id = broker_epoch = -1
    if version < 15:
        (replica_id,) = _I32(view, position)
        position += 4
    max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = _FETCH_V15(view, position)
    position += 21
    topics: list[FetchTopic] = []
    count = view[position]
    position += 1
    if count > 127:
        count, position = uvarint(view, position - 1)
    for _ in range(checked_count(count - 1, len(view) - position, 3)):
        key, position = _flexible_key(view, position, version)
        count = view[position]
        position += 1
        if count > 127:
            count, position = uvarint(view, position - 1)
        partitions: list[FetchPartition] = []
        for _ in range(checked_count(count - 1, len(view) - position, 33)):
            partitions.append(_PARTITION_V12(view, position))
            position += 32
            position = position + 1 if view[position] == 0 else skip_tagged_fields(view, position)
        topics.append((key, partitions))
        position = position + 1 if view[position] == 0 else skip_tagged_fields(view, position)
    forgotten: list[tuple[bytes, list[int]]] = []
    if version >= 15 and len(view) - position == _FOLLOWERS_END_BYTES:
        start, replica_id, broker_epoch, tags = _FOLLOWERS_END(view, position)
        if start == _FOLLOWERS_END_START and not tags:
            head = (replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch)
            return (*head, topics, forgotten, b"", broker_epoch)
        replica_id = broker_epoch = -1
    count, position = uvarint(view, position)
    for _ in range(checked_count(count - 1, len(view) - position, 3)):
        key, position = _flexible_key(view, position, version)
        count, position = uvarint(view, position)
        count = checked_count(count - 1, len(view) - position, 4)
        forgotten.append((key, list(struct.unpack_from(f">{count}i", view, position))))
        position = skip_tagged_fields(view, position + 4 * count)
    size_bytes, position = uvarint(view, position)
    if size_bytes == 0:
        raise MalformedMessage("the rack may not be null")
    rack = bytes(view[position : position + size_bytes - 1])
    position += size_bytes - 1
    tagged_from = position
    if skip_tagged_fields(view, position) > len(view):
        raise MalformedMessage("the Fetch request ends before its content does")
    if version >= 15 and view[tagged_from]:
        replica_id, broker_epoch = _replica_of_state(view, tagged_from)
    return (
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack,
        broker_epoch,
    )


def _flexible_key(view: memoryview, position: int, version: int) -> tuple[bytes, int]:
    if version >= 13:
        size_bytes = _TOPIC_ID_BYTES
    else:
        size_bytes, position = uvarint(view, position)
        size_bytes -= 1
    if size_bytes < 0 or position + size_bytes > len(view):
        raise MalformedMessage("a topic's key reaches past the end of the frame, or is null")
    return bytes(view[position : position + size_bytes]), position + size_bytes


def _replica_of_state(view: memoryview, position: int) -> tuple[int, int]:
    """Replica id and broker epoch of the tagged ReplicaState field (version 15 on); -1 and -1 for a
    consumer.
    """
    count, position = uvarint(view, position)
    for _ in range(count):
        tag, position = uvarint(view, position)
        size_bytes, position = uvarint(view, position)
        if tag == _REPLICA_STATE_TAG:
            replica_id, broker_epoch = _REPLICA_STATE(view, position)
            return replica_id, broker_epoch
        position += size_bytes
    return -1, -1


# (index, error code, high watermark, last stable offset, log start offset, aborted transactions, records)
FetchedPartition = tuple[int, int, int, int, int, Sequence[tuple[int, int]] | None, bytes | memoryview]
ROW_ERROR_CODE: Final = 1
ROW_HIGH_WATERMARK: Final = 2
ROW_LAST_STABLE_OFFSET: Final = 3
ROW_LOG_START_OFFSET: Final = 4
ROW_RECORDS: Final = 6
ROW_FIELDS: Final = 7

_FETCHED_V4 = struct.Struct(">ihqq").pack
_FETCHED_V5 = struct.Struct(">ihqqq").pack
_PACK_ABORTED = struct.Struct(">qq").pack
# One tagged field, number 0, of 13 bytes: | epoch 4 | end offset 8 | no tagged fields |
_PACK_DIVERGING = struct.Struct(">3siqx").pack
_DIVERGING_TAG = b"\x01\x00\x0d"
# One tagged field, number 1, of 9 bytes: | leader 4 | epoch 4 | no tagged fields |
_PACK_LEADER = struct.Struct(">3siix").pack
_LEADER_TAG = b"\x01\x01\x09"

Place = tuple[bytes, int]
"""A partition of a response: topic key and index."""
Tagged = Mapping[Place, bytes]
"""The tagged fields of partitions that have some (version 12 on): `diverging_field` or `leader_field`."""
Preferred = Mapping[Place, int]
"""The replica from which a partition's consumer should rather read (version 11 on, KIP-392)."""
_NO_PREFERRED_REPLICA = b"\xff\xff\xff\xff"


def diverging_field(epoch: int, end_offset: int) -> bytes:
    """The tagged fields of a partition whose reader has diverged: the last epoch that may be common, and
    where it ends."""
    return _PACK_DIVERGING(_DIVERGING_TAG, epoch, end_offset)


def leader_field(leader: int, leader_epoch: int) -> bytes:
    """The tagged fields of a partition that is led elsewhere (KIP-951)."""
    return _PACK_LEADER(_LEADER_TAG, leader, leader_epoch)


def encode_fetch_response(
    version: int,
    topics: Sequence[tuple[bytes, Sequence[FetchedPartition]]],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_time_ms: int = 0,
    tagged: Tagged | None = None,
    preferred: Preferred | None = None,
    last_fields: bytes = b"\x00",
) -> list[bytes | memoryview]:
    """The body of a Fetch response as parts; the records are parts of their own, not copied.

    `last_fields`: the response's own tagged fields (version 12 on).
    """
    flexible = version >= 12
    small = bytearray(_PACK_I32(throttle_time_ms))
    parts: list[bytes | memoryview] = []
    if version >= 7:
        small += _PACK_I16(error_code)
        small += _PACK_I32(session_id)
    small += write_uvarint(len(topics) + 1) if flexible else _PACK_I32(len(topics))
    for key, partitions in topics:
        small += _topic_start(key, len(partitions), version, flexible)
        _encode_partitions(version, flexible, key, partitions, small, parts, tagged, preferred)
        if flexible:
            small.append(0)
    if flexible:
        small += last_fields
    parts.append(bytes(small))
    return parts


def encode_fetch_response_in_slices(
    version: int,
    topics: Sequence[tuple[bytes, Sequence[FetchedPartition]]],
    *,
    session_id: int = 0,
    throttle_time_ms: int = 0,
    tagged: Tagged | None = None,
    preferred: Preferred | None = None,
    last_fields: bytes = b"\x00",
) -> Generator[None, None, list[bytes | memoryview]]:
    """As `encode_fetch_response`, for many partitions: yields now and then."""
    flexible = version >= 12
    small = bytearray(_PACK_I32(throttle_time_ms))
    parts: list[bytes | memoryview] = []
    if version >= 7:
        small += _PACK_I16(0)
        small += _PACK_I32(session_id)
    small += write_uvarint(len(topics) + 1) if flexible else _PACK_I32(len(topics))
    for key, partitions in topics:
        small += _topic_start(key, len(partitions), version, flexible)
        for start in range(0, len(partitions), _PARTITIONS_AT_ONCE):
            chunk = partitions[start : start + _PARTITIONS_AT_ONCE]
            _encode_partitions(version, flexible, key, chunk, small, parts, tagged, preferred)
            yield
        if flexible:
            small.append(0)
        yield
    if flexible:
        small += last_fields
    parts.append(bytes(small))
    return parts


def _topic_start(key: bytes, count: int, version: int, flexible: bool) -> bytes:
    if flexible:
        return (key if version >= 13 else write_uvarint(len(key) + 1) + key) + write_uvarint(count + 1)
    return _PACK_I16(len(key)) + key + _PACK_I32(count)


def _encode_partitions(
    version: int,
    flexible: bool,
    key: bytes,
    partitions: Sequence[FetchedPartition],
    small: bytearray,
    parts: list[bytes | memoryview],
    tagged: Tagged | None,
    preferred: Preferred | None,
) -> None:
    for (
        index,
        error,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted,
        records,
    ) in partitions:
        if version >= 5:
            small += _FETCHED_V5(index, error, high_watermark, last_stable_offset, log_start_offset)
        else:
            small += _FETCHED_V4(index, error, high_watermark, last_stable_offset)
        small += _aborted(aborted, flexible)
        if version >= 11:
            if preferred and (key, index) in preferred:
                small += _PACK_I32(preferred[key, index])
            else:
                small += _NO_PREFERRED_REPLICA
        small += write_uvarint(len(records) + 1) if flexible else _PACK_I32(len(records))
        if records:
            parts.append(bytes(small))
            parts.append(records)
            small.clear()
        if flexible:
            if tagged and (key, index) in tagged:
                small += tagged[key, index]
            else:
                small.append(0)


def _aborted(transactions: Sequence[tuple[int, int]] | None, flexible: bool) -> bytes:
    if transactions is None:
        return b"\x00" if flexible else b"\xff\xff\xff\xff"
    if not flexible:
        return _PACK_I32(len(transactions)) + b"".join(_PACK_ABORTED(*each) for each in transactions)
    return write_uvarint(len(transactions) + 1) + b"".join(
        _PACK_ABORTED(*each) + b"\x00" for each in transactions
    )
