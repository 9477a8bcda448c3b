"""Records as columns: the compiled builder, its twin in Python and records/record.py agree on every batch,
and on every damaged one, whatever the sizes of the record batches that come out.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pyarrow as pa
import pytest

from moldau.client import arrow, columns, columns_vector
from moldau.client.errors import CorruptRecords
from moldau.common.records.batch import BatchView, CorruptBatch, TimestampType, seal
from moldau.common.records.builder import build_batch
from moldau.common.records.compression import CODEC_NAMES
from moldau.common.records.record import Record, encode_varint

KERNELS = ("python", "compiled")
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each builder in turn."""
    if request.param == "compiled" and columns.compiled is None:
        pytest.skip("the compiled builder is not installed: there was no C compiler")
    monkeypatch.setenv("MOLDAU_COLUMNS", request.param)
    assert columns.decoder_name() == request.param
    return str(request.param)


def random_bytes(rng: random.Random) -> bytes | None:
    kind = rng.random()
    if kind < 0.2:
        return None
    if kind < 0.3:
        return b""
    return rng.randbytes(rng.choice((1, 5, 63, 64, 128, 300, 20_000)) if kind < 0.5 else rng.randrange(20))


def random_records(rng: random.Random, base_offset: int) -> list[Record]:
    offset, records = base_offset, []
    uniform = rng.random() < 0.3
    time_ms = rng.choice((0, -1, 1_700_000_000_000, INT64_MAX // 1000 - 5))
    for _ in range(rng.choice((1, 2, 7, 8, 9, 100, 700))):
        headers = [
            (rng.choice(("", "name", "größe", "😀")), random_bytes(rng))
            for _ in range(0 if uniform else rng.choice((0, 0, 0, 1, 3)))
        ]
        key = b"k" * 8 if uniform else random_bytes(rng)
        value = b"v" * 100 if uniform else random_bytes(rng)
        records.append(Record(offset, time_ms + rng.choice((0, 1, -1, 70_000)), key, value, headers))
        offset += 1 if rng.random() < 0.9 else rng.randrange(1, 200)
    return records


def random_batch(rng: random.Random, base_offset: int) -> bytes:
    append_time = rng.random() < 0.3
    records = random_records(rng, base_offset)
    return build_batch(
        records,
        base_offset=base_offset,
        compression=rng.choice(CODEC_NAMES),
        timestamp_type=TimestampType(int(append_time)),
        append_time_ms=1_800_000_000_000 if append_time else None,
        last_offset_delta=records[-1].offset - base_offset + rng.choice((0, 0, 3)),
    )


def expected_rows(batches: list[BatchView], start: int, end: int, headers: bool) -> list[dict[str, object]]:
    """What records/record.py and plain Python make of the batches."""
    rows = []
    for batch in batches:
        for record in batch.records():
            if not start <= record.offset < end:
                continue
            row: dict[str, object] = {
                "key": record.key,
                "value": record.value,
                "topic": "t",
                "partition": 3,
                "offset": record.offset,
                "timestamp": min(max(record.timestamp_ms * 1000, INT64_MIN), INT64_MAX),
                "timestampType": int(batch.timestamp_type),
            }
            if headers:
                row["headers"] = [{"key": k, "value": v} for k, v in record.headers] or None
            rows.append(row)
    return rows


def plain(batch: pa.RecordBatch) -> list[dict[str, object]]:
    """Rows as Python values; timestamps as numbers, since not all of them are dates that Python knows."""
    index = batch.schema.get_field_index("timestamp")
    numbers = batch.column(index).view(pa.int64())
    return batch.set_column(index, "timestamp", numbers).to_pylist()


def decode(
    batches: list[BatchView], start: int, end: int, headers: bool, **limits: int
) -> list[pa.RecordBatch]:
    found = list(arrow.decode_batches(batches, "t", 3, start, end, include_headers=headers, **limits))
    for each in found:
        each.validate(full=True)
        assert each.schema == arrow.ARROW_SCHEMA(headers)
        assert each.num_rows
    return found


@pytest.mark.parametrize("seed", range(40))
def test_columns_hold_what_the_records_say(kernel: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    offset, batches = rng.choice((0, 5, 2**40)), []
    for _ in range(rng.randrange(1, 5)):
        batches.append(BatchView(random_batch(rng, offset)))
        offset = batches[-1].next_offset
    first, last = batches[0].base_offset, batches[-1].next_offset
    start = rng.choice((first, rng.randrange(first, last)))
    end = rng.choice((last, rng.randrange(start, last) + 1))
    headers = rng.random() < 0.5
    rows_max, bytes_max = rng.choice((1, 7, 8, 64, 10_000)), rng.choice((1, 500, 1 << 24))
    found = decode(batches, start, end, headers, rows_max=rows_max, bytes_max=bytes_max)
    assert [row for each in found for row in plain(each)] == expected_rows(batches, start, end, headers)
    assert all(each.num_rows <= rows_max for each in found)
    monkeypatch.setenv("MOLDAU_COLUMNS", "python")
    of_twin = decode(batches, start, end, headers, rows_max=rows_max, bytes_max=bytes_max)
    assert [each.num_rows for each in found] == [each.num_rows for each in of_twin]


def test_a_record_batch_ends_before_the_row_that_is_too_much(kernel: str) -> None:
    # 100 bytes of value, and 1 + 1 + 1 + 1 + 2 + 1 around them
    records = [Record(offset, 0, None, bytes(100)) for offset in range(10)]
    batch = BatchView(build_batch(records))
    for limits, expected in (
        ({"bytes_max": 321}, [3, 3, 3, 1]),
        ({"bytes_max": 320}, [2, 2, 2, 2, 2]),
        ({"bytes_max": 10}, [1] * 10),
        ({"rows_max": 4}, [4, 4, 2]),
    ):
        assert [each.num_rows for each in decode([batch], 0, 10, False, **limits)] == expected


def plain_records(rng: random.Random) -> list[Record]:
    """Enough records without headers for the twin to parse them by columns."""
    return [
        Record(offset, rng.choice((0, 5, 10**6)), random_bytes(rng), b"v" * rng.randrange(100))
        for offset in range(rng.randrange(columns.PLAIN_RECORDS_MIN, 40))
    ]


def test_plain_records_are_parsed_by_columns() -> None:
    payload = build_batch(plain_records(random.Random(1)))[61:]
    parsed = columns_vector.parse_plain(payload, 0, columns.PLAIN_RECORDS_MIN)
    assert parsed is not None
    assert parsed[0].offset_deltas.tolist() == list(range(columns.PLAIN_RECORDS_MIN))
    with_header = build_batch([Record(0, 0, None, b"v", [("name", None)])])[61:]
    assert columns_vector.parse_plain(with_header, 0, 1) is None


def test_without_the_kernel_its_twin_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "compiled", None)
    assert columns.decoder_name() == "python"
    assert isinstance(columns.make_columns(False), columns.PythonColumns)


def mutations(rng: random.Random, payload: bytes) -> Iterator[bytes]:
    """Damaged forms of a payload: bits, cuts, insertions, lengths that lie."""
    for _ in range(60):
        damaged = bytearray(payload)
        for _ in range(rng.choice((1, 1, 1, 3))):
            at = rng.randrange(len(damaged))
            kind = rng.randrange(6)
            if kind == 0:
                damaged[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                damaged[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
            elif kind == 2:
                del damaged[at : at + rng.randrange(1, 4)]
            elif kind == 3:
                damaged[at:at] = rng.randbytes(rng.randrange(1, 12))
            elif kind == 4:
                damaged[at : at + 1] = b"\xff" * rng.randrange(1, 11)
            else:
                lie = bytearray()
                encode_varint(rng.choice((-1, -2, 2**31, 2**34 - 1, -(2**34), INT64_MAX, INT64_MIN)), lie)
                damaged[at : at + 1] = lie
            if not damaged:
                break
        yield bytes(damaged)


def with_payload(batch: bytes, payload: bytes, count: int) -> bytes:
    """The batch with another (uncompressed) payload."""
    changed = bytearray(batch[:61]) + payload
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    struct.pack_into(">i", changed, 57, count)
    seal(changed)
    return bytes(changed)


def outcome(batch: BatchView, headers: bool) -> list[dict[str, object]] | str:
    """The rows, or the sentence of the error, without what to do about it."""
    try:
        return [row for each in decode([batch], 0, 2**60, headers) for row in plain(each)]
    except CorruptRecords as error:
        what, told, _ = str(error).partition("; no consumer can read ")
        assert told, what
        return what


@pytest.mark.parametrize("seed", range(30))
def test_damaged_records_are_the_same_error_or_the_same_rows(kernel: str, seed: int) -> None:
    rng = random.Random(1000 + seed)
    records = plain_records(rng) if seed % 2 else random_records(rng, 0)[: rng.choice((1, 2, 5, 30))]
    original = build_batch(records, append_time_ms=None)
    for payload in mutations(rng, original[61:]):
        batch = BatchView(
            with_payload(original, payload, len(records) + rng.choice((0, 0, 0, 1, -1, 2**31 - 40)))
        )
        try:
            expected: list[dict[str, object]] | str = expected_rows([batch], 0, 2**60, True)
        except CorruptBatch as error:
            expected = f"t-3, the batch at offset 0: {error}"
        assert outcome(batch, True) == expected


@pytest.mark.skipif(columns.compiled is None, reason="the compiled builder is not installed")
def test_bytes_of_chance_do_to_the_compiled_builder_what_they_do_to_its_twin() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(4000):
        # Small bytes make plausible lengths, and so reach deeper than chance would.
        payload = bytes(
            rng.choice((0, 1, 2, 4, 6, 10, 20, rng.randrange(256))) for _ in range(rng.randrange(60))
        )
        arguments = (
            rng.randrange(-1, 6),
            rng.choice((0, 7, INT64_MAX - 2)),
            rng.choice((-1, 0, INT64_MAX, INT64_MIN)),
            rng.choice((None, 5, INT64_MIN)),
            0,
            rng.choice((5, INT64_MAX)),
            rng.choice((1, 2, 100)),
            rng.choice((5, 1000)),
        )
        results = []
        for builder in (columns.PythonColumns(True), columns.compiled.Columns(True)):
            position = index = 0
            taken: list[object] = []
            try:
                while True:
                    position, index = builder.add(payload, position, index, *arguments)
                    taken.append(tuple(builder.take()))
                    if index >= arguments[0]:
                        break
            except ValueError:
                taken.append("malformed")
                taken.append(tuple(builder.take()))
            results.append(taken)
        assert results[0] == results[1], (payload, arguments)


def test_a_header_name_that_is_not_utf8_is_repaired(kernel: str) -> None:
    batch = build_batch([Record(0, 0, None, b"v", [("name", b"1"), ("plain", None)])])
    damaged = with_payload(batch, batch[61:].replace(b"name", b"\xff\xc3(a"), 1)
    (found,) = decode([BatchView(damaged)], 0, 1, True)
    assert plain(found)[0]["headers"] == [
        {"key": "\ufffd\ufffd(a", "value": b"1"},
        {"key": "plain", "value": None},
    ]


def test_both_timestamp_types_fit_into_one_record_batch(kernel: str) -> None:
    first = build_batch([Record(0, 1000, None, None), Record(1, 1001, None, None)])
    second = build_batch(
        [Record(2, 1000, b"", b"")],
        base_offset=2,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        append_time_ms=2000,
    )
    (found,) = decode([BatchView(first), BatchView(second)], 0, 9, False)
    assert found["timestampType"].to_pylist() == [0, 0, 1]
    assert found["timestamp"].cast(pa.int64()).to_pylist() == [1_000_000, 1_001_000, 2_000_000]
    assert found["key"].to_pylist() == [None, None, b""]


def test_a_damaged_compressed_batch_is_named(kernel: str) -> None:
    batch = bytearray(build_batch([Record(0, 0, None, b"v" * 100)], compression="gzip"))
    batch[62] ^= 0xFF
    with pytest.raises(CorruptRecords, match=r"t-3, the batch at offset 0: .*decompressed"):
        decode([BatchView(batch)], 0, 9, False)
