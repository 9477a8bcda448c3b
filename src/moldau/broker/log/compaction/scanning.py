"""The loops over a batch's records, which make no objects of them: where each begins, its offset, its key,
whether it has a value; and copying those that stay. In Python: `_kernel.c` is the compiled twin.

    | length v | attributes 1 | timestamp delta v | offset delta v | key length v | key | value length v | ...

`v` is a zigzag varint. A length of -1 is the one byte 1, so "no key" and "no value" are single comparisons.

A record is malformed if its fields do not fit its length, or its length the payload, and if its offset delta
is not above the one before it and at most the batch's last. Any bytes give a result or `CorruptBatch`.

HOT: `map_keys` and `judge_keys` are one loop each, written out, because a call per record would cost as much
as the record. Budget: 1.2 microseconds a record without digest and table.
"""

from typing import NoReturn

from moldau.broker.log.compaction.offset_map import GONE, LATEST, LATEST_TOMBSTONE, OffsetMap
from moldau.common.records.batch import CorruptBatch
from moldau.common.records.record import encode_varint

NULL = 1
_NUMBER_BYTES_MAX = 10
_NUMBER_BITS = 64


def read_number(data: bytes, position: int) -> tuple[int, int]:
    """The varint at `position`, still zigzagged, and where it ends; CorruptBatch beyond 64 bits.

    For those of more than two bytes.
    """
    result = shift = 0
    for place in range(position, position + _NUMBER_BYTES_MAX):
        byte = data[place]
        result |= (byte & 0x7F) << shift
        if byte < 0x80 and not result >> _NUMBER_BITS:
            return result, place + 1
        shift += 7
    raise CorruptBatch("a variable-length number is too long")


def _refuse(position: int, end: int) -> NoReturn:
    raise CorruptBatch(f"the record that begins before byte {position} of {end} does not fit")


def map_keys(
    keys: OffsetMap,
    data: bytes,
    start: int,
    end: int,
    count: int,
    base_offset: int,
    last_delta: int,
    first_offset: int,
) -> tuple[int | None, int]:
    """Put the keys of the records from `first_offset` on into the map.

    Returns the offset of the first that found no room (or None), and how many records had no key.
    """
    put = keys.put
    position = start
    keyless = 0
    previous, last = -1, last_delta << 1
    try:
        for _ in range(count):
            number = data[position]
            if number < 0x80:
                position += 1
            elif data[position + 1] < 0x80:
                number = number & 0x7F | data[position + 1] << 7
                position += 2
            else:
                number, position = read_number(data, position)
            length = number
            record_end = position + (number >> 1)
            position += 1
            while data[position] > 0x7F:
                position += 1
            number = data[position + 1]
            if number < 0x80:
                position += 2
            elif data[position + 2] < 0x80:
                number = number & 0x7F | data[position + 2] << 7
                position += 3
            else:
                number, position = read_number(data, position + 1)
            if not previous < number <= last or (number | length) & 1:
                _refuse(position, end)
            previous = number
            offset = base_offset + (number >> 1)
            number = data[position]
            if number < 0x80:
                position += 1
            else:
                number, position = read_number(data, position)
            if number != NULL:
                key_end = position + (number >> 1)
                if key_end >= record_end or record_end > end or number & 1:
                    _refuse(position, end)
                if offset >= first_offset and not put(
                    data[position:key_end], offset, LATEST_TOMBSTONE if data[key_end] == NULL else LATEST
                ):
                    return offset, keyless
            elif position >= record_end or record_end > end:
                _refuse(position, end)
            elif offset >= first_offset:
                keyless += 1
            position = record_end
    except IndexError as error:
        raise CorruptBatch("the records break off") from error
    if position != end:
        raise CorruptBatch(f"{end - position} bytes are left after {count} records")
    return None, keyless


def judge_keys(
    keys: OffsetMap,
    data: bytes,
    start: int,
    end: int,
    count: int,
    base_offset: int,
    last_delta: int,
    end_offset: int,
) -> bytearray:
    """One verdict a record: GONE, LATEST, LATEST_TOMBSTONE.

    Records from `end_offset` on, where the map ends, stay whatever they are.
    """
    get = keys.get
    verdicts = bytearray()
    verdict_is = verdicts.append
    position = start
    previous, last = -1, last_delta << 1
    try:
        for _ in range(count):
            number = data[position]
            if number < 0x80:
                position += 1
            elif data[position + 1] < 0x80:
                number = number & 0x7F | data[position + 1] << 7
                position += 2
            else:
                number, position = read_number(data, position)
            length = number
            record_end = position + (number >> 1)
            position += 1
            while data[position] > 0x7F:
                position += 1
            number = data[position + 1]
            if number < 0x80:
                position += 2
            elif data[position + 2] < 0x80:
                number = number & 0x7F | data[position + 2] << 7
                position += 3
            else:
                number, position = read_number(data, position + 1)
            if not previous < number <= last or (number | length) & 1:
                _refuse(position, end)
            previous = number
            offset = base_offset + (number >> 1)
            number = data[position]
            if number < 0x80:
                position += 1
            else:
                number, position = read_number(data, position)
            if number == NULL:
                if position >= record_end or record_end > end:
                    _refuse(position, end)
                if offset < end_offset:
                    verdict_is(GONE)
                else:
                    verdict_is(LATEST_TOMBSTONE if data[position] == NULL else LATEST)
            else:
                key_end = position + (number >> 1)
                if key_end >= record_end or record_end > end or number & 1:
                    _refuse(position, end)
                # (The map holds no offset from `end_offset` on.)
                if get(data[position:key_end]) > offset:
                    verdict_is(GONE)
                else:
                    verdict_is(LATEST_TOMBSTONE if data[key_end] == NULL else LATEST)
            position = record_end
    except IndexError as error:
        raise CorruptBatch("the records break off") from error
    if position != end:
        raise CorruptBatch(f"{end - position} bytes are left after {count} records")
    return verdicts


def verdicts_by_offset(
    window: bytearray,
    window_start: int,
    data: bytes,
    start: int,
    end: int,
    count: int,
    base_offset: int,
    last_delta: int,
) -> bytearray:
    """As `judge_keys`, for a batch whose offsets all lie in the map's window: no key is looked up."""
    verdicts = bytearray()
    verdict_is = verdicts.append
    position = start
    previous, last = -1, last_delta << 1
    shift = base_offset - window_start
    try:
        for _ in range(count):
            number = data[position]
            if number < 0x80:
                position += 1
            elif data[position + 1] < 0x80:
                number = number & 0x7F | data[position + 1] << 7
                position += 2
            else:
                number, position = read_number(data, position)
            length = number
            record_end = position + (number >> 1)
            position += 1
            while data[position] > 0x7F:
                position += 1
            number = data[position + 1]
            if number < 0x80:
                position += 2
            elif data[position + 2] < 0x80:
                number = number & 0x7F | data[position + 2] << 7
                position += 3
            else:
                number, position = read_number(data, position + 1)
            if (
                not previous < number <= last
                or (number | length) & 1
                or position > record_end
                or record_end > end
            ):
                _refuse(position, end)
            previous = number
            verdict_is(window[shift + (number >> 1)])
            position = record_end
    except IndexError as error:
        raise CorruptBatch("the records break off") from error
    if position != end:
        raise CorruptBatch(f"{end - position} bytes are left after {count} records")
    return verdicts


def keep_records(
    data: bytes, start: int, end: int, kept: bytes | bytearray, shift_ms: int | None
) -> tuple[bytearray, int]:
    """Those records, one after the other, for which `kept` holds a byte that is not 0, and their largest
    timestamp delta (-2^63 when none is kept).

    Without `shift_ms` neighbours are copied together, as they are; with it, it is added to every timestamp
    delta, in 64 bits that wrap.
    """
    body = bytearray()
    newest_delta_ms = -(1 << 63)
    position = run_start = start
    try:
        for keep in kept:
            begin = position
            length = data[position]
            if length < 0x80:
                position += 1
            elif data[position + 1] < 0x80:
                length = length & 0x7F | data[position + 1] << 7
                position += 2
            else:
                length, position = read_number(data, position)
            record_end = position + (length >> 1)
            if record_end > end or length & 1:
                _refuse(position, end)
            if keep:
                number, after = read_number(data, position + 1)
                if after > record_end:
                    _refuse(position, end)
                delta_ms = (number >> 1) ^ -(number & 1)
                if delta_ms > newest_delta_ms:  # noqa: PLR1730 (max() takes three times as long)
                    newest_delta_ms = delta_ms
                if shift_ms is not None:
                    record = bytearray(data[position : position + 1])
                    encode_varint(_wrapped(delta_ms + shift_ms), record)
                    record += data[after:record_end]
                    encode_varint(len(record), body)
                    body += record
            elif shift_ms is None:
                if run_start < begin:
                    body += data[run_start:begin]
                run_start = record_end
            position = record_end
    except IndexError as error:
        raise CorruptBatch("the records break off") from error
    if position != end:
        raise CorruptBatch(f"{end - position} bytes are left after {len(kept)} records")
    if shift_ms is None:
        body += data[run_start:position]
    return body, newest_delta_ms


def _wrapped(number: int) -> int:
    """As arithmetic in 64 bits leaves it."""
    return (number + (1 << 63)) % (1 << _NUMBER_BITS) - (1 << 63)
