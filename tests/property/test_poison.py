"""Whatever a log takes from a client can be read by everybody: batches with damaged records, in each codec.

The reader here decompresses with the codecs' own libraries in one go and makes an object of each record,
which the log does not.
"""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Iterator
from typing import Any

import cramjam
import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poisoned_batches import ACCEPTED, COUNT, NOW_MS, Poison, batch_of, large, pack, payload, poisons

from moldau.broker.log.appending.append_result import AppendResult, Deferred
from moldau.broker.log.log import Log
from moldau.broker.log.recovery.recovery import open_log
from moldau.common.records import compression, packed_records, walk
from moldau.common.records.batch import HEADER_BYTES, iter_batches, seal
from moldau.common.records.builder import build_batch
from moldau.common.records.compression import CODEC_NAMES, SMALL_BYTES_MAX, UnpacksToMore, unpacked_prefixes
from moldau.common.records.packed_records import (
    PACKED_BYTES_MAX,
    SHORT_RECORDS_MAX,
    Verdict,
    judge_packed,
    loop_limits,
)
from moldau.common.records.record import Record
from moldau.common.records.unpack_budget import UnpackBudget
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

PACKED = CODEC_NAMES[1:]
MB = 1 << 20


def new_log(**told: Any) -> Log:
    log = open_log(SimulatedFiles(), "/d/a-0", "a", 0, TopicSettings(**told)).log
    first = build_batch([Record(0, NOW_MS, b"first", None)])
    assert not log.leader.append(
        memoryview(first), 3, NOW_MS
    ).error_code  # the first batch of a segment is a case
    return log


def produce(log: Log, batch: bytes) -> AppendResult:
    result = log.leader.append(memoryview(batch), 3, NOW_MS)
    if isinstance(result, Deferred):
        result.inspection.keep()
        result.inspection.run(UnpackBudget())
        result = log.leader.append_inspected(result.inspection, 3, NOW_MS)
    log.writer.flush_staged()
    return result


def stored(log: Log) -> list[Record]:
    data = log.reader.read(0, 1 << 30, end_offset=log.log_end_offset, min_one_batch=True)
    return [record for batch in iter_batches(data) for record in batch.records()]


POISONS = poisons()


@pytest.mark.parametrize("poison", POISONS, ids=[each.name for each in POISONS])
def test_each_kind_of_poison_is_answered_and_what_is_taken_is_whole(poison: Poison) -> None:
    log = new_log()
    assert produce(log, poison.batch).error_code == poison.ours
    records = stored(log)[1:]
    assert [each.offset for each in records] == list(range(1, 1 + COUNT * (poison.ours == ACCEPTED)))
    assert all((each.key, each.value) == (b"k", b"v") for each in records)


@pytest.mark.parametrize("poison", POISONS, ids=[each.name for each in POISONS])
def test_a_topic_that_trusts_its_writers_stores_what_is_packed_unseen(poison: Poison) -> None:
    log = new_log(moldau_records_check=False)
    result = produce(log, poison.batch)
    if not poison.name.startswith("none"):
        assert not result.error_code


@given(
    codec=st.sampled_from(CODEC_NAMES),
    seed=st.integers(0, 2**32),
    damage=st.integers(1, 4),
    inside=st.booleans(),
)
@settings(max_examples=600)
def test_damage_anywhere_is_refused_or_does_no_harm(codec: str, seed: int, damage: int, inside: bool) -> None:
    rng = random.Random(seed)
    text = bytearray(payload(rng.choice((1, COUNT, 200))))
    count = rng.choice((1, COUNT, COUNT, 200))
    body = bytearray(text if codec == "none" else pack(codec, bytes(text)))
    target = text if inside else body
    for _ in range(damage):
        at = rng.randrange(len(target) + 1)
        kind = rng.randrange(3)
        if kind == 0:
            target[at : at + 1] = bytes((rng.randrange(256),))
        elif kind == 1:
            del target[at : at + rng.randrange(1, 20)]
        else:
            target[at:at] = rng.randbytes(rng.randrange(1, 20))
    if inside:
        body = bytearray(text if codec == "none" else pack(codec, bytes(text)))
    log = new_log()
    batch = batch_of(codec, bytes(body), count)
    result = produce(log, batch)
    records = stored(log)
    assert len(records) == log.log_end_offset == 1 + (0 if result.error_code else count)
    assert [each.offset for each in records] == list(range(log.log_end_offset))
    if codec != "none":
        quick = judge_packed(batch)
        assert quick is not Verdict.SOUND or not result.error_code


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("size", [100_000, SMALL_BYTES_MAX, 300_000, 5 * MB, 33 * MB])
def test_a_large_batch_is_taken_in_all_its_stages_and_refused_where_one_is_damaged(
    codec: str, size: int
) -> None:
    log = new_log(max_message_bytes=64 * MB)
    batch = large(codec, size)
    result = produce(log, batch)
    assert result.error_code == 0, result.error_message
    assert result.last_offset == size // 1400
    if codec in ("gzip", "lz4"):  # these have a checksum of what is packed
        assert produce(log, large(codec, size, damaged_at=0.9)).error_code
    short = bytearray(batch)
    for at in (23, 57):  # one record fewer than there are
        short[at : at + 4] = (int.from_bytes(short[at : at + 4], "big") - 1).to_bytes(4, "big")
    seal(short)
    assert produce(log, bytes(short)).error_code
    assert log.log_end_offset == result.last_offset + 1


@pytest.mark.parametrize("codec", range(1, 5), ids=PACKED)
@pytest.mark.parametrize("size", [0, 1, SMALL_BYTES_MAX - 1, SMALL_BYTES_MAX, SMALL_BYTES_MAX + 1, 5 * MB])
def test_every_prefix_is_one(codec: int, size: int) -> None:
    text = (random.Random(size).randbytes(size // 3 + 1) * 3)[:size]
    data = compression.compress(codec, text)
    last, done = 0, False
    for prefix, done in unpacked_prefixes(codec, data, 8 * MB):  # noqa: B007 (it is looked at afterwards)
        assert len(prefix) >= last
        assert bytes(prefix) == text[: len(prefix)]
        last = len(prefix)
    assert (last, done) == (size, True)


@pytest.mark.parametrize("codec", range(1, 5), ids=PACKED)
@pytest.mark.parametrize("size", [1, SMALL_BYTES_MAX, SMALL_BYTES_MAX + 1, 5 * MB])
def test_the_bound_is_kept_to_the_byte(codec: int, size: int) -> None:
    prefixes = unpacked_prefixes(codec, compression.compress(codec, bytes(size)), size - 1)
    wholes = []
    with pytest.raises(UnpacksToMore, match=f"more than {size - 1} bytes"):
        wholes.extend(whole for _, whole in prefixes)
    assert True not in wholes


@pytest.mark.parametrize("codec", PACKED)
def test_zeros_without_end_are_given_up_at_the_first_look(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("memory was taken for what cannot be records")

    monkeypatch.setattr(compression, "mmap", refused)
    batch = batch_of(codec, pack(codec, bytes(20 * MB)), 5000)
    assert produce(new_log(max_message_bytes=64 * MB), batch).error_code == 87


@pytest.mark.parametrize("codec", PACKED)
def test_what_the_loop_looks_at_is_bounded(codec: str) -> None:
    many = batch_of(codec, pack(codec, payload(SHORT_RECORDS_MAX + 1)), SHORT_RECORDS_MAX + 1)
    assert judge_packed(many) is Verdict.LONG
    rows = [Record(0, NOW_MS, None, random.Random(1).randbytes(PACKED_BYTES_MAX))]
    assert judge_packed(build_batch(rows, compression=codec)) is Verdict.LONG
    unpacked_bytes_max = loop_limits(compression.CODEC_NUMBERS[codec])[1]
    rows = [Record(0, NOW_MS, None, bytes(unpacked_bytes_max))]
    assert judge_packed(build_batch(rows, compression=codec)) is Verdict.LONG
    rows = [Record(0, NOW_MS, None, bytes(min(unpacked_bytes_max, 1_000_000) - 100))]
    assert judge_packed(build_batch(rows, compression=codec)) is Verdict.SOUND
    assert isinstance(new_log().leader.append(memoryview(many), 3, NOW_MS), Deferred)


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("size", [MB, 3 * MB])
def test_a_batch_of_a_megabyte_takes_a_worker_where_its_codec_is_slow(codec: str, size: int) -> None:
    log = new_log(max_message_bytes=64 * MB)
    result = log.leader.append(memoryview(large(codec, size)), 3, NOW_MS)
    at_once = codec == "none" or (codec in ("lz4", "snappy") and size == MB)
    assert isinstance(result, Deferred) != at_once


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_wrong_maximum_timestamp_is_corrected_as_in_kafka(codec: str) -> None:
    log = new_log()
    body = payload() if codec == "none" else pack(codec, payload())
    for claimed_ms in (NOW_MS + 1000, NOW_MS - 1, -1):
        assert not produce(log, batch_of(codec, body, max_timestamp_ms=claimed_ms)).error_code
    data = log.reader.read(1, 1 << 30, end_offset=log.log_end_offset)
    assert [batch.max_timestamp_ms for batch in iter_batches(data)] == [NOW_MS] * 3
    assert all(batch.crc_is_valid() for batch in iter_batches(data))


@pytest.mark.parametrize("codec", PACKED)
def test_the_quick_look_agrees_in_both_kernels(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for poison in POISONS:
        if not poison.name.startswith(codec) or len(poison.batch) < HEADER_BYTES:
            continue
        verdicts = []
        for check in (walk.check, walk.check_in_python):
            monkeypatch.setattr(packed_records.walk, "check", check)
            verdicts.append(judge_packed(poison.batch))
        assert verdicts[0] is verdicts[1]
        assert (verdicts[0] is Verdict.SOUND) == (poison.ours == ACCEPTED), poison.name


@pytest.mark.parametrize("codec", [compression.LZ4, compression.SNAPPY])
def test_many_tiny_blocks_are_no_work_for_the_event_loop(codec: int) -> None:
    """100,000 blocks of a byte: to walk over them takes longer than the event loop has."""
    count = 100_000
    if codec == compression.LZ4:
        head = lz4.frame.compress(b"", block_linked=False)[:7]
        data = head + (struct.pack("<I", 0x80000001) + b"x") * count + bytes(4)
    else:
        block = bytes(cramjam.snappy.compress_raw(b"x"))
        data = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * count
    packed_max, unpacked_max = loop_limits(codec)
    assert len(data) <= packed_max, "by its size it would be looked at there"
    seen = [len(payload) for payload, _ in _prefixes(codec, data, unpacked_max)]
    assert sum(seen) < count, "given up before"
    whole = [(len(payload), done) for payload, done in unpacked_prefixes(codec, data, 1 << 28)]
    assert whole[-1] == (count, True), "a worker reads all of it"


def _prefixes(codec: int, data: bytes, size_max: int) -> Iterator[tuple[bytes, bool]]:
    with contextlib.suppress(UnpacksToMore):
        yield from ((bytes(payload), done) for payload, done in unpacked_prefixes(codec, data, size_max))
