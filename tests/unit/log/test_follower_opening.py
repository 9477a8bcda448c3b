"""Opening a log of which another replica has a copy (`sole_copy=False`): it ends where it is good, skips no
offset and has no gap, so that fetching from its end on brings back all that it has lost.
"""

import pytest

from moldau.broker.log.log import Log
from moldau.broker.log.recovery.recovery import Recovered, open_log
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

NOW_MS = 1_700_000_000_000
SETTINGS = TopicSettings(internal_segment_bytes=500, index_interval_bytes=150)  # five batches a segment
COUNT = 23
FOLDER = "/d/t-0"


def batch(offset: int) -> bytes:
    return bytes(
        build_batch(
            [Record(offset, NOW_MS + offset, b"k", b"v" * 20)],
            base_offset=offset,
            leader_epoch=offset // 8,
            producer_id=offset % 2,
            producer_epoch=0,
            base_sequence=offset // 2,
        )
    )


def open_replica(
    files: SimulatedFiles,
    *,
    clean: bool,
    recovery_point: int = COUNT,
    sole_copy: bool = False,
    log_start_offset: int = 0,
    high_watermark: int = COUNT,
) -> Recovered:
    return open_log(
        files,
        FOLDER,
        "t",
        0,
        SETTINGS,
        clean=clean,
        recovery_point=recovery_point,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        sole_copy=sole_copy,
        now_ms=NOW_MS,
    )


def filled(*, clean: bool) -> SimulatedFiles:
    files = SimulatedFiles()
    log = open_replica(files, clean=False, recovery_point=0, high_watermark=0).log
    log.append_as_follower(memoryview(b"".join(map(batch, range(COUNT)))), 9, NOW_MS)
    if clean:
        log.close()
    else:
        job = log.flusher.job()
        assert job is not None
        job.run()
    files.process_kill()
    assert len([name for name in files.list_directory(FOLDER) if name.endswith(".log")]) == 5
    return files


def log_path(base_offset: int) -> str:
    return f"{FOLDER}/{base_offset:020d}.log"


def flip(files: SimulatedFiles, path: str, position: int) -> None:
    fd = files.open(path)
    byte = files.pread(fd, 1, position)
    files.pwrite(fd, bytes([byte[0] ^ 0xFF]), position)
    files.close(fd)


def cut(files: SimulatedFiles, path: str, size_bytes: int) -> None:
    fd = files.open(path)
    files.truncate(fd, size_bytes)
    files.close(fd)


def offsets(log: Log) -> list[int]:
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.written_end_offset:
        data = log.reader.read(offset, 1 << 20, end_offset=log.written_end_offset)
        found += [view.base_offset for view in iter_batches(data)]
        offset = log.reader.read_end
    return found


def assert_whole_after_fetching(files: SimulatedFiles, log: Log, end: int) -> None:
    """The log is a beginning of what it was; fetching on makes it whole, and it stays so."""
    assert log.log_end_offset == log.written_end_offset == end
    assert offsets(log) == list(range(end))
    assert log.epochs.entries() == [(epoch, 8 * epoch) for epoch in range(3) if 8 * epoch < end]
    states = {each: state.last_sequence for each, state in log.producers.states.items()}
    assert states == {offset % 2: offset // 2 for offset in range(end)}
    rest = b"".join(map(batch, range(end, COUNT)))
    result = log.append_as_follower(memoryview(rest), 9, NOW_MS)
    assert (result.error_code, result.end_offset) == (0, COUNT)
    assert offsets(log) == list(range(COUNT))
    assert log.epochs.entries() == [(0, 0), (1, 8), (2, 16)]
    log.close()
    again = open_replica(files, clean=True).log
    assert offsets(again) == list(range(COUNT))
    assert {each: state.last_sequence for each, state in again.producers.states.items()} == {0: 11, 1: 10}


@pytest.mark.parametrize("clean", [True, False])
def test_a_whole_log_is_whole(clean: bool) -> None:
    files = filled(clean=clean)
    recovered = open_replica(files, clean=clean)
    assert (recovered.bytes_truncated, recovered.offsets_lost) == (0, 0)
    assert_whole_after_fetching(files, recovered.log, COUNT)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(("base", "batches"), [(0, 3), (5, 0), (10, 4), (20, 1)])
def test_a_segment_that_lost_its_end(clean: bool, base: int, batches: int) -> None:
    files = filled(clean=clean)
    cut(files, log_path(base), batches * len(batch(0)) + 30)
    recovered = open_replica(files, clean=clean)
    assert recovered.offsets_lost == 0
    assert recovered.bytes_truncated > 0
    assert_whole_after_fetching(files, recovered.log, base + batches)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("base", [0, 5, 15, 20])
def test_a_segment_that_is_gone(clean: bool, base: int) -> None:
    files = filled(clean=clean)
    for name in files.list_directory(FOLDER):
        if name.startswith(f"{base:020d}") and not name.endswith(".snapshot"):
            files.remove(f"{FOLDER}/{name}")
    recovered = open_replica(files, clean=clean)
    assert recovered.offsets_lost == 0
    if base:
        assert_whole_after_fetching(files, recovered.log, base)
    else:
        assert offsets(recovered.log) == list(range(5, COUNT))


def test_a_batch_that_a_crash_has_torn() -> None:
    files = filled(clean=False)
    flip(files, log_path(10), 150)
    recovered = open_replica(files, clean=False, recovery_point=7)
    assert_whole_after_fetching(files, recovered.log, 11)
    assert [name for name in files.list_directory(FOLDER) if name.endswith(".damaged")]


@pytest.mark.parametrize("clean", [True, False])
def test_offsets_that_were_used_are_used_again(clean: bool) -> None:
    """With the leader's records, which have those offsets; a sole copy goes on behind them instead."""
    files = filled(clean=clean)
    cut(files, log_path(20), 0)
    for sole_copy, end in ((False, 20), (True, COUNT)):
        recovered = open_replica(files, clean=clean, sole_copy=sole_copy)
        assert recovered.log.log_end_offset == end
        assert recovered.offsets_lost == end - 20
        files.process_kill()


@pytest.mark.parametrize("clean", [True, False])
def test_a_sole_copy_keeps_what_is_behind_the_damage(clean: bool) -> None:
    files = filled(clean=clean)
    cut(files, log_path(5), 2 * len(batch(0)))
    assert offsets(open_replica(files, clean=clean, sole_copy=True).log) == [*range(7), *range(10, COUNT)]


def test_below_the_log_start_the_log_goes_on_there_empty() -> None:
    files = filled(clean=False)
    cut(files, log_path(5), 0)
    recovered = open_replica(files, clean=False, log_start_offset=12)
    log = recovered.log
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries()) == (12, 12, [])
    assert log.producers.states == {}
    assert log.append_as_follower(memoryview(batch(12)), 9, NOW_MS).end_offset == 13


@pytest.mark.parametrize("clean", [True, False])
def test_an_empty_folder_begins_where_it_is_told(clean: bool) -> None:
    recovered = open_replica(SimulatedFiles(), clean=clean, log_start_offset=40)
    assert (recovered.log.log_start_offset, recovered.log.log_end_offset) == (40, 40)
