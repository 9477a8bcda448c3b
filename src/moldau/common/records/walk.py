"""Walks over a batch's records without an object for each: lengths, deltas, presence of a key.

A few hundred bytes decompress to millions of records. A caller that must look at all of them (a check that a
topic's settings demand, a search by time) processes a part of them at a time, and gets the first record that
matters; only that one is decoded (record.py).

    check   stops at a record whose offset delta is not its index in the batch, that lacks a required key, or
            whose timestamp is outside the limits
    find    stops at the first record with at least this timestamp and this offset delta

Both refuse as MALFORMED what `decode_records` refuses, and a timestamp of more than 64 bits. They are
compiled (`_walk.c`: some ten nanoseconds a record, without the GIL) or, without a compiler, the twins below
(some two hundred times slower): the same arguments, results and tests.

Not here: decompression (compression.py), which error a record causes (appending/inspection.py).
"""

from collections.abc import Callable
from time import sleep
from typing import TypeAlias

from moldau.common.core.kernels import kernel
from moldau.common.records.record import decode_varint

_compiled = kernel("moldau.common.records._walk")

Readable: TypeAlias = bytes | bytearray | memoryview

WALKED, MALFORMED, NOTICED = range(3)
"""Why a walk ended: all asked for is walked; the next record is malformed; the next record matters."""
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
NO_TIMESTAMP = -1
_VARINT_BYTES_MAX = 5
_VARLONG_BYTES_MAX = 10


def check_in_python(
    payload: Readable,
    position: int,
    index: int,
    stop: int,
    base_timestamp_ms: int,
    keys: bool,
    oldest_ms: int,
    newest_ms: int,
    max_timestamp_ms: int,
) -> tuple[int, int, int, int]:
    """Walk from record `index`, which begins at `position`, to record `stop`.

    Returns (why it ended, the position and the index of the next record, the largest timestamp so far). A
    record without a timestamp (-1) is within all limits. All times in milliseconds, of 64 bits.
    """
    while index < stop:
        try:
            after, timestamp_ms, offset_delta, has_key = _read(payload, position, base_timestamp_ms)
        except ValueError:
            return MALFORMED, position, index, max_timestamp_ms
        if (
            offset_delta != index
            or (keys and not has_key)
            or (timestamp_ms != NO_TIMESTAMP and not oldest_ms <= timestamp_ms <= newest_ms)
        ):
            return NOTICED, position, index, max_timestamp_ms
        max_timestamp_ms = max(max_timestamp_ms, timestamp_ms)
        position = after
        index += 1
    return WALKED, position, index, max_timestamp_ms


def find_in_python(
    payload: Readable,
    position: int,
    index: int,
    stop: int,
    base_timestamp_ms: int,
    wanted_ms: int,
    first_delta: int,
) -> tuple[int, int, int, int, int]:
    """Walk as `check` does, to the first record that is at least `wanted_ms` old and `first_delta` far.

    Returns (why it ended, position, index, that record's timestamp and offset delta, or -1 and -1).
    """
    while index < stop:
        try:
            after, timestamp_ms, offset_delta, _ = _read(payload, position, base_timestamp_ms)
        except ValueError:
            return MALFORMED, position, index, -1, -1
        if timestamp_ms >= wanted_ms and offset_delta >= first_delta:
            return NOTICED, position, index, timestamp_ms, offset_delta
        position = after
        index += 1
    return WALKED, position, index, -1, -1


def _read(payload: Readable, position: int, base_timestamp_ms: int) -> tuple[int, int, int, bool]:
    """(where the next record begins, timestamp, offset delta, whether there is a key) of the record here."""
    length, position = decode_varint(payload, position, _VARINT_BYTES_MAX)
    end = position + length
    if length < 1 or end > len(payload):
        raise ValueError("the record does not fit")
    time_delta_ms, position = decode_varint(payload, position + 1, _VARLONG_BYTES_MAX)
    offset_delta, position = decode_varint(payload, position, _VARINT_BYTES_MAX)
    key_bytes, position = _skip_field(payload, position, end)
    _, position = _skip_field(payload, position, end)
    header_count, position = decode_varint(payload, position, _VARINT_BYTES_MAX)
    if not 0 <= header_count <= end - position:
        raise ValueError("the headers do not fit")
    for _ in range(header_count):
        name_bytes, position = _skip_field(payload, position, end)
        if name_bytes < 0:
            raise ValueError("a header has no name")
        _, position = _skip_field(payload, position, end)
    timestamp_ms = base_timestamp_ms + time_delta_ms
    if position != end or not INT64_MIN <= timestamp_ms <= INT64_MAX:
        raise ValueError("the record's fields do not fill it, or its timestamp exceeds 64 bits")
    return end, timestamp_ms, offset_delta, key_bytes >= 0


def _skip_field(payload: Readable, position: int, end: int) -> tuple[int, int]:
    """(the field's length, -1 for null; the position after it)."""
    length, position = decode_varint(payload, position, _VARINT_BYTES_MAX)
    if length == -1:
        return length, position
    if length < 0 or length > end - position:
        raise ValueError("a field does not fit")
    return length, position + length


Check = Callable[[Readable, int, int, int, int, bool, int, int, int], tuple[int, int, int, int]]
Find = Callable[[Readable, int, int, int, int, int, int], tuple[int, int, int, int, int]]

is_compiled = _compiled is not None
"""Whether the kernel walks in this process."""
check: Check = _compiled.check if _compiled is not None else check_in_python
find: Find = _compiled.find if _compiled is not None else find_in_python
STRETCH_RECORDS = 50_000 if is_compiled else 250
"""So many records are walked in less than a millisecond."""


def between_stretches() -> None:
    """Called by a worker thread after each stretch: the twin in Python leaves the GIL to the event loop."""
    if not is_compiled:
        sleep(0.0002)
