"""After an unclean stop: whether only the process died, by the mark in each log directory."""

import errno

import pytest

from moldau.broker.log.files.run_marks import NAME, RunMarks
from moldau.broker.log.manager import LogManager
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.records.builder import build_simple_batch
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

ONE, TWO = "/one", "/two"


def manager(disk: SimulatedFiles, boot_id: str | None, *, forced: bool = False) -> LogManager:
    clock = ManualClock()
    made = LogManager(BrokerSettings(), clock=clock, timers=ManualTimers(clock), files=disk, paths=[ONE, TWO])
    made.directories.run_marks = RunMarks(disk, boot_id, forced)
    made.startup.load("cluster", 1, lambda topic: TopicSettings(), lambda topic, partition: False)
    return made


def after_a_life(*, boot_id: str | None = "a", forced: bool = False) -> SimulatedFiles:
    """A broker has been registered in epoch 5, and was killed."""
    disk = SimulatedFiles()
    running = manager(disk, boot_id, forced=forced)
    assert running.directories.complete_epochs == []
    running.directories.mark_running([5])
    disk.process_kill()
    return disk


@pytest.mark.parametrize(
    ("before", "forced", "after", "complete"),
    [
        ("a", False, "a", [5]),
        ("a", False, "b", []),
        (None, False, None, []),
        ("a", False, None, []),
        ("a", True, "a", [5]),
        ("a", True, "b", [5]),
        (None, True, None, [5]),
    ],
)
def test_what_a_stop_has_taken(
    before: str | None, forced: bool, after: str | None, complete: list[int]
) -> None:
    disk = after_a_life(boot_id=before, forced=forced)
    assert manager(disk, after).directories.complete_epochs == complete


def test_it_is_judged_by_how_the_last_process_wrote_not_this_one() -> None:
    assert manager(after_a_life(), "b", forced=True).directories.complete_epochs == []


def test_a_start_that_dies_before_it_is_registered_changes_nothing() -> None:
    disk = after_a_life()
    for _ in range(2):
        assert manager(disk, "a").directories.complete_epochs == [5]
        disk.process_kill()


def test_nor_does_one_after_a_clean_stop() -> None:
    disk = SimulatedFiles()
    manager(disk, "a").close(clean=True, broker_epoch=7)
    assert manager(disk, "a").directories.complete_epochs == [7]
    disk.process_kill()
    assert manager(disk, "a").directories.complete_epochs == [7]
    disk.process_kill()
    assert manager(disk, "b").directories.complete_epochs == []


def test_what_was_lost_once_stays_lost_in_the_same_boot() -> None:
    disk = after_a_life()
    assert manager(disk, "b").directories.complete_epochs == []
    disk.process_kill()
    assert manager(disk, "b").directories.complete_epochs == []


def test_one_directory_without_its_mark_is_enough() -> None:
    disk = after_a_life()
    disk.remove(f"{TWO}/{NAME}")
    assert manager(disk, "a").directories.complete_epochs == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version":1}', b'{"version":0,"brokerEpochs":7}'])
def test_a_mark_that_cannot_be_read_counts_as_none(content: bytes) -> None:
    disk = after_a_life()
    fd = disk.open(f"{ONE}/{NAME}", create=True, truncate=True)
    disk.pwrite(fd, content, 0)
    disk.close(fd)
    assert manager(disk, "a").directories.complete_epochs == []


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize(
    ("damaged", "boot_id", "complete"),
    [("nothing", "a", True), ("the first", "a", False), ("behind", "a", True), ("the first", "b", None)],
)
def test_a_log_that_was_cut_before_whole_batches_did_not_only_lose_its_process(
    forced: bool, damaged: str, boot_id: str, complete: bool | None
) -> None:
    """Its end may have been acknowledged. (A loss of power tears what was not forced in any order.)"""
    disk = SimulatedFiles()
    running = manager(disk, "a", forced=forced)
    log = running.create("t", 0, bytes(16), TopicSettings(), sole_copy=False)
    batches = [build_simple_batch([(None, value)], 1) for value in (b"one", b"two", b"three")]
    for batch in batches:
        log.leader.append(memoryview(bytearray(batch)), leader_epoch=0, now_ms=1)
        log.writer.flush_staged()
    running.directories.mark_running([5])
    disk.process_kill()
    fd = disk.open(f"{log.directory}/{0:020}.log")
    if damaged == "the first":
        disk.pwrite(fd, b"?", 65)
    elif damaged == "behind":
        disk.pwrite(fd, b"half a batch", sum(map(len, batches)))
    disk.close(fd)
    expected = [5] if (forced if complete is None else complete) else []
    for _ in range(2):
        again = manager(disk, boot_id, forced=forced)
        assert again.directories.complete_epochs == expected
        disk.process_kill()


def test_a_power_cut_leaves_the_mark_of_forced_logs() -> None:
    for seed in range(20):
        disk = SimulatedFiles(seed)
        manager(disk, "a", forced=True).directories.mark_running([5])
        disk.power_cut()
        assert manager(disk, "b").directories.complete_epochs == [5]


def test_an_io_error_makes_the_page_cache_doubtful() -> None:
    disk = SimulatedFiles()
    running = manager(disk, "a")
    running.directories.mark_running([5])
    running.open_logs.report(running.directories[0], OSError(errno.EIO, "Input/output error"))
    running.directories.mark_running([5, 6])
    disk.process_kill()
    assert manager(disk, "a").directories.complete_epochs == []


def test_nor_does_a_directory_that_fails_while_the_marks_are_written_keep_one() -> None:
    disk = SimulatedFiles()
    running = manager(disk, "a")

    def fails(operation: str, path: str) -> None:
        if operation == "rename" and path.startswith(TWO):
            disk.fault = lambda operation, path: None
            running.open_logs.report(running.directories[0], OSError(errno.EIO, "Input/output error"))

    disk.fault = fails
    running.directories.mark_running([5])
    disk.process_kill()
    assert not disk.exists(f"{ONE}/{NAME}")
    assert not disk.exists(f"{TWO}/{NAME}")


def test_a_mark_that_could_not_be_written_promises_nothing() -> None:
    disk = SimulatedFiles()
    running = manager(disk, "a")
    running.directories.mark_running([5])

    def full(operation: str, path: str) -> None:
        if operation in ("create", "write"):
            raise OSError(errno.ENOSPC, "No space left on device")

    disk.fault = full
    running.directories.mark_running([5, 6])
    disk.fault = lambda operation, path: None
    disk.process_kill()
    assert manager(disk, "a").directories.complete_epochs == []


def test_a_lone_broker_writes_no_marks() -> None:
    disk = SimulatedFiles()
    clock = ManualClock()
    lone = LogManager(BrokerSettings(), clock=clock, timers=ManualTimers(clock), files=disk, paths=[ONE])
    lone.startup.load("cluster", 1, lambda topic: pytest.fail("there is no topic"))
    lone.directories.mark_running([5])
    assert not disk.exists(f"{ONE}/{NAME}")
