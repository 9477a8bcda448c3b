"""Compaction's kernel and its twin agree on every log, every damaged one, and on bytes that are no records.

Damage is sealed again, so that no crc keeps it from the kernel. Where a batch cannot be read both say so, and
otherwise both leave the same bytes.

Under AddressSanitizer (docs/decisions/compaction-kernel.md has the command) the same tests look for reads
and writes outside of what was given.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.log.compaction import kernel
from moldau.broker.log.compaction.clean import clean
from moldau.broker.log.compaction.job import CleanJob, LastRecord, Source, Uncleanable
from moldau.broker.log.compaction.kernel import PYTHON, make_compiled_map
from moldau.broker.log.compaction.offset_map import OffsetMap
from moldau.broker.log.state.transaction_index import AbortedTransaction
from moldau.common.records.batch import HEADER_BYTES, BatchView, CorruptBatch, TimestampType, seal
from moldau.common.records.builder import build_batch
from moldau.common.records.compression import CODEC_NAMES
from moldau.common.records.record import Record, encode_varint
from moldau.testing.simulated_files import SimulatedFiles

pytestmark = pytest.mark.skipif(kernel.compiled is None, reason="the compiled kernel is not installed")
NOW_MS = 1_700_000_000_000
INTERESTING = (0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)


# -- whole logs ------------------------------------------------------------------------------------


def random_key(rng: random.Random) -> bytes | None:
    kind = rng.random()
    if kind < 0.05:
        return None
    if kind < 0.1:
        return rng.choice((b"", b"\0", b"\0" * 7, b"\0" * 8, b"k" * 63, b"k" * 64, b"k" * 9000))
    return b"key-%d" % rng.randrange(40)


def random_log(rng: random.Random) -> list[bytearray]:
    batches, offset = [], 0
    for _ in range(rng.randrange(1, 12)):
        records, delta = [], 0
        for _ in range(rng.choice((1, 1, 2, 5, 33, 100))):
            value = None if rng.random() < 0.2 else rng.randbytes(rng.choice((0, 1, 60, 200)))
            headers = [("name", rng.choice((None, b"", b"x" * 70)))] if rng.random() < 0.1 else []
            time_ms = NOW_MS + rng.choice((0, 1, -1, 10**6, -(10**12)))
            records.append(Record(offset + delta, time_ms, random_key(rng), value, headers))
            delta += 1 if rng.random() < 0.9 else rng.randrange(1, 300)
        append_time = rng.random() < 0.2
        producer = rng.choice((-1, -1, 5, 6))
        batch = build_batch(
            records,
            base_offset=offset,
            compression=rng.choice(("none", "none", "none", *CODEC_NAMES)),
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=0 if producer >= 0 else -1,
            transactional=producer == 6,
            timestamp_type=TimestampType(int(append_time)),
            append_time_ms=NOW_MS if append_time else None,
            last_offset_delta=delta - 1 + rng.choice((0, 0, 5)),
        )
        batches.append(bytearray(batch))
        offset = BatchView(batch).next_offset
    return batches


def damage(rng: random.Random, batches: list[bytearray]) -> None:
    """Change some bytes behind a header's offsets, and seal it again."""
    batch = rng.choice(batches)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(57, len(batch))
        batch[place] = rng.choice((*INTERESTING, rng.randrange(256)))
    seal(batch)


def outcome_of(batches: list[bytearray], seed: int) -> object:
    """What a clean of this log leaves: every file, or that it cannot be read."""
    rng = random.Random(seed)
    files = SimulatedFiles(now_ms=lambda: NOW_MS)
    files.make_directory("/d")
    data = b"".join(batches)
    end = BatchView(batches[-1]).next_offset
    name = f"/d/{0:020d}.log"
    fd = files.open(name, create=True)
    files.pwrite(fd, data, 0)
    files.close(fd)
    until = rng.choice((end, end, BatchView(batches[0]).next_offset, end + 50))
    job = CleanJob(
        "/d",
        "t",
        0,
        (Source(0, end, len(data)),),
        rng.choice((0, 0, end // 2, min(until, end))),
        until,
        NOW_MS,
        rng.choice((0, 1000)),
        aborted=(AbortedTransaction(6, 0, end // 3, 0),) if rng.random() < 0.3 else (),
        last_records=(LastRecord(5, 0, end - 1),),
        dedupe_buffer_bytes=rng.choice((10**6, 30_000)),
        io_buffer_bytes=rng.choice((100, 10**5)),
    )
    try:
        result = clean(files, job)
    except Uncleanable:
        return "uncleanable"
    left = {}
    for each in sorted(files.list_directory("/d")):
        fd = files.open(f"/d/{each}")
        left[each] = files.pread(fd, files.size_bytes(fd), 0)
        files.close(fd)
    statistics = result.statistics
    counts = (
        statistics.records_in,
        statistics.records_out,
        statistics.keys,
        statistics.keyless_records,
        statistics.bytes_out,
    )
    return result.groups, result.cleaned_until_offset, counts, left


@pytest.mark.parametrize("is_damaged", [False, True], ids=["whole", "damaged"])
@pytest.mark.parametrize("block", range(8))
def test_both_leave_the_same_of_a_log(block: int, is_damaged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = 0
    for seed in range(block * 60, block * 60 + 60):
        rng = random.Random(seed)
        batches = random_log(rng)
        if is_damaged:
            damage(rng, batches)
        outcomes = []
        for name in ("python", "compiled"):
            monkeypatch.setenv(kernel.ENVIRONMENT, name)
            outcomes.append(outcome_of(batches, seed))
        assert outcomes[0] == outcomes[1], f"seed {seed}"
        refused += outcomes[0] == "uncleanable"
    assert (refused > 0) == is_damaged


def test_both_leave_the_same_whatever_a_byte_becomes(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = build_batch(
        [Record(i, NOW_MS + i, b"%d" % (i % 2), (b"v" * 70, None, b"")[i % 3]) for i in range(6)]
    )
    for place in range(57, len(whole)):
        for value in INTERESTING:
            batch = bytearray(whole)
            batch[place] = value
            seal(batch)
            outcomes = []
            for name in ("python", "compiled"):
                monkeypatch.setenv(kernel.ENVIRONMENT, name)
                outcomes.append(outcome_of([batch], 1))
            assert outcomes[0] == outcomes[1], f"byte {place} is {value}"


# -- single loops ----------------------------------------------------------------------------------


def _record(time_delta: int, offset_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = bytearray(1)
    encode_varint(time_delta, body)
    encode_varint(offset_delta, body)
    for field in (key, value):
        encode_varint(-1 if field is None else len(field), body)
        body += field or b""
    encode_varint(0, body)
    out = bytearray()
    encode_varint(len(body), out)
    return bytes(out + body)


record_like = st.builds(
    _record,
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 40),
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=20),
)
mutation = st.tuples(st.integers(0, 10**6), st.integers(0, 255))


@st.composite
def payloads(draw: st.DrawFn) -> tuple[bytes, int]:
    """Bytes that are records, or once were, or never; and how many they are said to be."""
    if draw(st.booleans()):
        records = draw(st.lists(record_like, max_size=40))
        data = bytearray(b"".join(records))
        for place, value in draw(st.lists(mutation, max_size=3)):
            if data:
                data[place % len(data)] = value
        count = len(records) + draw(st.sampled_from((0, 0, 0, 1, -1)))
    else:
        data = bytearray(draw(st.binary(max_size=60)))
        count = draw(st.integers(-2, 70))
    return bytes(data), count


def result_of(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except CorruptBatch:
        return "corrupt"


def both_maps(keys_max: int) -> tuple[OffsetMap, Any]:
    """Maps that are full with the same key."""
    twin = OffsetMap(5, 100, 10_000, 0.9)
    twin.keys_max = keys_max
    made = kernel.compiled.OffsetMap(5, 97, 97, keys_max, 95, bytes(16))
    return twin, made


@settings(max_examples=600, deadline=None)
@given(payloads(), st.integers(1, 50), st.integers(0, 45), st.integers(0, 20), st.binary(max_size=9))
def test_both_loops_give_the_same(
    payload: tuple[bytes, int], keys_max: int, last_delta: int, place: int, around: bytes
) -> None:
    data, count = payload
    data, start, end = around + data + around, len(around), len(around) + len(data)
    twin, made = both_maps(keys_max)
    where = (data, start, end, count)
    mapped = (*where, 10, last_delta, place)
    compiled = kernel.compiled
    expected = result_of(PYTHON.map_keys, twin, *mapped)
    assert result_of(compiled.OffsetMap.map_keys, made, *mapped) == expected
    if expected != "corrupt":
        assert made.window == twin.window
        assert made.key_count == twin.key_count
    for end_offset in (0, 20, 1000):
        judged = (*where, 10, last_delta, end_offset)
        # (After a failure the two may have taken more or fewer keys before it.)
        verdicts = result_of(PYTHON.judge_keys, twin, *judged)
        found = result_of(compiled.OffsetMap.judge_keys, made, *judged)
        assert (
            (found == verdicts) if expected != "corrupt" else (found == "corrupt") == (verdicts == "corrupt")
        )
    by_offset = (bytearray(range(100)), 5, *where, 10, last_delta)
    seen = result_of(PYTHON.verdicts_by_offset, *by_offset)
    assert result_of(compiled.verdicts_by_offset, *by_offset) == seen
    if verdicts == "corrupt":
        return
    for kept in (verdicts, bytes(len(verdicts)), b"\1" * len(verdicts)):
        for shift_ms in (None, 0, -1, 2**40, 2**64 - 1, -(2**64)):
            copied = (data, start, end, kept, shift_ms)
            assert result_of(compiled.keep_records, *copied) == result_of(PYTHON.keep_records, *copied)


@settings(max_examples=600, deadline=None)
@given(st.binary(max_size=80), st.binary(max_size=90), st.none() | st.integers(-(2**64), 2**64))
def test_copying_any_bytes_gives_a_result_or_the_error(
    data: bytes, kept: bytes, shift_ms: int | None
) -> None:
    result_of(kernel.compiled.keep_records, data, 0, len(data), kept, shift_ms)


# -- counts and payloads that lie --------------------------------------------------------------------


@pytest.mark.usefixtures("compaction_kernel")
@pytest.mark.parametrize("count", [-1, 0, 1, 3, 10**6, 2**31 - 1])
def test_a_count_that_lies_costs_neither_memory_nor_the_worker(count: int) -> None:
    batch = bytearray(build_batch([Record(0, NOW_MS, b"a", b"1"), Record(1, NOW_MS, b"b", None)]))
    batch[HEADER_BYTES - 4 : HEADER_BYTES] = (count & 0xFFFFFFFF).to_bytes(4, "big")
    seal(batch)
    assert outcome_of([batch], 1) == "uncleanable"


def test_the_map_forgets_nothing_that_random_puts_have_told() -> None:
    rng = random.Random(7)
    keys, model = make_compiled_map(0, 50_000, 10**7, 0.9), dict[bytes, int]()
    for offset in range(50_000):
        key = rng.randbytes(rng.randrange(1, 3))
        assert keys.put(key, offset, 1)
        model[key] = offset
    assert all(keys.get(key) == offset for key, offset in model.items())
    assert sum(keys.window) == len(model) == keys.key_count
