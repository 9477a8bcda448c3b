"""Hand-tuned codec of a follower's Fetch, versions 15-18: what it asks its leader, and what comes back.

    request   | max wait 4 | min bytes 4 | max bytes 4 | isolation 1 | session 4 | epoch 4 | topics
              | forgotten topics | rack, empty 1 | tags: replica state |
    its row   | index 4 | leader epoch 4 | offset 8 | last fetched epoch 4 | log start 8 | limit 4 | tags |
    response  | throttle 4 | error 2 | session 4 | topics | tags |
    its row   | index 4 | error 2 | high watermark 8 | last stable offset 8 | log start 8 | aborted
              | preferred replica 4 | records | tags: diverging epoch |

The versions differ by tagged fields only, which a follower leaves out (its directory, its high watermark) or
does not read (endpoints of leaders). A row of a request is packed when it is added, so that a request for
many partitions is put together in one step; a row of a response is a plain tuple, and its records are not
copied. What the declarations (messages/fetch.py) refuse is refused here.

Budget: a request with one row 3 reference loops, its response 5 (bench/hot_path.py has the loop).
"""

import struct
from collections.abc import Generator
from typing import ClassVar, Final, NamedTuple

from moldau.common.protocol.declare import Message
from moldau.common.protocol.hot_wire import checked_count, skip_tagged_fields
from moldau.common.protocol.messages.fetch import FetchRequest, FetchResponse
from moldau.common.protocol.wire import MalformedMessage, read_uvarint, uvarint

VERSION_MIN = 15
"""The first with the replica's broker epoch (KIP-903)."""

_HEAD = struct.Struct(">iiibii").pack
_ROW = struct.Struct(">iiqiqib").pack
_REPLICA_STATE = struct.Struct(">bbbbiqb").pack
_REPLICA_STATE_BYTES = 13
_INT32 = struct.Struct(">i").pack

_RESPONSE = struct.Struct(">ihi").unpack_from
_RESPONSE_BYTES = 10
_DATA = struct.Struct(">ihqqq").unpack_from
_DATA_BYTES = 30
_ROW_BYTES_MIN = _DATA_BYTES + 7
_TOPIC_BYTES_MIN = 18
_DIVERGING = struct.Struct(">iq").unpack_from
_DIVERGING_BYTES = 13
_ROWS_AT_ONCE = 64
_new_row = tuple.__new__


class ReplicaFetchRequest:
    """A follower's request; its rows are added one by one."""

    KEY: ClassVar = FetchRequest.KEY
    VERSIONS: ClassVar = (VERSION_MIN, FetchRequest.VERSIONS[1])
    RESPONSE: ClassVar[type[Message]] = FetchResponse

    __slots__ = ("_forgotten", "_head", "_rows", "replica_epoch", "replica_id")

    def __init__(
        self,
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        session_id: int,
        session_epoch: int,
        forgotten: dict[bytes, list[int]],
    ) -> None:
        """`forgotten`: indexes of the partitions to be left out from now on, by topic id."""
        self._head = _HEAD(max_wait_ms, min_bytes, max_bytes, 0, session_id, session_epoch)
        self._forgotten = forgotten
        self._rows: dict[bytes, list[bytes]] = {}
        self.replica_id = self.replica_epoch = -1

    def add(
        self,
        topic_id: bytes,
        index: int,
        leader_epoch: int,
        offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        bytes_max: int,
    ) -> None:
        """Ask for this partition, from `offset` on."""
        row = _ROW(index, leader_epoch, offset, last_fetched_epoch, log_start_offset, bytes_max, 0)
        rows = self._rows.get(topic_id)
        if rows is None:
            self._rows[topic_id] = [row]
        else:
            rows.append(row)

    def encode(self, version: int) -> bytes:
        """The request's bytes, the same in all its versions."""
        parts = [self._head, uvarint(len(self._rows) + 1)]
        for topic_id, rows in self._rows.items():
            parts += (topic_id, uvarint(len(rows) + 1), *rows, b"\0")
        parts.append(uvarint(len(self._forgotten) + 1))
        for topic_id, indexes in self._forgotten.items():
            parts += (topic_id, uvarint(len(indexes) + 1), *map(_INT32, indexes), b"\0")
        parts.append(
            # an empty rack; one tagged field: the replica state, with no tags of its own
            _REPLICA_STATE(1, 1, 1, _REPLICA_STATE_BYTES, self.replica_id, self.replica_epoch, 0)
        )
        return b"".join(parts)


class FetchedRow(NamedTuple):
    """What a leader answers about one partition."""

    partition_index: int
    error_code: int = 0
    high_watermark: int = 0
    log_start_offset: int = -1
    records: bytes | memoryview = b""
    diverging: tuple[int, int] | None = None
    """The follower's records are others than the leader's after this epoch, which ended at this offset."""


class Fetched(NamedTuple):
    """A leader's response."""

    error_code: int
    session_id: int
    topics: list[tuple[bytes, list[FetchedRow]]]


_NO_RECORDS: Final = b""


def decode_fetched(data: memoryview, version: int, offset: int) -> Generator[None, None, Fetched]:
    """Read the response that fills `data` from `offset` to the end: a generator that yields now and then, and
    returns it. MalformedMessage.
    """
    end = len(data)
    try:
        _, error_code, session_id = _RESPONSE(data, offset)
        count, offset = read_uvarint(data, offset + _RESPONSE_BYTES)
        topics: list[tuple[bytes, list[FetchedRow]]] = []
        for _ in range(checked_count(count - 1, end - offset, _TOPIC_BYTES_MIN)):
            topic_id = bytes(data[offset : offset + 16])
            count, offset = read_uvarint(data, offset + 16)
            rows: list[FetchedRow] = []
            topics.append((topic_id, rows))
            for number in range(checked_count(count - 1, end - offset, _ROW_BYTES_MIN)):
                row, offset = _row(data, offset, end)
                rows.append(row)
                if number % _ROWS_AT_ONCE == _ROWS_AT_ONCE - 1:
                    yield
            offset = skip_tagged_fields(data, offset)
            if not len(topics) % _ROWS_AT_ONCE:
                yield
        offset = skip_tagged_fields(data, offset)
    except (struct.error, IndexError) as error:
        raise MalformedMessage("the Fetch response ends before its content does") from error
    if offset != end:
        raise MalformedMessage(f"{end - offset} bytes follow on the Fetch response")
    return Fetched(error_code, session_id, topics)


def _row(data: memoryview, offset: int, end: int) -> tuple[FetchedRow, int]:
    index, error_code, high_watermark, _, log_start_offset = _DATA(data, offset)
    offset += _DATA_BYTES
    if data[offset] > 1:  # transactions that were aborted, which a follower sees for itself
        offset = _skip_aborted(data, offset, end)
    else:
        offset += 1
    size_bytes, offset = read_uvarint(data, offset + 4)
    records: bytes | memoryview = _NO_RECORDS
    if size_bytes > 1:
        records_end = offset + size_bytes - 1
        if records_end > end:
            raise MalformedMessage(f"records of {size_bytes - 1} bytes, in {end - offset} bytes")
        records = data[offset:records_end]
        offset = records_end
    diverging = None
    if data[offset]:
        diverging, offset = _tagged(data, offset, end)
    else:
        offset += 1
    row = (index, error_code, high_watermark, log_start_offset, records, diverging)
    return _new_row(FetchedRow, row), offset


def _skip_aborted(data: memoryview, offset: int, end: int) -> int:
    count, offset = read_uvarint(data, offset)
    for _ in range(checked_count(count - 1, end - offset, 17)):
        offset = skip_tagged_fields(data, offset + 16)
    return offset


def _tagged(data: memoryview, offset: int, end: int) -> tuple[tuple[int, int] | None, int]:
    """The diverging epoch among a row's tagged fields, and the offset behind them."""
    diverging = None
    count, offset = read_uvarint(data, offset)
    for _ in range(checked_count(count, end - offset, 2)):
        tag, offset = read_uvarint(data, offset)
        size_bytes, offset = read_uvarint(data, offset)
        if offset + size_bytes > end:
            raise MalformedMessage(f"a tagged field of {size_bytes} bytes, in {end - offset} bytes")
        if tag == 0:
            if size_bytes < _DIVERGING_BYTES:
                raise MalformedMessage(f"a diverging epoch of {size_bytes} bytes")
            epoch, end_offset = _DIVERGING(data, offset)
            diverging = (epoch, end_offset) if epoch >= 0 or end_offset >= 0 else None
        offset += size_bytes
    return diverging, offset
