"""Looking at a batch's records without making objects of them: where each begins, its offset, its key,
whether it has a value.

    | length v | attributes 1 | timestamp delta v | offset delta v | key length v | key | value length v | ...

`v` is a zigzag varint. A length of -1 is the one byte 1, so "no key" and "no value" are single comparisons.

HOT: `map_keys` and `judge_keys` are one loop each, written out, because a call per record would cost as much
as the record. Budget: 1 microsecond a record without digest and table. Any bytes give a result or
`CorruptBatch`.
"""

from moldau.log.compaction.offset_map import GONE, LATEST, LATEST_TOMBSTONE, OffsetMap
from moldau.records.batch import CorruptBatch

NULL = 1
_NUMBER_BYTES_MAX = 10


def read_number(data: bytes, position: int) -> tuple[int, int]:
    """The varint at `position`, still zigzagged, and where it ends: for those of more than two bytes."""
    result = shift = 0
    for place in range(position, position + _NUMBER_BYTES_MAX):
        byte = data[place]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, place + 1
        shift += 7
    raise CorruptBatch("a variable-length number is too long")


def map_keys(
    keys: OffsetMap, data: bytes, start: int, end: int, count: int, base_offset: int, first_offset: int
) -> tuple[int | None, int]:
    """Put the keys of the records from `first_offset` on into the map.

    Returns the offset of the first that found no room (or None), and how many records had no key.
    """
    put = keys.put
    position = start
    keyless = 0
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
            offset = base_offset + (number >> 1)
            number = data[position]
            if number < 0x80:
                position += 1
            else:
                number, position = read_number(data, position)
            if number != NULL:
                key_end = position + (number >> 1)
                if key_end >= record_end or record_end > end:
                    raise CorruptBatch(f"the key of record {offset} does not fit")
                if offset >= first_offset and not put(
                    data[position:key_end], offset, LATEST_TOMBSTONE if data[key_end] == NULL else LATEST
                ):
                    return offset, keyless
            elif offset >= first_offset:
                keyless += 1
            position = record_end
    except IndexError as error:
        raise CorruptBatch("the records break off") from error
    if position != end:
        raise CorruptBatch(f"{end - position} bytes are left after {count} records")
    return None, keyless


def judge_keys(
    keys: OffsetMap, data: bytes, start: int, end: int, count: int, base_offset: int, end_offset: int
) -> bytearray:
    """One verdict a record: GONE, LATEST, LATEST_TOMBSTONE.

    Records from `end_offset` on, where the map ends, stay whatever they are.
    """
    get = keys.get
    verdicts = bytearray()
    verdict_is = verdicts.append
    position = start
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
            offset = base_offset + (number >> 1)
            number = data[position]
            if number < 0x80:
                position += 1
            else:
                number, position = read_number(data, position)
            if number == NULL:
                if offset < end_offset:
                    verdict_is(GONE)
                else:
                    verdict_is(LATEST_TOMBSTONE if data[position] == NULL else LATEST)
            else:
                key_end = position + (number >> 1)
                if key_end >= record_end or record_end > end:
                    raise CorruptBatch(f"the key of record {offset} does not fit")
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
    window: bytearray, window_start: int, data: bytes, start: int, end: int, count: int, base_offset: int
) -> bytearray:
    """As `judge_keys`, for a batch whose offsets all lie in the map's window: no key is looked up."""
    verdicts = bytearray()
    verdict_is = verdicts.append
    position = start
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
            record_end = position + (number >> 1)
            position += 1
            while data[position] > 0x7F:
                position += 1
            number = data[position + 1]
            if number > 0x7F:
                if data[position + 2] < 0x80:
                    number = number & 0x7F | data[position + 2] << 7
                else:
                    number, _ = read_number(data, position + 1)
            verdict_is(window[shift + (number >> 1)])
            position = record_end
    except IndexError as error:
        raise CorruptBatch("the records break off") from error
    if position != end:
        raise CorruptBatch(f"{end - position} bytes are left after {count} records")
    return verdicts
