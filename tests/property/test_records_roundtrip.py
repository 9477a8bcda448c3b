"""Any records survive a batch; any bytes give records or our own error; codecs invert themselves."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.common.records.batch import BatchView, CorruptBatch, iter_batches, seal
from moldau.common.records.builder import build_batch
from moldau.common.records.compression import CODEC_NAMES, CompressionFailure, compress, decompress
from moldau.common.records.record import Record, decode_varint, encode_varint

TIMES = st.integers(-1, 2**62)
OPTIONAL_BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=10), OPTIONAL_BYTES), max_size=3)


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    gaps = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=20))
    offset, result = draw(st.integers(0, 2**40)), []
    for gap in gaps:
        result.append(Record(offset, draw(TIMES), draw(OPTIONAL_BYTES), draw(OPTIONAL_BYTES), draw(HEADERS)))
        offset += gap
    return result


@given(records=records(), compression=st.sampled_from(CODEC_NAMES))
def test_records_survive(records: list[Record], compression: str) -> None:
    data = build_batch(records, base_offset=records[0].offset, compression=compression)
    (view,) = iter_batches(data)
    assert view.crc_is_valid()
    assert list(view.records()) == records
    assert view.max_timestamp_ms == max(record.timestamp_ms for record in records)


@given(
    records=records(),
    compression=st.sampled_from(CODEC_NAMES),
    edits=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=5),
)
@settings(max_examples=300)
def test_damaged_batches_give_records_or_our_error(
    records: list[Record], compression: str, edits: list[tuple[int, int]]
) -> None:
    data = bytearray(build_batch(records, base_offset=records[0].offset, compression=compression))
    for position, value in edits:
        data[position % len(data)] = value
    seal(data)
    try:
        for view in iter_batches(data):
            list(view.records(size_max=1 << 20))
    except CorruptBatch:
        pass


@given(st.binary(max_size=300))
def test_any_bytes_are_batches_or_our_error(data: bytes) -> None:
    try:
        for view in iter_batches(data, allow_partial_tail=True):
            list(view.records(size_max=1 << 20))
    except CorruptBatch:
        pass


@given(codec=st.integers(0, 4), data=st.binary(max_size=5000))
def test_codecs_invert_themselves(codec: int, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data


@given(codec=st.integers(0, 7), data=st.binary(max_size=500))
@settings(max_examples=300)
def test_any_bytes_decompress_or_fail_as_ours(codec: int, data: bytes) -> None:
    with contextlib.suppress(CompressionFailure):
        assert len(bytes(decompress(codec, data, 1 << 20))) <= 1 << 20 or codec == 0


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints(number: int) -> None:
    out = bytearray()
    encode_varint(number, out)
    assert decode_varint(out, 0, 10) == (number, len(out))
    assert len(out) <= 10


def test_a_view_says_what_it_is() -> None:
    assert "offsets 3-3" in repr(BatchView(build_batch([Record(3, 1, None, None)], base_offset=3)))
