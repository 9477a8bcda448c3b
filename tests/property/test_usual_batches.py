"""The usual batch and the repeated request: the compiled kernels and their twins in Python agree on
everything, the damaged and the hostile included; and what a log takes by the header alone it takes with all
checks as well.
"""

from __future__ import annotations

import random
import struct

import pytest

from moldau.broker.log.log import Origin
from moldau.broker.log.recovery.recovery import open_log
from moldau.common.core.crc import crc32c
from moldau.common.core.kernels import built
from moldau.common.protocol.repeat import PythonRepeat, Repeat
from moldau.common.protocol.wire import uvarint
from moldau.common.records import usual
from moldau.common.records.batch import HEADER, HEADER_BYTES, POSITION, BatchView, seal
from moldau.common.records.builder import build_batch
from moldau.common.records.compression import CODEC_NAMES
from moldau.common.records.record import Record
from moldau.common.records.usual import FAR, Marks, PythonMarks, attribute_mask, python_stage
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

COUNTED_MAX, LARGE_BYTES = 8, 4096
EXTREMES = (0, 1, -1, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), FAR, -(2**63))
FIELD_BYTES = (8, 4, 4, 1, 4, 2, 4, 8, 8, 8, 2, 4, 4)
CRC_PLACE = 4
NOW_MS = 1_700_000_000_000
MARKS = (
    "size_bytes_max",
    "attributes",
    "after_max_ms",
    "roll_bytes",
    "roll_above_ms",
    "roll_after_ms",
    "last_offset_max",
)
batch_kernel, repeat_kernel = built("moldau.common.records._usual"), built("moldau.common.protocol._repeat")
needs_batch_kernel = pytest.mark.skipif(batch_kernel is None, reason="installed without a C compiler")
needs_repeat_kernel = pytest.mark.skipif(repeat_kernel is None, reason="installed without a C compiler")


def both_marks() -> tuple[Marks, Marks]:
    arguments = crc32c, COUNTED_MAX, LARGE_BYTES
    return PythonMarks(*arguments), batch_kernel.Marks(*arguments)


def roomy(marks: Marks) -> Marks:
    """Marks that every sound batch keeps to."""
    marks.size_bytes_max = marks.roll_bytes = 1 << 30
    marks.attributes = attribute_mask(range(usual.ATTRIBUTES_MAX))
    marks.roll_above_ms = marks.roll_after_ms = marks.last_offset_max = FAR
    return marks


def random_batch(rng: random.Random) -> bytearray:
    count = rng.choice((1, 1, 2, COUNTED_MAX, COUNTED_MAX + 1, 40))
    records = [
        Record(
            i, NOW_MS + rng.randrange(-5, 1), rng.choice((None, b"", b"k")), rng.randbytes(rng.randrange(200))
        )
        for i in range(count)
    ]
    codec = rng.choice(("none", "none", *CODEC_NAMES))
    transactional = rng.random() < 0.3
    batch = build_batch(
        records,
        compression=codec,
        producer_id=7 if transactional or rng.random() < 0.5 else -1,
        producer_epoch=3,
        base_sequence=rng.choice((0, 1, 2**31 - 1)),
        transactional=transactional,
    )
    return bytearray(batch)


@needs_batch_kernel
def test_sound_batches_are_usual_and_their_fields_are_the_headers() -> None:
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    for _ in range(300):
        batch = random_batch(rng)
        if len(batch) >= LARGE_BYTES:
            continue
        view = BatchView(batch)
        fields = (
            view.last_offset_delta,
            view.attributes,
            view.max_timestamp_ms,
            view.producer_id,
            view.producer_epoch,
            view.base_sequence,
        )
        for marks in both_marks():
            for data in (bytes(batch), batch, memoryview(batch)):
                assert roomy(marks).judge(data, 5, 100, NOW_MS) == fields, f"seed {seed}"


def harmed(rng: random.Random, batch: bytearray) -> bytearray:
    """The batch with a flipped bit, cut, longer, or with header or records that lie under a crc that fits."""
    kind = rng.random()
    if kind < 0.3:
        batch[rng.randrange(len(batch))] ^= 1 << rng.randrange(8)
    elif kind < 0.4:
        del batch[rng.randrange(len(batch)) :]
    elif kind < 0.5:
        batch += rng.randbytes(rng.randrange(1, 9))
    elif kind < 0.8:
        fields = list(HEADER.unpack_from(batch))
        place = rng.choice([number for number, _ in enumerate(fields) if number != CRC_PLACE])
        value = rng.choice((*EXTREMES, fields[place] + rng.choice((-1, 1))))
        half = 1 << FIELD_BYTES[place] * 8 - 1
        fields[place] = (value + half) % (2 * half) - half
        HEADER.pack_into(batch, 0, *fields)
        seal(batch)
    else:
        for _ in range(rng.randrange(1, 4)):
            batch[rng.randrange(HEADER_BYTES, len(batch))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        seal(batch)
    return batch


@needs_batch_kernel
def test_both_kernels_agree_on_damaged_and_lying_batches() -> None:
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    usual_count = 0
    for _ in range(3000):
        batch = harmed(rng, random_batch(rng))
        asked = (
            rng.choice((0, 5, 2**31, 2**62)),
            rng.choice((0, 100, 2**31 - 100)),
            NOW_MS + rng.choice((-1, 0, 1, 10**9)),
        )
        bounds = {name: rng.choice((0, len(batch), NOW_MS, FAR, FAR, FAR, FAR, FAR)) for name in MARKS}
        bounds["attributes"] = rng.choice((0x1F001F, 0xFFFFFFFF))
        answers = []
        for marks in both_marks():
            for name, value in bounds.items():
                setattr(marks, name, value)
                assert getattr(marks, name) == value
            answers.append(marks.judge(memoryview(batch), *asked))
        assert answers[0] == answers[1], f"seed {seed}: {bytes(batch).hex()} {asked} {bounds}"
        usual_count += answers[0] is not None
    assert 50 < usual_count < 2900, f"seed {seed}: {usual_count} of one kind prove little"


def test_what_is_taken_by_its_header_is_taken_with_all_checks_and_stored_alike() -> None:
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    files = SimulatedFiles()
    logs = [open_log(files, f"/d/{name}-0", name, 0, TopicSettings()).log for name in ("quick", "careful")]
    kinds = set()
    for _ in range(1500):
        batch = random_batch(rng)
        batch = harmed(rng, batch) if rng.random() < 0.5 else batch
        if len(batch) < HEADER_BYTES:
            continue
        now_ms = NOW_MS + rng.choice((0, -(10**9)))
        quick = logs[0].leader.append(memoryview(batch), 3, now_ms)
        careful = logs[1].leader._append_carefully(memoryview(batch), 3, now_ms, Origin.CLIENT)
        assert quick.error_code == careful.error_code, f"seed {seed}: {bytes(batch).hex()}"
        assert (quick.base_offset, quick.last_offset) == (careful.base_offset, careful.last_offset)
        kinds.add((quick.error_code, quick.duplicate))
        for log in logs:
            log.writer.flush_staged()
    stored = [log.reader.read(0, 1 << 30, end_offset=log.log_end_offset, min_one_batch=True) for log in logs]
    assert bytes(stored[0]) == bytes(stored[1]), f"seed {seed}"
    assert (0, False) in kinds
    assert len(kinds) > 2, f"seed {seed}: {kinds}"


@needs_batch_kernel
@pytest.mark.parametrize("name", MARKS[:1] + MARKS[3:])
def test_each_mark_is_an_inclusive_bound(name: str) -> None:
    batch = build_batch([Record(0, NOW_MS, None, b"v"), Record(1, NOW_MS, None, b"v")])
    reached = {
        "size_bytes_max": len(batch),
        "roll_bytes": 100 + len(batch),
        "roll_above_ms": NOW_MS,
        "roll_after_ms": NOW_MS,
        "last_offset_max": 6,
    }[name]
    for marks in both_marks():
        setattr(roomy(marks), name, reached)
        assert marks.judge(batch, 5, 100, NOW_MS) is not None
        setattr(marks, name, reached - 1)
        assert marks.judge(batch, 5, 100, NOW_MS) is None


@needs_batch_kernel
def test_the_future_is_bounded_also_where_the_sum_overflows() -> None:
    batch = build_batch([Record(0, NOW_MS + 10, None, b"v")])
    for marks in both_marks():
        roomy(marks).after_max_ms = 9
        assert marks.judge(batch, 0, 0, NOW_MS) is None
        marks.after_max_ms = 10
        assert marks.judge(batch, 0, 0, NOW_MS) is not None
        marks.after_max_ms = FAR
        assert marks.judge(batch, 0, 0, NOW_MS) is not None


@needs_batch_kernel
@pytest.mark.parametrize("size_bytes", [0, 1, 7, 8, 9, 900, 1023, 1024, 1025, 3000])
def test_the_checksum_is_crc32c_for_every_size(size_bytes: int) -> None:
    batch = bytearray(build_batch([Record(0, NOW_MS, None, bytes(size_bytes))]))
    for marks in both_marks():
        assert roomy(marks).judge(batch, 0, 0, NOW_MS) is not None
        for place in (17, 21, HEADER_BYTES, len(batch) - 1):
            batch[place] ^= 1
            assert marks.judge(batch, 0, 0, NOW_MS) is None
            batch[place] ^= 1


@needs_batch_kernel
def test_staging_places_the_batch_and_leaves_the_rest() -> None:
    batch = build_batch([Record(0, NOW_MS, None, b"v")])
    for place in (python_stage, batch_kernel.stage):
        staged = bytearray(b"before")
        place(staged, memoryview(batch), 2**40 + 1, 2**31 - 1)
        length = len(batch) - 12
        assert staged == b"before" + POSITION.pack(2**40 + 1, length, 2**31 - 1) + batch[16:]
        with pytest.raises(ValueError, match="longer"):
            place(staged, b"short", 0, 0)


def frame(flexible: bool, records: bytes, prefix: bytes = b"\x00\x04load....") -> bytes:
    size = uvarint(len(records) + 1) if flexible else struct.pack(">i", len(records))
    body = struct.pack(">hhi", 0, 9 if flexible else 7, 1234) + prefix + size + records
    body += b"\x00\x00\x00" if flexible else b""
    return struct.pack(">i", len(body)) + body


def both_repeats(one: bytes, flexible: bool, prefix: bytes = b"\x00\x04load....") -> tuple[Repeat, Repeat]:
    arguments = one[4:8], prefix, flexible
    return PythonRepeat(*arguments), repeat_kernel.Repeat(*arguments)


@needs_repeat_kernel
@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("size_bytes", [0, 1, 126, 127, 128, 20_000])
def test_a_repeated_request_is_recognised_and_its_records_found(flexible: bool, size_bytes: int) -> None:
    records = bytes(range(256)) * (size_bytes // 256) + bytes(size_bytes % 256)
    one = frame(flexible, records)
    for each in both_repeats(one, flexible):
        for data in (one, bytearray(one), memoryview(one)):
            found = each.match(data, 0, len(one))
            assert found is not None
            assert (found[0], one[found[1] : found[2]]) == (1234, records)
        shifted = b"xyz" + one + b"next frame"
        assert each.match(memoryview(shifted), 3, 3 + len(one)) == (found[0], found[1] + 3, found[2] + 3)
        assert (each.head, each.prefix) == (one[4:8], b"\x00\x04load....")


@needs_repeat_kernel
@pytest.mark.parametrize("flexible", [False, True])
def test_both_kernels_agree_on_every_damaged_request(flexible: bool) -> None:
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    one = frame(flexible, bytes(200))
    first, second = both_repeats(one, flexible)
    for place in range(len(one)):
        for bit in range(8):
            harmed = bytearray(one)
            harmed[place] ^= 1 << bit
            assert first.match(harmed, 0, len(one)) == second.match(harmed, 0, len(one)), (place, bit)
    for end in range(len(one)):
        assert first.match(one, 0, end) == second.match(one, 0, end), end
    for _ in range(2000):
        harmed = bytearray(one[: rng.randrange(len(one) + 1)] + rng.randbytes(rng.randrange(8)))
        for _ in range(rng.randrange(3)):
            if len(harmed) > 12:
                harmed[rng.randrange(12, len(harmed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        asked = rng.randrange(3), rng.randrange(len(harmed) + 1)
        assert first.match(harmed, *asked) == second.match(harmed, *asked), f"seed {seed}"


@needs_repeat_kernel
def test_a_frame_outside_of_the_buffer_is_an_error_and_never_read() -> None:
    one = frame(False, b"records")
    for each in both_repeats(one, False):
        for position, end in ((-1, 5), (0, len(one) + 1)):
            with pytest.raises(ValueError, match="outside"):
                each.match(one, position, end)
        assert each.match(one, len(one), len(one)) is None
    with pytest.raises(ValueError, match="four bytes"):
        PythonRepeat(b"abc", b"", False)
    with pytest.raises(ValueError, match="four bytes"):
        repeat_kernel.Repeat(b"abc", b"", False)
