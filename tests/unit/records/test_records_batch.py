"""Batches and records: what is built is read again, what is damaged is refused."""

import contextlib
import struct

import pytest

from moldau.common.records.batch import (
    HEADER_BYTES,
    BatchView,
    CorruptBatch,
    TimestampType,
    iter_batches,
    last_sequence,
    place,
    seal,
    stamp_append_time,
)
from moldau.common.records.builder import build_batch, build_simple_batch
from moldau.common.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
    control_type,
    parse_end_transaction_marker,
)
from moldau.common.records.record import Record, decode_varint, encode_varint, records_fill_payload

RECORDS = [
    Record(5, 1000, b"key", b"value", [("name", b"x"), ("empty", b""), ("null", None)]),
    Record(6, 990, None, b"no key"),
    Record(9, 1_000_000, b"tombstone", None),
]


def test_what_is_built_can_be_read() -> None:
    data = build_batch(
        RECORDS,
        base_offset=5,
        compression="zstd",
        producer_id=77,
        producer_epoch=3,
        base_sequence=10,
        leader_epoch=2,
        transactional=True,
    )
    view = BatchView(data)
    assert view.crc_is_valid()
    assert (view.base_offset, view.last_offset, view.next_offset, view.count) == (5, 9, 10, 3)
    assert (view.base_timestamp_ms, view.max_timestamp_ms) == (1000, 1_000_000)
    assert (view.producer_id, view.producer_epoch, view.base_sequence, view.last_sequence) == (77, 3, 10, 14)
    assert (view.is_transactional, view.is_control, view.codec, view.leader_epoch) == (True, False, 4, 2)
    assert list(view.records()) == [
        Record(5, 1000, b"key", b"value", [("name", b"x"), ("empty", b""), ("null", None)]),
        Record(6, 990, None, b"no key", []),
        Record(9, 1_000_000, b"tombstone", None, []),
    ]


def test_the_place_may_change_without_the_crc() -> None:
    data = bytearray(build_simple_batch([(b"k", b"v")], 1000))
    place(data, 123_456_789_012, 42)
    view = BatchView(data)
    assert (view.base_offset, view.leader_epoch, view.crc_is_valid()) == (123_456_789_012, 42, True)


def test_append_time_replaces_the_records_times() -> None:
    data = bytearray(build_simple_batch([(b"k", b"v"), (b"k", b"w")], 1000))
    stamp_append_time(data, 5000)
    view = BatchView(data)
    assert view.crc_is_valid()
    assert view.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in view.records()] == [5000, 5000]


def test_a_delete_horizon_is_the_base_of_the_deltas() -> None:
    data = build_batch([Record(0, 1000, b"k", None)], delete_horizon_ms=50)
    view = BatchView(data)
    assert view.delete_horizon_ms == 50
    assert [record.timestamp_ms for record in view.records()] == [1000]


def test_an_emptied_batch_keeps_its_offsets() -> None:
    view = BatchView(build_batch([], base_offset=10, last_offset_delta=4))
    assert (view.base_offset, view.last_offset, list(view.records())) == (10, 14, [])


def test_the_wire_form_is_kafkas() -> None:
    """The bytes of one record, worked out by hand from the format's description."""
    data = build_batch([Record(0, 7, b"k", b"vv", [("h", None)])])
    assert data[HEADER_BYTES:].hex() == "18" + "00" + "00" + "00" + "026b" + "047676" + "02" + "0268" + "01"


@pytest.mark.parametrize("cut", [0, 1, 11, 12, 16, 60])
def test_several_batches_and_a_part(cut: int) -> None:
    one, two = build_simple_batch([(b"a", b"b")], 1), build_simple_batch([(b"c", b"d" * 99)], 1)
    data = one + two
    assert [view.size_bytes for view in iter_batches(data)] == [len(one), len(two)]
    part = data + one[:cut]
    assert len(list(iter_batches(part, allow_partial_tail=True))) == 2
    if cut:
        with pytest.raises(CorruptBatch):
            list(iter_batches(part))


@pytest.mark.parametrize(
    ("layout", "offset", "value"), [(">i", 8, 3), (">i", 8, 10_000), (">b", 16, 1), (">b", 16, -1)]
)
def test_headers_that_cannot_be(layout: str, offset: int, value: int) -> None:
    data = bytearray(build_simple_batch([(b"a", b"b")], 1))
    struct.pack_into(layout, data, offset, value)
    with pytest.raises(CorruptBatch):
        list(iter_batches(data))


@pytest.mark.parametrize("count", [0, 1, 3, 2_000_000_000])
def test_a_wrong_count_is_found_when_the_records_are_read(count: int) -> None:
    data = bytearray(build_simple_batch([(b"a", b"b"), (b"c", b"d")], 1))
    struct.pack_into(">i", data, 57, count)
    with pytest.raises(CorruptBatch):
        list(BatchView(data).records())


def test_every_changed_byte_of_the_records_gives_records_or_our_error() -> None:
    original = build_batch(RECORDS, base_offset=5)
    for position in range(HEADER_BYTES, len(original)):
        for value in (0x00, 0x7F, 0x80, 0xFF):
            data = bytearray(original)
            data[position] = value
            seal(data)
            with contextlib.suppress(CorruptBatch):
                list(BatchView(data).records())


def test_lengths_alone_tell_whether_records_fill_the_batch() -> None:
    for sizes in ([0], [55], [56], [57, 8190], [8200, 0, 1]):
        data = build_simple_batch([(None, b"x" * size) for size in sizes], 1)
        for count in range(1, 6):
            assert records_fill_payload(data, HEADER_BYTES, count) == (count == len(sizes))


@pytest.mark.parametrize("number", [0, -1, 1, 63, 64, -64, -65, 2**31 - 1, -(2**31), 2**62, -(2**63)])
def test_varints(number: int) -> None:
    out = bytearray()
    encode_varint(number, out)
    assert decode_varint(bytes(out), 0, 10) == (number, len(out))
    with pytest.raises(ValueError, match="breaks off"):
        decode_varint(bytes(out[:-1]), 0, 10)


def test_sequences_wrap() -> None:
    assert last_sequence(2**31 - 1, 0) == 2**31 - 1
    assert last_sequence(2**31 - 1, 1) == 0
    assert last_sequence(-1, 5) == -1


def test_transaction_markers() -> None:
    for kind in (ControlType.ABORT, ControlType.COMMIT):
        marker = EndTransactionMarker(kind, 12)
        data = build_end_transaction_marker(
            marker, producer_id=5, producer_epoch=1, timestamp_ms=9, base_offset=3
        )
        view = BatchView(data)
        assert (view.is_control, view.is_transactional, view.base_offset) == (True, True, 3)
        assert [parse_end_transaction_marker(record) for record in view.records()] == [marker]
    assert control_type(struct.pack(">hh", 0, 99)) == ControlType.UNKNOWN
    with pytest.raises(ValueError, match="too short"):
        control_type(b"\0")
