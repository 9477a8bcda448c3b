"""Many logs: directories, restarts, deletion, checkpoints, full and broken disks."""

import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.broker.log.files.checkpoints import read_offsets
from moldau.broker.log.files.directory import DirectoryUnusable
from moldau.broker.log.files.log_directories import NoUsableDirectory
from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.broker.log.upkeep.background import Done
from moldau.broker.log.upkeep.housekeeping import Housekeeping
from moldau.common.core.clock import ManualClock
from moldau.common.core.files import OsFiles
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.builder import build_simple_batch
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

TOPIC_ID = bytes(range(16))
SETTINGS = TopicSettings()


class Disk:
    """A simulated disk, a clock, and managers one after the other."""

    def __init__(self, *paths: str, durability: str = "os") -> None:
        self.settings = BrokerSettings(moldau_durability=durability)
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.files = SimulatedFiles(now_ms=self.clock.now_ms)
        self.paths = paths or ("/data",)

    def start(self, topic_settings: Callable[[str], TopicSettings] = lambda topic: SETTINGS) -> LogManager:
        manager = LogManager(
            self.settings,
            clock=self.clock,
            timers=self.timers,
            files=self.files,
            source=random.Random(1),
            paths=self.paths,
            descriptor_limit=20,
        )
        manager.startup.load("cluster", 1, topic_settings)
        return manager

    def fail(self, number: int, prefix: str, *operations: str) -> None:
        def fault(operation: str, path: str) -> None:
            if path.startswith(prefix) and operation in operations:
                raise OSError(number, "simulated", path)

        self.files.fault = fault

    def heal(self) -> None:
        self.files.fault = lambda operation, path: None


def append(log: Log, clock: ManualClock, value: bytes = b"value") -> int:
    batch = build_simple_batch([(b"key", value)], clock.now_ms())
    result = log.leader.append(memoryview(batch), leader_epoch=0, now_ms=clock.now_ms())
    if not result.error_code:
        log.writer.flush_staged()
    return result.error_code


def test_logs_survive_a_clean_restart_without_being_read() -> None:
    disk = Disk()
    manager = disk.start()
    for partition in range(50):
        log = manager.create("flights", partition, TOPIC_ID, SETTINGS)
        for _ in range(partition % 4):
            assert append(log, disk.clock) == 0
    manager.close()
    again = disk.start()
    assert (again.startup.progress.total, again.startup.progress.done, again.startup.progress.finished) == (
        50,
        50,
        True,
    )
    assert again.startup.progress.unclean_directories == 0
    for partition in range(50):
        log = again.get("flights", partition)
        assert log is not None
        assert (log.log_end_offset, log.topic_id) == (partition % 4, TOPIC_ID)
        assert append(log, disk.clock) == 0


def test_a_kill_loses_nothing_that_was_written_and_is_noticed() -> None:
    disk = Disk()
    manager = disk.start()
    log = manager.create("flights", 0, TOPIC_ID, SETTINGS)
    for _ in range(5):
        append(log, disk.clock)
    disk.files.process_kill()
    again = disk.start()
    assert again.startup.progress.unclean_directories == 1
    recovered = again.get("flights", 0)
    assert recovered is not None
    assert recovered.log_end_offset == 5


@pytest.mark.parametrize("synced_by", ["group", "flush.messages"])
def test_what_counts_after_a_kill_is_forced_to_the_disk_first(synced_by: str) -> None:
    disk = Disk(durability="group" if synced_by == "group" else "os")
    settings = TopicSettings(flush_messages=1) if synced_by == "flush.messages" else SETTINGS
    log = disk.start().create("flights", 0, TOPIC_ID, settings)
    for _ in range(5):
        append(log, disk.clock)
    disk.files.process_kill()
    recovered = disk.start(lambda topic: settings).get("flights", 0)
    assert recovered is not None
    assert (recovered.log_end_offset, recovered.flushed_end_offset) == (5, 5)
    disk.files.power_cut()
    again = disk.start(lambda topic: settings).get("flights", 0)
    assert again is not None
    assert again.log_end_offset == 5


def test_a_disk_that_cannot_be_forced_after_a_kill_is_offline() -> None:
    disk = Disk("/one", "/two", durability="group")
    manager = disk.start()
    for partition in range(2):
        append(manager.create("flights", partition, TOPIC_ID, SETTINGS), disk.clock)
    disk.files.process_kill()
    disk.fail(errno.EIO, "/one", "sync")
    again = disk.start()
    assert again.offline_dirs == ["/one"]
    assert {log.offline for log in again} == {False, True}


def test_partitions_go_where_the_fewest_are() -> None:
    disk = Disk("/one", "/two", "/three")
    manager = disk.start()
    for partition in range(9):
        manager.create("flights", partition, TOPIC_ID, SETTINGS)
    assert [len(description.logs) for description in manager.describe()] == [3, 3, 3]


def test_create_is_idempotent_and_a_new_topic_of_the_old_name_starts_empty() -> None:
    disk = Disk()
    manager = disk.start()
    log = manager.create("flights", 0, TOPIC_ID, SETTINGS)
    append(log, disk.clock)
    assert manager.create("flights", 0, TOPIC_ID, SETTINGS) is log
    fresh = manager.create("flights", 0, bytes(16), SETTINGS)
    assert fresh is not log
    assert fresh.log_end_offset == 0


def test_deletion_takes_the_log_at_once_and_the_files_later() -> None:
    disk = Disk()
    manager = disk.start()
    log = manager.create("t" * 249, 0, TOPIC_ID, SETTINGS)
    append(log, disk.clock)
    assert manager.delete_async("t" * 249, 0)
    assert not manager.delete_async("t" * 249, 0)
    assert manager.get("t" * 249, 0) is None
    assert append(log, disk.clock) == ErrorCode.KAFKA_STORAGE_ERROR
    (name,) = [name for name in disk.files.list_directory("/data") if name.endswith("-delete")]
    assert len(name) <= 255
    disk.timers.advance(SETTINGS.file_delete_delay_ms + 1)
    assert not disk.files.exists(f"/data/{name}")


def test_an_interrupted_deletion_is_finished_at_the_next_start() -> None:
    disk = Disk()
    manager = disk.start()
    manager.create("flights", 0, TOPIC_ID, SETTINGS)
    manager.delete_async("flights", 0)
    manager.close()
    again = disk.start()
    assert len(again) == 0
    disk.timers.advance(1)
    assert not [name for name in disk.files.list_directory("/data") if name.endswith("-delete")]


def test_a_full_disk_refuses_produce_and_resumes_by_itself() -> None:
    disk = Disk()
    manager = disk.start()
    log = manager.create("flights", 0, TOPIC_ID, SETTINGS)
    append(log, disk.clock)
    disk.fail(errno.ENOSPC, "/data/flights", "write")
    batch = memoryview(build_simple_batch([(b"k", b"v")], disk.clock.now_ms()))
    assert log.leader.append(batch, leader_epoch=0, now_ms=disk.clock.now_ms()).error_code == 0
    with pytest.raises(OSError, match="simulated"):
        log.writer.flush_staged()
    assert manager.full_dirs == ["/data"]
    assert manager.offline_dirs == []
    large = memoryview(build_simple_batch([(b"k", b"v" * 100_000)], disk.clock.now_ms()))
    refused = log.leader.append(large, leader_epoch=0, now_ms=disk.clock.now_ms())
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(log.reader.read(0, 1000, end_offset=1)) > 0
    disk.heal()
    assert append(log, disk.clock) == 0
    assert log.log_end_offset == 2
    housekeeping = Housekeeping(manager, lambda log: log.log_end_offset)
    housekeeping.check_room()
    assert manager.full_dirs == []


def test_a_broken_disk_takes_its_directory_offline_and_no_other() -> None:
    disk = Disk("/one", "/two")
    manager = disk.start()
    logs = [manager.create("flights", partition, TOPIC_ID, SETTINGS) for partition in range(4)]
    gone: list[list[Log]] = []
    manager.open_logs.on_offline.append(lambda directory, lost: gone.append(lost))
    disk.fail(errno.EIO, "/one", "write")
    errors = []
    for log in logs:
        try:
            errors.append(append(log, disk.clock))
        except OSError:
            errors.append(-1)
    assert sorted(errors) == [-1, 0, 0, ErrorCode.KAFKA_STORAGE_ERROR]
    assert manager.offline_dirs == ["/one"]
    assert [len(lost) for lost in gone] == [2]
    assert manager.open_logs.directory_of(manager.create("new", 0, TOPIC_ID, SETTINGS)).path == "/two"
    disk.heal()
    manager.close()
    again = disk.start()
    assert (again.offline_dirs, len(again)) == ([], 5)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_is_final(number: int) -> None:
    disk = Disk()
    manager = disk.start()
    log = manager.create("flights", 0, TOPIC_ID, SETTINGS)
    append(log, disk.clock)
    disk.fail(number, "/data/flights", "sync")
    answers: list[OSError | None] = []
    manager.syncing.sync(log, answers.append)
    assert [error is not None and error.errno for error in answers] == [errno.EIO]
    assert log.flushed_end_offset == 0
    assert append(log, disk.clock) == ErrorCode.KAFKA_STORAGE_ERROR
    assert manager.offline_dirs == ["/data"]


def test_a_sync_that_cannot_be_begun_leaves_no_descriptor_open(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    manager = disk.start()
    log = manager.create("flights", 0, TOPIC_ID, SETTINGS)
    append(log, disk.clock)
    before = len(disk.files._open)

    def refuse(fd: int) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(disk.files, "duplicate", refuse)
        with pytest.raises(OSError, match="too many"):
            log.flusher.job()
    assert len(disk.files._open) == before
    assert manager.offline_dirs == []


@pytest.mark.parametrize("seed", range(8))
def test_a_sync_that_overtakes_the_one_with_the_new_names_syncs_them_too(seed: int) -> None:
    disk = Disk()
    disk.files = SimulatedFiles(seed)
    manager = disk.start()
    log = manager.create("flights", 0, TOPIC_ID, SETTINGS)
    append(log, disk.clock)
    manager.syncing.sync(log)
    log.writer.roll(disk.clock.now_ms())
    append(log, disk.clock)
    slow = log.flusher.job()  # after the roll, in another thread
    fast = log.flusher.job()  # that of the produce requests
    assert slow is not None
    assert fast is not None
    fast.run()
    log.flusher.job_done(fast)
    assert log.flushed_end_offset == 2
    disk.files.power_cut()
    recovered = disk.start().get("flights", 0)
    assert recovered is not None
    assert recovered.log_end_offset == 2


def test_sync_moves_the_recovery_point_and_checkpoints_keep_it() -> None:
    disk = Disk()
    manager = disk.start()
    log = manager.create("flights", 0, TOPIC_ID, SETTINGS)
    for _ in range(3):
        append(log, disk.clock)
    answers: list[OSError | None] = []
    manager.syncing.sync(log, answers.append)
    manager.syncing.sync(log, answers.append)
    assert (answers, log.flushed_end_offset) == ([None, None], 3)
    log.increment_log_start_offset(2)
    housekeeping = Housekeeping(manager, lambda log: log.log_end_offset)
    housekeeping.checkpoint()
    manager.checkpoints.save_high_watermarks({("flights", 0): 3, ("elsewhere", 0): 9})
    assert read_offsets(disk.files, "/data/recovery-point-offset-checkpoint") == {("flights", 0): 3}
    assert read_offsets(disk.files, "/data/log-start-offset-checkpoint") == {("flights", 0): 2}
    disk.files.process_kill()
    again = disk.start()
    recovered = again.get("flights", 0)
    assert recovered is not None
    assert (recovered.log_start_offset, recovered.flusher.recovery_point) == (2, 3)
    assert again.checkpoints.high_watermarks["flights", 0] == 3


def test_housekeeping_removes_old_segments_and_later_their_files() -> None:
    disk = Disk()
    settings = TopicSettings(internal_segment_bytes=100, retention_ms=60_000, file_delete_delay_ms=5_000)
    manager = disk.start(lambda topic: settings)
    log = manager.create("flights", 0, TOPIC_ID, settings)
    housekeeping = Housekeeping(manager, lambda log: log.log_end_offset)
    housekeeping.start()
    for _ in range(5):
        append(log, disk.clock, b"x" * 60)
    assert len(log.segments) == 5
    disk.timers.advance(BrokerSettings().log_retention_check_interval_ms + 1)
    assert len(log.segments) == 1
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    deleted = [name for name in disk.files.list_directory("/data/flights-0") if name.endswith(".deleted")]
    assert len(deleted) >= 5
    disk.timers.advance(5_001)
    assert not [n for n in disk.files.list_directory("/data/flights-0") if n.endswith(".deleted")]
    housekeeping.stop()


def test_flush_messages_is_honoured() -> None:
    disk = Disk()
    settings = TopicSettings(flush_messages=3)
    manager = disk.start(lambda topic: settings)
    log = manager.create("flights", 0, TOPIC_ID, settings)
    due = []
    for _ in range(4):
        append(log, disk.clock)
        due.append(log.flusher.is_due(log.settings, disk.clock.now_ms()))
    assert due == [False, False, True, True]
    Housekeeping(manager, lambda log: 0).flush_due()
    assert log.flushed_end_offset == 4


def test_few_descriptors_serve_many_logs() -> None:
    disk = Disk()
    manager = disk.start()
    logs = [manager.create("flights", partition, TOPIC_ID, SETTINGS) for partition in range(100)]
    for _ in range(3):
        for log in logs:
            assert append(log, disk.clock) == 0
    for log in logs:
        assert len(log.reader.read(0, 10_000, end_offset=3)) > 0
    assert sum(log.segments[0].fd >= 0 for log in logs) <= 20


def test_a_directory_of_another_broker_or_cluster_is_left_alone() -> None:
    disk = Disk()
    disk.start().close()
    for cluster_id, node_id in (("cluster", 2), ("other", 1)):
        manager = LogManager(
            BrokerSettings(), clock=disk.clock, timers=disk.timers, files=disk.files, paths=["/data"]
        )
        with pytest.raises(DirectoryUnusable, match="belongs to"):
            manager.startup.load(cluster_id, node_id, lambda topic: SETTINGS)


def test_a_directory_in_use_is_left_alone(tmp_path: Path) -> None:
    clock = ManualClock()
    timers = ManualTimers(clock)

    def start() -> LogManager:
        manager = LogManager(
            BrokerSettings(), clock=clock, timers=timers, files=OsFiles(), paths=[str(tmp_path)]
        )
        manager.startup.load("cluster", 1, lambda topic: SETTINGS)
        return manager

    first = start()
    with pytest.raises(DirectoryUnusable, match="in use"):
        start()
    first.close()
    start().close()


def test_without_a_usable_directory_there_is_no_broker() -> None:
    disk = Disk("/one", "/two")
    disk.fail(errno.EIO, "/", "create", "make_directory")
    with pytest.raises(NoUsableDirectory, match="/one, /two"):
        disk.start()


def test_a_topic_deleted_and_made_again_during_a_sync_does_no_harm() -> None:
    disk = Disk()
    manager = disk.start()
    waiting: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []

    class Later:
        def run(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
            waiting.append((work, done))

    log = manager.create("flights", 0, TOPIC_ID, SETTINGS)
    append(log, disk.clock)
    manager.background = Later()
    answers: list[OSError | None] = []
    manager.syncing.sync(log, answers.append)
    manager.delete_async("flights", 0)
    fresh = manager.create("flights", 0, bytes(16), SETTINGS)
    for work, done in waiting:
        try:
            work()
        except OSError as error:
            done(error)
        else:
            done(None)
    assert manager.offline_dirs == []
    assert append(fresh, disk.clock) == 0


def test_many_deleted_folders_are_removed_some_at_a_time_and_none_before_its_time(tmp_path: Path) -> None:
    class Jobs:
        """Background work that waits to be run."""

        def __init__(self) -> None:
            self.waiting: list[tuple[Callable[[], None], Done]] = []

        def run(self, work: Callable[[], None], done: Done) -> None:
            self.waiting.append((work, done))

    clock = ManualClock()
    timers = ManualTimers(clock)
    jobs = Jobs()
    logs = LogManager(BrokerSettings(log_dirs=(str(tmp_path),)), clock=clock, timers=timers, background=jobs)
    logs.startup.load("cluster", 1, lambda topic: TopicSettings())
    settings = TopicSettings(file_delete_delay_ms=1000)
    for index in range(200):
        logs.create("many", index, bytes(16), settings)
    for index in range(150):
        logs.delete_async("many", index)
    timers.advance(500)
    for index in range(150, 200):
        logs.delete_async("many", index)
    timers.advance(499)
    assert not jobs.waiting
    timers.advance(1)
    left = []
    while jobs.waiting:
        ((work, done),) = jobs.waiting
        jobs.waiting.clear()
        work()
        done(None)
        timers.advance(0)
        left.append(len(list(tmp_path.glob("*-delete"))))
    # The checkpoint files are written first, and once for all.
    assert left == [200, 200, 200, 136, 72, 50]
    timers.advance(500)
    ((work, done),) = jobs.waiting
    work()
    assert not list(tmp_path.glob("*-delete"))
