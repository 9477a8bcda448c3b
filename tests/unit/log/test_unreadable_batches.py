"""A batch in a log that nobody can read is remembered by whoever meets it: a search by time, compaction."""

from __future__ import annotations

import logging

import pytest
from poisoned_batches import NOW_MS, PACKED, batch_of, pack, payload

from moldau.broker.log.log import Log
from moldau.broker.log.reading import timestamps
from moldau.broker.log.reading.reader import UNREADABLE_MAX
from moldau.broker.log.recovery.recovery import open_log
from moldau.common.records.batch import HEADER_BYTES
from moldau.common.records.builder import build_batch
from moldau.common.records.compression import UnpacksToMore
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles


def log_with(*batches: bytes, files: SimulatedFiles | None = None) -> Log:
    """A log of a sound batch and of these, into which its leader did not look."""
    log = open_log(files or SimulatedFiles(), "/d/a-0", "a", 0, TopicSettings(moldau_records_check=False)).log
    for batch in (build_batch([Record(0, NOW_MS - 10, b"first", None)]), *batches):
        assert not log.leader.append(memoryview(batch), 3, NOW_MS).error_code
        log.writer.flush_staged()
    return log


def search(log: Log) -> timestamps.TimestampAndOffset | None:
    return timestamps.run(log.offset_for_timestamp(NOW_MS, log.log_end_offset))


@pytest.mark.parametrize("codec", PACKED)
def test_a_search_by_time_remembers_garbage_and_tells_it_once(
    codec: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    log = log_with(batch_of(codec, b"garbage " * 20))
    assert log.unreadable == {}
    for _ in range(2):
        found = search(log)
        assert found is not None
        assert found.offset == 1
    assert list(log.unreadable) == [1]
    assert log.unreadable[1].startswith("the records cannot be decompressed: ")
    [told] = caplog.records
    assert "/d/a-0/00000000000000000000.log: no consumer can read the batch at offset 1" in told.getMessage()


@pytest.mark.parametrize("codec", PACKED)
def test_a_sound_batch_is_not_remembered(codec: str) -> None:
    log = log_with(batch_of(codec, pack(codec, payload())))
    found = search(log)
    assert found is not None
    assert found.offset == 1
    assert log.unreadable == {}


def test_a_batch_that_only_the_search_has_no_room_for_is_not_remembered() -> None:
    log = log_with(batch_of("zstd", pack("zstd", payload())))
    steps = log.offset_for_timestamp(NOW_MS, log.log_end_offset)
    assert next(steps) is not None
    error = UnpacksToMore("more than the request may take")
    with pytest.raises(StopIteration):
        steps.send(timestamps.Unreadable(str(error), by_all=False))
    assert log.unreadable == {}


def test_what_is_deleted_or_truncated_is_no_longer_told() -> None:
    log = log_with(batch_of("zstd", b"garbage"), build_batch([Record(0, NOW_MS + 5, b"last", None)]))
    search(log)
    assert list(log.unreadable) == [1]
    log.increment_log_start_offset(11)
    assert log.unreadable == {}

    log = log_with(batch_of("zstd", b"garbage"))
    search(log)
    log.truncate_fully_and_start_at(1)
    assert log.unreadable == {}


def test_a_log_full_of_them_is_remembered_in_part() -> None:
    log = log_with(build_batch([Record(0, NOW_MS, b"second", None)]))
    for offset in range(2 * UNREADABLE_MAX):
        log.reader.note_unreadable(offset, offset, "no zstd")
    assert len(log.unreadable) == UNREADABLE_MAX


def test_what_is_deleted_makes_room_for_what_is_met_later() -> None:
    log = log_with(build_batch([Record(delta, NOW_MS, b"record", None) for delta in range(99)]))
    for offset in range(UNREADABLE_MAX):
        log.reader.note_unreadable(offset, offset, "no zstd")
    log.increment_log_start_offset(UNREADABLE_MAX)
    log.reader.note_unreadable(UNREADABLE_MAX, UNREADABLE_MAX, "no zstd")
    assert log.unreadable == {UNREADABLE_MAX: "no zstd"}


def test_a_log_that_starts_within_the_batch_still_has_it() -> None:
    log = log_with(batch_of("zstd", b"garbage"))
    search(log)
    log.increment_log_start_offset(5)
    assert list(log.unreadable) == [1]
    assert log.log_end_offset == 11


@pytest.mark.parametrize("codec", PACKED)
def test_damage_on_the_disk_is_told_apart_from_what_was_written_so(codec: str) -> None:
    files = SimulatedFiles()
    log = log_with(batch_of(codec, pack(codec, payload())), files=files)
    first, second = log.segments[-1].walk(0)
    for byte in range(second.position + HEADER_BYTES, second.position + second.size_bytes):
        files.flip_bit("/d/a-0/00000000000000000000.log", 8 * byte + 3)
    search(log)
    assert list(log.unreadable) == [first.last_offset + 1]
    assert log.unreadable[1].startswith("it was damaged on the disk, its crc is wrong: ")
