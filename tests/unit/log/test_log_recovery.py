"""Opening directories: lost and padded indexes, torn tails, left-overs of interrupted work, other formats."""

import logging
import struct
from pathlib import Path

import pytest

from moldau.broker.log.log import Log
from moldau.broker.log.reading import timestamps
from moldau.broker.log.recovery.recovery import Recovered, UnreadableLog, open_log
from moldau.common.core.files import OsFiles
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_batch, build_simple_batch
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings

NOW_MS = 1_700_000_000_000
SETTINGS = TopicSettings(internal_segment_bytes=2000, index_interval_bytes=200)


def reopen(
    directory: Path, *, clean: bool, recovery_point: int = 0, settings: TopicSettings = SETTINGS
) -> Recovered:
    return open_log(
        OsFiles(), str(directory), "t", 0, settings, clean=clean, recovery_point=recovery_point, now_ms=NOW_MS
    )


def fill(directory: Path, count: int = 40, *, clean: bool = True) -> list[bytes]:
    log = reopen(directory, clean=False).log
    for number in range(count):
        batch = build_batch(
            [Record(0, NOW_MS + number, b"key", b"value %d" % number * 3)],
            producer_id=5,
            producer_epoch=0,
            base_sequence=number,
        )
        assert log.leader.append(memoryview(batch), leader_epoch=number // 15, now_ms=NOW_MS).error_code == 0
        log.writer.flush_staged()
    found = content(log)
    log.close(clean=clean)
    return found


def content(log: Log) -> list[bytes]:
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.written_end_offset:
        for view in iter_batches(log.reader.read(offset, 1000, end_offset=log.written_end_offset)):
            found.append(bytes(view.data))
            offset = view.next_offset
    return found


def files(directory: Path, suffix: str) -> list[Path]:
    return sorted(directory.glob(f"*{suffix}"))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("harm", ["lost", "cut", "zeros", "noise"])
def test_harm_to_what_is_derived_costs_no_record(tmp_path: Path, suffix: str, harm: str, clean: bool) -> None:
    batches = fill(tmp_path)
    for path in files(tmp_path, suffix):
        data = path.read_bytes()
        if harm == "lost" or not data:
            path.unlink()
        else:
            path.write_bytes(
                {"cut": data[: len(data) // 2], "zeros": bytes(len(data)), "noise": b"\xf7" * len(data)}[harm]
            )
    if clean and harm == "noise" and suffix == ".index":
        return  # An index of noise is only looked at after an unclean stop.
    log = reopen(tmp_path, clean=clean).log
    assert content(log) == batches
    if not (clean and suffix == "leader-epoch-checkpoint"):
        assert log.epochs.entries() == [(0, 0), (1, 15), (2, 30)]
    if not (clean and suffix == ".snapshot" and harm == "lost"):
        assert log.producers.states[5].last_sequence == 39
    log.close()


def test_indexes_padded_by_kafka_are_understood(tmp_path: Path) -> None:
    batches = fill(tmp_path)
    for suffix, entry in ((".index", 8), (".timeindex", 12)):
        for path in files(tmp_path, suffix):
            path.write_bytes(path.read_bytes() + bytes(entry * 1000))
    log = reopen(tmp_path, clean=True).log
    assert content(log) == batches
    assert timestamps.run(log.offset_for_timestamp(NOW_MS + 20, 40)) == (NOW_MS + 20, 20, 1)
    log.close()


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 500, b"noise" * 40, "half a batch"])
def test_a_torn_tail_is_cut_and_told_once(
    tmp_path: Path, tail: bytes | str, caplog: pytest.LogCaptureFixture
) -> None:
    batches = fill(tmp_path, clean=False)
    torn = build_simple_batch([(b"k", b"v" * 50)], NOW_MS)[:70] if isinstance(tail, str) else tail
    last = files(tmp_path, ".log")[-1]
    with last.open("ab") as file:
        file.write(torn)
    with caplog.at_level(logging.WARNING):
        recovered = reopen(tmp_path, clean=False)
    assert recovered.bytes_truncated == len(torn)
    assert content(recovered.log) == batches
    (message,) = [record.getMessage() for record in caplog.records]
    assert f"{len(torn)} bytes were cut off in {last.name}" in message
    recovered.log.close()


def test_damage_in_the_middle_cuts_everything_behind_it(tmp_path: Path) -> None:
    batches = fill(tmp_path, clean=False)
    second = files(tmp_path, ".log")[1]
    data = bytearray(second.read_bytes())
    data[len(batches[0]) + 80] ^= 0xFF
    second.write_bytes(data)
    base = int(second.stem)
    log = reopen(tmp_path, clean=False).log
    assert content(log) == batches[: base + 1]
    assert log.producers.states[5].last_sequence == base
    log.close()


def test_only_what_lies_behind_the_recovery_point_is_read(tmp_path: Path) -> None:
    batches = fill(tmp_path, clean=False)
    first = files(tmp_path, ".log")[0]
    data = bytearray(first.read_bytes())
    data[90] ^= 0xFF
    first.write_bytes(data)
    recovered = reopen(tmp_path, clean=False, recovery_point=35)
    assert recovered.bytes_truncated == 0
    assert recovered.log.log_end_offset == len(batches)
    assert recovered.log.flushed_end_offset == 35
    recovered.log.close()


def test_an_index_that_leads_astray_cuts_nothing(tmp_path: Path) -> None:
    batches = fill(tmp_path, count=10, clean=True)
    (index,) = files(tmp_path, ".index")
    entries = list(struct.iter_unpack(">II", index.read_bytes()))
    index.write_bytes(b"".join(struct.pack(">II", offset, position + 3) for offset, position in entries))
    recovered = reopen(tmp_path, clean=False, recovery_point=9)
    assert recovered.bytes_truncated == 0
    assert content(recovered.log) == batches
    recovered.log.close()


def test_left_overs_are_removed(tmp_path: Path) -> None:
    batches = fill(tmp_path)
    for name in ("00000000000000000000.log.deleted", "00000000000000000000.log.cleaned", "x.tmp"):
        (tmp_path / name).write_bytes(b"left over")
    log = reopen(tmp_path, clean=True).log
    assert content(log) == batches
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".deleted", ".cleaned", ".tmp")]
    log.close()


def test_an_interrupted_compaction_is_finished(tmp_path: Path) -> None:
    batches = fill(tmp_path, count=80)
    first, second = files(tmp_path, ".log")[:2]
    kept = [batch for batch in batches if int.from_bytes(batch[:8], "big") in (3, int(second.stem) + 1)]
    (tmp_path / (first.name + ".swap")).write_bytes(b"".join(kept))
    log = reopen(tmp_path, clean=True, settings=TopicSettings(cleanup_policy=("compact",))).log
    third = int(files(tmp_path, ".log")[1].stem)
    assert content(log) == kept + batches[int(second.stem) + 2 :][third - int(second.stem) - 2 :]
    assert not files(tmp_path, ".swap")
    log.close()


def test_formats_older_than_magic_2_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    old = struct.pack(">qiIbb", 0, 30, 0, 1, 0) + bytes(60)
    path.write_bytes(old)
    with pytest.raises(UnreadableLog, match="magic 1"):
        reopen(tmp_path, clean=False)
    assert path.read_bytes() == old


def test_a_log_whose_start_was_promised_beyond_its_end_starts_there(tmp_path: Path) -> None:
    fill(tmp_path, count=5)
    log = open_log(OsFiles(), str(tmp_path), "t", 0, SETTINGS, log_start_offset=100).log
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    log.leader.append(memoryview(build_simple_batch([(b"k", b"v")], NOW_MS)), leader_epoch=5, now_ms=NOW_MS)
    log.writer.flush_staged()
    assert len(content(log)) == 1
    log.close()
