"""Columns become batches that our decoder reads back as the same records."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from moldau.client.encoder import encode_batches
from moldau.client.sealing import EncodedBatch, seal
from moldau.common.records.batch import BatchView
from moldau.common.records.compression import CODEC_NUMBERS

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def encode(rows: list[Row], *, batch_bytes: int = 10_000, compression: str = "none", headers: bool = True):
    cells = [[{"key": k, "value": v} for k, v in row[3]] or None for row in rows]
    return encode_batches(
        "t",
        np.array([row[0] for row in rows], dtype=np.int32),
        pa.array([row[1] for row in rows], pa.binary()),
        pa.array([row[2] for row in rows], pa.binary()),
        pa.array(cells, HEADERS) if headers else None,
        timestamp_ms=1234,
        batch_bytes=batch_bytes,
        compression=compression,
    )


def view(batch: EncodedBatch) -> BatchView:
    whole = BatchView(seal(batch, 77, 3, 5, transactional=True) + batch.body)
    assert whole.crc_is_valid()
    assert (whole.producer_id, whole.producer_epoch, whole.base_sequence) == (77, 3, 5)
    assert whole.is_transactional
    assert whole.base_timestamp_ms == whole.max_timestamp_ms == 1234
    assert whole.count == batch.record_count == whole.last_offset_delta + 1
    return whole


def decoded(batches: list[EncodedBatch]) -> list[Row]:
    rows: list[Row] = []
    for batch in batches:
        records = list(view(batch).records())
        assert [record.offset for record in records] == list(range(batch.record_count))
        rows += [(batch.partition, r.key, r.value, list(r.headers)) for r in records]
    return rows


@pytest.mark.parametrize("compression", CODEC_NUMBERS)
def test_random_records(compression: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)

    def cell() -> bytes | None:
        return None if rng.random() < 0.1 else rng.randbytes(rng.choice([0, 1, 60, 63, 64, 65, 300, 9000]))

    for with_headers in (False, True):
        rows: list[Row] = []
        for _ in range(rng.randrange(1, 400)):
            names = [(rng.choice(["a", "ü" * 40, ""]), cell()) for _ in range(rng.choice([0, 0, 1, 3]))]
            rows.append((rng.randrange(5), cell(), cell(), names if with_headers else []))
        batches = encode(rows, compression=compression, headers=with_headers)
        assert decoded(batches) == sorted(rows, key=lambda row: row[0])


def test_slices_of_arrays() -> None:
    """Spark's batches may be windows into larger buffers."""
    texts = pa.array([b"a", None, b"ccc", b"dd", b""], pa.binary())
    part = texts.slice(1, 3)
    batches = encode_batches(
        "t", np.zeros(3, dtype=np.int32), part, part, None, timestamp_ms=1234, batch_bytes=100
    )
    assert [(key, value) for _, key, value, _ in decoded(batches)] == [
        (None, None), (b"ccc", b"ccc"), (b"dd", b"dd"),
    ]  # fmt: skip


def test_batches_stay_below_twice_the_size_unless_a_record_is_larger() -> None:
    rows: list[Row] = [
        (0, None, bytes(size), []) for size in (400, 900, 400, 5000, 10, 10, 2500, 300, 700, 10)
    ]
    batches = encode(rows, batch_bytes=1000)
    assert decoded(batches) == rows
    for batch in batches:
        assert len(batch.body) < 2 * 1000 or batch.record_count == 1
    assert [batch.record_count for batch in batches if len(batch.body) > 2000] == [1, 1]


def test_large_numbers_of_records_and_bytes() -> None:
    rows: list[Row] = [(0, b"k", b"", []) for _ in range(20_000)] + [(1, None, bytes(2_000_000), [])]
    batches = encode(rows, batch_bytes=10_000_000)
    assert [batch.record_count for batch in batches] == [20_000, 1]
    assert decoded(batches) == rows


def test_no_rows() -> None:
    assert encode([]) == []
