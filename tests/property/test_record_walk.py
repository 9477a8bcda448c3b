"""The walk over records, in both twins, against the decoder that makes an object of each record."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.common.core.kernels import built
from moldau.common.records import walk
from moldau.common.records.batch import BatchView
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record, decode_records, encode_varint
from moldau.common.records.walk import INT64_MAX, INT64_MIN, MALFORMED, NOTICED, WALKED

TWINS = [pytest.param(walk.check_in_python, walk.find_in_python, id="python")]
if (compiled := built("moldau.common.records._walk")) is not None:
    TWINS.append(pytest.param(compiled.check, compiled.find, id="compiled"))

RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(-1, 300),
        st.none() | st.binary(max_size=6),
        st.none() | st.binary(max_size=80),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
    ),
    min_size=1,
    max_size=12,
)
BASE_MS = 1_700_000_000_000


def payload_of(records: list[Record], rng: random.Random, damage: int) -> tuple[bytes, int]:
    """The records' bytes, with so many of them changed, cut off or added; the base timestamp."""
    placed = [
        each._replace(offset=index, timestamp_ms=BASE_MS + each.timestamp_ms)
        for index, each in enumerate(records)
    ]
    view = BatchView(build_batch(placed))
    data = bytearray(view.payload())
    for _ in range(damage):
        kind = rng.randrange(4)
        at = rng.randrange(len(data) + 1)
        if kind == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randrange(4)]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 12))
        elif at < len(data):
            data[at] ^= 0x80
    return bytes(data), view.base_timestamp_ms


def decoded(payload: bytes, count: int, base_ms: int) -> tuple[list[Record], bool]:
    """The records that can be read, and whether that is all of them."""
    records: list[Record] = []
    try:
        for record in decode_records(payload, count, 0, base_ms, None):
            if not INT64_MIN <= record.timestamp_ms <= INT64_MAX:
                return records, False
            records.append(record)
    except ValueError as error:
        return records, "bytes are left after" in str(error)  # (the walk leaves those to its caller)
    return records, True


@pytest.mark.parametrize(("check", "find"), TWINS)
@given(
    records=RECORDS,
    seed=st.integers(0, 2**32),
    damage=st.integers(0, 3),
    more=st.integers(-1, 1),
    keys=st.booleans(),
    oldest=st.integers(-2, 310),
    span=st.integers(0, 400),
    start=st.integers(0, 12),
)
@settings(max_examples=400, deadline=None)
def test_it_stops_where_the_decoder_says(
    check: walk.Check,
    find: walk.Find,
    records: list[Record],
    seed: int,
    damage: int,
    more: int,
    keys: bool,
    oldest: int,
    span: int,
    start: int,
) -> None:
    payload, base_ms = payload_of(records, random.Random(seed), damage)
    count = max(1, len(records) + more)
    read, whole = decoded(payload, count, base_ms)
    oldest_ms, newest_ms = BASE_MS + oldest, BASE_MS + oldest + span

    def matters(index: int, record: Record) -> bool:
        outside = record.timestamp_ms != -1 and not oldest_ms <= record.timestamp_ms <= newest_ms
        return record.offset != index or (keys and record.key is None) or outside

    stops = [index for index, record in enumerate(read) if matters(index, record)]
    expected = (NOTICED, stops[0]) if stops else (WALKED if whole else MALFORMED, len(read))
    outcome, position, index, newest = check(payload, 0, 0, count, base_ms, keys, oldest_ms, newest_ms, -1)
    assert (outcome, index) == expected
    assert newest == max([-1, *(each.timestamp_ms for each in read[:index])])
    if outcome == WALKED:
        assert (position == len(payload)) == (len(read) == count and _no_rest(payload, count, base_ms))

    hits = [
        (index, each.timestamp_ms, each.offset)
        for index, each in enumerate(read)
        if each.timestamp_ms >= oldest_ms and each.offset >= start
    ]
    outcome, _, index, timestamp_ms, delta = find(payload, 0, 0, count, base_ms, oldest_ms, start)
    if hits:
        assert (outcome, index, timestamp_ms, delta) == (NOTICED, *hits[0])
    else:
        found = (outcome, index, timestamp_ms, delta)
        assert found == (WALKED if whole else MALFORMED, len(read), -1, -1)


def _no_rest(payload: bytes, count: int, base_ms: int) -> bool:
    try:
        list(decode_records(payload, count, 0, base_ms, None))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(("check", "find"), TWINS)
@given(records=RECORDS, cut=st.integers(0, 12))
@settings(max_examples=100, deadline=None)
def test_a_walk_in_stretches_is_the_walk_in_one(
    check: walk.Check, find: walk.Find, records: list[Record], cut: int
) -> None:
    payload, base_ms = payload_of(records, random.Random(0), 0)
    count = len(records)
    limits = (False, INT64_MIN, INT64_MAX)
    whole = check(payload, 0, 0, count, base_ms, *limits, -1)
    assert whole[:3] == (WALKED, len(payload), count)
    _, position, index, newest = check(payload, 0, 0, min(cut, count), base_ms, *limits, -1)
    assert check(payload, position, index, count, base_ms, *limits, newest) == whole


@pytest.mark.parametrize(("check", "find"), TWINS)
@pytest.mark.parametrize("delta", [INT64_MAX, INT64_MIN, 2**62, -(2**62)])
@pytest.mark.parametrize("base_ms", [INT64_MAX, INT64_MIN, 0, 2**62, -(2**62)])
def test_a_timestamp_of_more_than_64_bits_is_malformed(
    check: walk.Check, find: walk.Find, delta: int, base_ms: int
) -> None:
    body = bytearray(1)
    encode_varint(delta, body)
    payload = bytearray()
    encode_varint(len(body) + 4, payload)
    payload += body + b"\x00\x01\x01\x00"
    fits = INT64_MIN <= base_ms + delta <= INT64_MAX
    outcome, *_ = check(payload, 0, 0, 1, base_ms, False, INT64_MIN, INT64_MAX, -1)
    assert outcome == (WALKED if fits else MALFORMED)
    outcome, *_ = find(payload, 0, 0, 1, base_ms, INT64_MIN, 0)
    assert outcome == (NOTICED if fits else MALFORMED)


@pytest.mark.parametrize(("check", "find"), TWINS[1:])
def test_the_compiled_walk_takes_no_place_outside_its_payload(check: walk.Check, find: walk.Find) -> None:
    for position in (-1, 5, INT64_MAX):
        with pytest.raises(ValueError, match="outside"):
            check(b"1234", position, 0, 1, 0, False, 0, 0, -1)
        with pytest.raises(ValueError, match="outside"):
            find(b"1234", position, 0, 1, 0, 0, 0)
