"""A gap at the end of a lone log: every reader comes past it at once, whatever happens while it is filled."""

import errno

import pytest

from moldau.broker.log.files.segment import LOG_SUFFIX, RELATIVE_OFFSET_MAX
from moldau.broker.log.log import Log
from moldau.broker.log.recovery.recovery import open_log
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import Crash, SimulatedFiles

FOLDER = "/data/lone-0"
NOW_MS = 1_700_000_000_000
COUNT = 24


def opened(files: SimulatedFiles, *, clean: bool = True, recovery_point: int = COUNT) -> Log:
    settings = TopicSettings(internal_segment_bytes=400, index_interval_bytes=100)
    return open_log(
        files,
        FOLDER,
        "lone",
        0,
        settings,
        clean=clean,
        recovery_point=recovery_point,
        sole_copy=True,
        now_ms=NOW_MS,
    ).log


def batch(offset: int) -> bytes:
    return build_batch([Record(0, NOW_MS + offset, b"key", b"value")])


def filled(epochs: int = 1) -> SimulatedFiles:
    """Single records in several segments and leader epochs, after a clean stop."""
    files = SimulatedFiles(1)
    files.make_directory("/data")
    log = opened(files, recovery_point=0)
    for offset in range(COUNT):
        assert log.leader.append(memoryview(batch(offset)), offset * epochs // COUNT, NOW_MS).error_code == 0
        log.writer.flush_staged()
    log.close()
    return files


def segments(files: SimulatedFiles) -> list[str]:
    return sorted(name for name in files.list_directory(FOLDER) if name.endswith(LOG_SUFFIX))


def cut(files: SimulatedFiles, name: str, size_bytes: int) -> None:
    fd = files.open(f"{FOLDER}/{name}")
    files.truncate(fd, size_bytes)
    files.sync(fd)
    files.close(fd)


def drop(files: SimulatedFiles, name: str) -> None:
    for each in files.list_directory(FOLDER):
        if each.startswith(name[:20]) and not each.endswith(".snapshot"):
            files.remove(f"{FOLDER}/{each}")


def records(log: Log) -> list[int]:
    """The offsets of all records, read from every offset on without standing still."""
    found: set[int] = set()
    for start in range(log.log_start_offset, log.log_end_offset):
        offset = start
        while offset < log.log_end_offset:
            data = log.reader.read(offset, 1 << 20, end_offset=log.log_end_offset)
            views = list(iter_batches(data))
            assert views, f"a reader stands still at {offset}"
            assert all(view.crc_is_valid() for view in views)
            assert views[-1].next_offset > offset
            found |= {view.base_offset for view in views if view.count}
            offset = views[-1].next_offset
    return sorted(found)


@pytest.mark.parametrize("epochs", [1, 3, COUNT])
@pytest.mark.parametrize("lost_segments", [1, 2])
@pytest.mark.parametrize("how", ["gone", "emptied", "cut"])
def test_readers_come_past_it(epochs: int, lost_segments: int, how: str) -> None:
    files = filled(epochs)
    names = segments(files)[-lost_segments:]
    left = int(names[0][:20]) + (how == "cut")
    for name in names:
        if how == "gone":
            drop(files, name)
        else:
            cut(files, name, len(batch(0)) + 10 if name == names[0] and how == "cut" else 0)
    for _ in range(2):  # the second start finds what the first has left
        log = opened(files)
        assert log.log_end_offset == COUNT
        assert records(log) == list(range(left))
        # Followers compare epochs: what they ask for must fit the batches that they were given.
        for view in iter_batches(log.reader.read(left, 1 << 20, end_offset=COUNT)):
            assert log.epoch_end_offset(view.leader_epoch)[1] >= view.next_offset
        log.close()
    log = opened(files)
    assert log.leader.append(memoryview(batch(0)), COUNT, NOW_MS).base_offset == COUNT
    log.writer.flush_staged()
    assert records(log) == [*range(left), COUNT]


def test_what_an_earlier_start_left_is_filled() -> None:
    """The last segment is empty, and one before it is gone: the log ends at its recovery point."""
    files = filled()
    log = opened(files)
    log.writer.roll(NOW_MS)
    log.close()
    drop(files, segments(files)[-2])
    log = opened(files)
    assert log.log_end_offset == COUNT
    assert records(log) == list(range(int(segments(files)[-2][:20])))


@pytest.mark.parametrize("power", [True, False])
def test_a_crash_at_any_point_of_the_start(power: bool) -> None:
    """The next start ends where this one would have, with the same records."""
    crashed = 0
    for step in range(200):
        files = filled(3)
        names = segments(files)
        drop(files, names[-1])
        left = int(names[-2][:20]) + 1
        cut(files, names[-2], len(batch(0)) + 10)
        files.sync_directory(FOLDER)
        files.process_kill()
        countdown = [step]

        def crash(operation: str, path: str, countdown: list[int] = countdown) -> None:
            if operation in ("create", "write", "sync", "sync_directory", "rename", "truncate", "remove"):
                countdown[0] -= 1
                if countdown[0] < 0:
                    raise Crash

        files.fault = crash
        try:
            opened(files)
        except Crash:
            crashed += 1
        files.fault = lambda operation, path: None
        files.power_cut() if power else files.process_kill()
        log = opened(files, clean=bool(step % 2))
        assert log.log_end_offset == COUNT
        assert records(log) == list(range(left)), step
        if countdown[0] >= 0:
            break
    assert crashed > 8


def test_a_gap_that_is_longer_than_a_segment_can_be() -> None:
    files = filled()
    end = COUNT + 3 * RELATIVE_OFFSET_MAX
    for recovery_point in (end, end):
        log = opened(files, clean=True, recovery_point=recovery_point)
        assert log.log_end_offset == end
        offset, found = 0, 0
        while offset < end:
            data = log.reader.read(offset, 1 << 20, end_offset=end)
            views = list(iter_batches(data))
            assert views, f"a reader stands still at {offset}"
            found += sum(view.count for view in views)
            offset = views[-1].next_offset
        assert found == COUNT
        log.close()


def test_a_follower_takes_it() -> None:
    """A replica that is added later copies the log as it is."""
    files = filled(3)
    drop(files, segments(files)[-1])
    lone = opened(files)
    follower = open_log(files, "/data/lone-1", "lone", 1, TopicSettings()).log
    while follower.log_end_offset < COUNT:
        data = lone.reader.read(follower.log_end_offset, 300, end_offset=COUNT)
        assert len(data), "the follower stands still"
        assert follower.append_as_follower(memoryview(bytes(data)), 3, NOW_MS).error_code == 0
    assert records(follower) == records(lone)
    assert follower.epochs.entries() == lone.epochs.entries()


def test_a_full_disk_does_not_keep_the_log_from_opening() -> None:
    files = filled()
    name = segments(files)[-1]
    drop(files, name)
    refused = [True]

    def full(operation: str, path: str) -> None:
        if refused[0] and operation == "write" and ".log" in path:
            raise OSError(errno.ENOSPC, "no space left on device", path)

    files.fault = full
    log = opened(files)
    assert log.log_end_offset == COUNT
    log.close()
    refused[0] = False
    log = opened(files)
    assert records(log) == list(range(int(name[:20])))
