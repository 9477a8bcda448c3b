"""The inspection of a batch, at once or elsewhere, against a validator that decodes every record."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.log.appending import inspection as inspection_module
from moldau.broker.log.appending.batch_error import BatchError
from moldau.broker.log.appending.inspection import RECORD_ERRORS_MAX, Inspection
from moldau.broker.log.appending.rules import Rules
from moldau.common.core.side_worker import PutOff
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records import compression, walk
from moldau.common.records.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_OFFSET,
    POSITION,
    BatchView,
    CorruptBatch,
    seal,
)
from moldau.common.records.builder import build_batch
from moldau.common.records.compression import UnpacksToMore
from moldau.common.records.record import Record
from moldau.common.records.unpack_budget import UnpackBudget, likely_bytes
from moldau.common.settings.topic import TopicSettings

NOW_MS = 1_700_000_000_000
LIMIT_MS = 3_600_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=4),
        st.none() | st.binary(max_size=300),
        st.sampled_from((-1, 0, -LIMIT_MS, -LIMIT_MS - 1, LIMIT_MS, LIMIT_MS + 1, 5)),
    ),
    min_size=1,
    max_size=20,
)
SETTINGS = st.fixed_dictionaries(
    {
        "cleanup_policy": st.sampled_from((("delete",), ("compact",))),
        "message_timestamp_before_max_ms": st.sampled_from((2**63 - 1, LIMIT_MS)),
        "message_timestamp_after_max_ms": st.sampled_from((2**63 - 1, LIMIT_MS)),
        "message_timestamp_type": st.sampled_from(("CreateTime", "LogAppendTime")),
        "compression_type": st.sampled_from(("producer", "uncompressed", *CODECS[1:])),
        "max_message_bytes": st.sampled_from((1_000_000, 300)),
    }
)


def make(rows: list[tuple[bytes | None, bytes | None, int]], codec: str, seed: int, damage: int) -> BatchView:
    """A batch of these (key, value, time from now; -1: no time), its payload damaged in so many places."""
    records = [
        Record(index, -1 if delta == -1 else NOW_MS + delta, key, value, ())
        for index, (key, value, delta) in enumerate(rows)
    ]
    data = bytearray(build_batch(records, compression=codec))
    rng = random.Random(seed)
    for _ in range(damage):
        data[rng.randrange(HEADER_BYTES, len(data))] = rng.randrange(256)
    if damage == 3:
        del data[-rng.randrange(1, 4) :]
        POSITION.pack_into(data, 0, 0, len(data) - LENGTH_OVERHEAD, -1)
    if damage:
        MAX_TIMESTAMP.pack_into(data, MAX_TIMESTAMP_OFFSET, rng.randrange(2**40))
    seal(data)
    return BatchView(data)


def judged_simply(view: BatchView, rules: Rules) -> tuple[str, Any]:
    """What should come out, by looking at one record after the other."""
    try:
        records = list(view.records())
    except CorruptBatch:
        return "refused", (ErrorCode.INVALID_RECORD, None)
    codes: dict[int, ErrorCode] = {}
    for index, record in enumerate(records):
        if not walk.INT64_MIN <= record.timestamp_ms <= walk.INT64_MAX:
            return "refused", (ErrorCode.INVALID_RECORD, None)
        early = NOW_MS - record.timestamp_ms > rules.before_max_ms
        late = record.timestamp_ms - NOW_MS > rules.after_max_ms
        if record.offset != index or (rules.compacts and record.key is None):
            codes[index] = ErrorCode.INVALID_RECORD
        elif not rules.append_time and record.timestamp_ms != -1 and (early or late):
            codes[index] = ErrorCode.INVALID_TIMESTAMP
    if codes:
        timestamps = ErrorCode.INVALID_TIMESTAMP in codes.values()
        code = ErrorCode.INVALID_TIMESTAMP if timestamps else ErrorCode.INVALID_RECORD
        return "refused", (code, list(codes))
    codec = view.codec if rules.codec is None else rules.codec
    payload = bytes(view.payload())
    if codec != view.codec:
        packed = compression.compress(codec, payload, rules.level)
        if HEADER_BYTES + len(packed) > rules.size_bytes_max:
            return "refused", (ErrorCode.MESSAGE_TOO_LARGE, None)
    newest_ms = view.max_timestamp_ms
    if not rules.append_time:
        newest_ms = max(record.timestamp_ms for record in records)
    return "accepted", (newest_ms, codec, payload)


def found(result: BatchView | BatchError | None) -> tuple[str, Any]:
    if isinstance(result, BatchError):
        indexes = [error.batch_index for error in result.record_errors] or None
        return "refused", (result.error_code, indexes)
    assert result is not None
    assert result.crc_is_valid()
    return "accepted", (result.max_timestamp_ms, result.codec, bytes(result.payload()))


@given(
    rows=RECORDS,
    codec=st.sampled_from(CODECS),
    seed=st.integers(0, 2**32),
    damage=st.integers(0, 3),
    told=SETTINGS,
)
@settings(max_examples=500, deadline=None)
def test_it_judges_as_one_who_decodes_every_record(
    rows: list[tuple[bytes | None, bytes | None, int]],
    codec: str,
    seed: int,
    damage: int,
    told: dict[str, Any],
) -> None:
    view, rules = make(rows, codec, seed, damage), Rules(TopicSettings(**told))
    expected = judged_simply(view, rules)
    elsewhere = Inspection(view, rules, NOW_MS)
    elsewhere.keep()
    elsewhere.run(UnpackBudget())
    assert found(elsewhere.result) == expected
    try:
        at_once = Inspection(view, rules, NOW_MS).run_short()
    except UnpacksToMore:
        return  # so it is, or damage makes it say so: for `run`
    assert found(at_once) == expected


@pytest.mark.parametrize("stretch", [1, 3, 7])
@given(rows=RECORDS, codec=st.sampled_from(CODECS), told=SETTINGS)
@settings(max_examples=60, deadline=None)
def test_stretches_change_nothing(
    stretch: int, rows: list[tuple[bytes | None, bytes | None, int]], codec: str, told: dict[str, Any]
) -> None:
    view, rules = make(rows, codec, 0, 0), Rules(TopicSettings(**told))
    expected = judged_simply(view, rules)
    usual = walk.STRETCH_RECORDS
    walk.STRETCH_RECORDS = stretch
    try:
        inspection = Inspection(view, rules, NOW_MS)
        inspection.run(UnpackBudget())
    finally:
        walk.STRETCH_RECORDS = usual
    assert found(inspection.result) == expected


@pytest.mark.parametrize("codec", CODECS)
def test_it_stops_at_the_errors_that_an_answer_has_room_for(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the count, so many records become objects and no more."""
    made = 0
    decode = inspection_module.decode_record

    def counted(*arguments: Any) -> Any:
        nonlocal made
        made += 1
        return decode(*arguments)

    monkeypatch.setattr(inspection_module, "decode_record", counted)
    view = make([(None, None, 0)] * 5000, codec, 0, 0)
    inspection = Inspection(view, Rules(TopicSettings(cleanup_policy=("compact",))), NOW_MS)
    inspection.run(UnpackBudget())
    assert isinstance(inspection.result, BatchError)
    assert (len(inspection.result.record_errors), made) == (RECORD_ERRORS_MAX, RECORD_ERRORS_MAX)


def test_a_count_that_cannot_be_is_refused_before_any_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "check", None)
    data = bytearray(make([(b"k", None, 0)] * 3, "zstd", 0, 0).data)
    data[57:61] = (1_000_000).to_bytes(4, "big")
    data[23:27] = (999_999).to_bytes(4, "big")
    seal(data)
    inspection = Inspection(BatchView(data), Rules(TopicSettings(cleanup_policy=("compact",))), NOW_MS)
    inspection.run(UnpackBudget())
    assert isinstance(inspection.result, BatchError)
    assert inspection.result.error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4"])
def test_a_bomb_that_is_to_be_repacked_is_refused_by_its_size(target: str) -> None:
    view = make([(b"k", bytes(3_000_000), 0)], "zstd", 0, 0)
    rules = Rules(TopicSettings(compression_type=target, max_message_bytes=1000))
    inspection = Inspection(view, rules, NOW_MS)
    assert inspection.is_short  # by its bytes; what it unpacks to is found out within bounds
    with pytest.raises(UnpacksToMore):
        inspection.run_short()
    inspection.run(UnpackBudget())
    assert found(inspection.result) == ("refused", (ErrorCode.MESSAGE_TOO_LARGE, None))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_unpacks_to_far_more_than_was_sent_is_put_off_and_accepted_at_last(codec: str) -> None:
    """A record of 20 MB of zeros is sound, and packs to a few kilobytes (snappy: to one)."""
    data = build_batch([Record(0, NOW_MS, None, bytes(20 << 20))], compression=codec)
    inspection = Inspection(BatchView(data), Rules(TopicSettings(max_message_bytes=64 << 20)), NOW_MS)
    budget = UnpackBudget()
    before = budget.bytes_left, budget.records_left
    if likely_bytes(len(data)) < 20 << 20:
        with pytest.raises(PutOff):
            inspection.run_likely(budget)
        assert (inspection.result, (budget.bytes_left, budget.records_left)) == (None, before)
    else:
        inspection.run_likely(budget)
        assert isinstance(inspection.result, BatchView)
    inspection.run(budget)
    assert isinstance(inspection.result, BatchView)
    assert budget.bytes_left < before[0]
