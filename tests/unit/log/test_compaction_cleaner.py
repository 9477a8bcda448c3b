"""The cleaner: what it does with a worker's results, and with logs that change meanwhile."""

import errno
import itertools
import random
from typing import Any

import pytest

from moldau.broker.log.compaction.clean import clean
from moldau.broker.log.compaction.cleaner import RETRY_UNCLEANABLE_MS, Cleaner
from moldau.broker.log.compaction.job import (
    Cancelled,
    CleanError,
    CleanJob,
    Uncleanable,
    UnreadableBatch,
    WorkerLost,
)
from moldau.broker.log.files.checkpoints import CLEANER_OFFSETS_NAME, read_offsets
from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.broker.log.recovery.recovery import open_log
from moldau.broker.log.upkeep.housekeeping import Housekeeping
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_simple_batch
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

TOPIC_ID = bytes(range(16))
SETTINGS = TopicSettings(cleanup_policy=("compact",), internal_segment_bytes=300)
BACKOFF_MS = 15_000


class HeldWorker:
    """Keeps its job until the test lets it go."""

    def __init__(self, files: SimulatedFiles) -> None:
        self.files = files
        self.job: CleanJob | None = None
        self.cancelled = self.closed = False

    @property
    def busy(self) -> bool:
        return self.job is not None

    def run(self, job: CleanJob, on_progress: Any, done: Any) -> None:
        assert not self.busy
        self.job, self.progress, self.done, self.cancelled = job, on_progress, done, False

    def finish(self, outcome: Any = None) -> None:
        job, self.job = self.job, None
        assert job is not None
        if outcome is None:
            try:
                outcome = clean(self.files, job, self.progress, lambda: False)
            except CleanError as error:
                outcome = error
        self.done(outcome)

    def cancel(self) -> None:
        self.cancelled = True

    def close(self) -> None:
        self.closed = True
        if self.busy:
            self.finish(Cancelled())


class Storage:
    """A manager, its cleaner, and the workers that the cleaner has made."""

    def __init__(
        self, files: SimulatedFiles | None = None, topic: TopicSettings = SETTINGS, **settings: Any
    ) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.files = files or SimulatedFiles(now_ms=self.clock.now_ms)
        self.workers: list[HeldWorker] = []
        self.manager = LogManager(
            BrokerSettings(**settings),
            clock=self.clock,
            timers=self.timers,
            files=self.files,
            source=random.Random(1),
            paths=("/data",),
        )
        self.manager.startup.load("cluster", 1, lambda _: topic)
        self.cleaner = Cleaner(self.manager, lambda log: log.written_end_offset, self.make_worker)
        self.cleaner.start()

    def make_worker(self) -> HeldWorker:
        self.workers.append(HeldWorker(self.files))
        return self.workers[-1]

    def log(self, topic: str = "accounts", settings: TopicSettings = SETTINGS, records: int = 40) -> Log:
        log = self.manager.create(topic, 0, TOPIC_ID, settings)
        self.append(log, records)
        return log

    def append(self, log: Log, records: int) -> None:
        for number in range(records):
            batch = build_simple_batch([(b"key%d" % (number % 3), b"value%d" % number)], self.clock.now_ms())
            assert not log.leader.append(
                memoryview(batch), leader_epoch=0, now_ms=self.clock.now_ms()
            ).error_code
            log.writer.flush_staged()
        self.timers.advance(0)

    def look(self) -> None:
        self.timers.advance(BACKOFF_MS)

    @property
    def worker(self) -> HeldWorker:
        (worker,) = self.workers
        return worker

    def checkpoint(self) -> dict[tuple[str, int], int]:
        return read_offsets(self.files, f"/data/{CLEANER_OFFSETS_NAME}")


def values(log: Log) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    offset = log.log_start_offset
    while len(data := log.reader.read(offset, 1 << 20, end_offset=log.written_end_offset)):
        for view in iter_batches(data):
            offset = view.next_offset
            found |= {bytes(each.key or b""): bytes(each.value or b"") for each in view.records()}
        if offset >= log.written_end_offset:
            break
    return found


def leftovers(storage: Storage, log: Log) -> list[str]:
    names = storage.files.list_directory(log.directory)
    return [name for name in names if name.endswith((".cleaned", ".swap"))]


def test_a_clean_shrinks_the_log_and_is_written_down() -> None:
    storage = Storage()
    log = storage.log()
    before, size, start = values(log), log.size_bytes, log.log_start_offset
    storage.look()
    job = storage.worker.job
    assert job is not None
    assert storage.cleaner.report.document()["running"]
    storage.worker.finish()
    assert log.size_bytes < size / 2
    assert (log.log_start_offset, log.log_end_offset) == (start, 40)
    assert values(log) == before
    assert storage.checkpoint() == {("accounts", 0): job.first_uncleanable_offset}
    assert not leftovers(storage, log)
    storage.look()
    assert not storage.worker.busy, "a clean log is not cleaned again"
    assert storage.cleaner.report.totals.cleans == 1
    storage.timers.advance(SETTINGS.file_delete_delay_ms)
    names = storage.files.list_directory(log.directory)
    assert not [name for name in names if name.endswith(".deleted")]


def test_nothing_is_started_for_logs_that_need_nothing() -> None:
    storage = Storage()
    storage.log("flights", TopicSettings(internal_segment_bytes=300))
    storage.log("short", records=1)
    storage.look()
    assert not storage.workers


def test_as_many_at_once_as_there_are_threads_and_the_dirtiest_first() -> None:
    storage = Storage(log_cleaner_threads=2)
    logs = [storage.log(name) for name in ("a", "b", "c")]
    storage.look()
    assert len(storage.workers) == 2
    assert len(storage.manager.open_logs.being_cleaned) == 2
    for _ in range(2):
        for worker in storage.workers:
            if worker.busy:
                worker.finish()
        storage.timers.advance(1)
    assert len(storage.workers) == 2
    assert storage.cleaner.report.totals.cleans == 3
    assert set(storage.checkpoint()) == {(log.topic, 0) for log in logs}


def test_records_that_come_during_a_clean_stay() -> None:
    storage = Storage()
    log = storage.log()
    storage.look()
    storage.append(log, 20)
    before = values(log)
    storage.worker.finish()
    assert log.log_end_offset == 60
    assert values(log) == before
    storage.append(log, 1)
    assert log.log_end_offset == 61


def test_a_log_that_was_cut_meanwhile_keeps_its_segments() -> None:
    storage = Storage()
    log = storage.log()
    storage.look()
    log.truncate_to(10)
    storage.append(log, 3)
    before = values(log)
    storage.worker.finish()
    assert storage.cleaner.report.totals.cleans == 0
    assert values(log) == before
    assert not leftovers(storage, log)
    assert not storage.checkpoint()
    assert not storage.cleaner.report.troubles, "that the files have changed is nobody's fault"


def test_a_cut_makes_the_log_dirty_again() -> None:
    storage = Storage()
    log = storage.log()
    storage.look()
    storage.worker.finish()
    log.truncate_to(20)
    storage.append(log, 40)
    storage.look()
    assert storage.worker.job is not None
    assert storage.worker.job.first_dirty_offset == 0


def test_a_topic_deleted_during_its_clean_is_gone_and_its_successor_is_dirty() -> None:
    storage = Storage()
    storage.log()
    storage.look()
    storage.worker.finish()
    log = storage.manager.get("accounts", 0)
    assert log is not None
    storage.append(log, 100)
    storage.look()
    assert storage.worker.busy
    assert storage.manager.delete_async("accounts", 0)
    assert storage.worker.cancelled
    assert not storage.checkpoint()
    fresh = storage.log()
    storage.worker.finish(Cancelled())
    assert not storage.cleaner.report.troubles
    storage.look()
    assert storage.worker.job is not None
    assert storage.worker.job.first_dirty_offset == 0
    storage.worker.finish()
    assert fresh.log_end_offset == 40


def test_stopping_calls_a_clean_off_and_leaves_nothing() -> None:
    storage = Storage()
    log = storage.log()
    storage.look()
    storage.cleaner.stop()
    assert storage.worker.closed
    assert not leftovers(storage, log)
    assert not storage.cleaner.report.troubles
    storage.look()
    assert len(storage.workers) == 1


def test_a_log_that_cannot_be_cleaned_is_left_alone_for_a_while_and_named() -> None:
    storage = Storage()
    log = storage.log()
    storage.look()
    storage.worker.finish(Uncleanable("segment 0 has a wrong crc at position 71"))
    (trouble,) = storage.cleaner.report.troubles
    assert (trouble.key, trouble.cause) == (("accounts", 0), "segment 0 has a wrong crc at position 71")
    storage.look()
    assert not storage.worker.busy
    storage.timers.advance(RETRY_UNCLEANABLE_MS)
    storage.worker.finish()
    assert not storage.cleaner.report.troubles
    assert storage.cleaner.report.totals.failures == 1
    assert log.log_end_offset == 40


def test_a_batch_that_compaction_cannot_read_is_known_by_its_offset() -> None:
    storage = Storage()
    log = storage.log()
    storage.look()
    batch = UnreadableBatch(7, 9, "no zstd")
    storage.worker.finish(Uncleanable("/d/7.log: the batch with offset 7 cannot be read: no zstd", batch))
    assert log.unreadable == {7: "no zstd"}


def test_a_worker_that_died_is_counted() -> None:
    storage = Storage()
    storage.log()
    storage.look()
    storage.worker.finish(WorkerLost("killed by signal 9"))
    assert storage.cleaner.report.totals.workers_lost == 1


def test_retention_waits_for_a_clean() -> None:
    storage = Storage()
    settings = TopicSettings(
        cleanup_policy=("compact", "delete"), internal_segment_bytes=300, retention_ms=60_000
    )
    log = storage.log(settings=settings)
    housekeeping = Housekeeping(storage.manager, lambda log: log.written_end_offset)
    storage.look()
    storage.clock.advance(120_000)
    housekeeping.retention()
    assert log.log_start_offset == 0
    storage.worker.finish()
    assert storage.cleaner.report.totals.cleans == 1
    housekeeping.retention()
    assert log.log_start_offset == 40
    assert values(log) == {}


def test_segments_below_the_log_start_of_a_compacted_log_go() -> None:
    storage = Storage()
    storage.cleaner.stop()
    log = storage.log()
    assert log.increment_log_start_offset(30)
    Housekeeping(storage.manager, lambda log: log.written_end_offset).retention()
    assert log.segments[0].base_offset > 20
    assert log.log_start_offset == 30


def test_a_quiet_log_is_closed_and_cleaned_in_time() -> None:
    storage = Storage()
    settings = TopicSettings(cleanup_policy=("compact",), max_compaction_lag_ms=3_600_000)
    log = storage.log(settings=settings)
    storage.look()
    assert len(log.segments) == 1
    storage.timers.advance(3_600_000)
    assert storage.worker.busy
    storage.worker.finish()
    assert (len(log.segments), log.log_end_offset) == (2, 40)
    assert len(values(log)) == 3


def test_a_reader_behind_the_last_record_waits_for_more() -> None:
    storage = Storage()
    log = storage.log(settings=TopicSettings(cleanup_policy=("compact",), max_compaction_lag_ms=60_000))
    for number in range(3):
        batch = build_simple_batch([(b"key%d" % number, None)], storage.clock.now_ms())
        log.leader.append(memoryview(batch), leader_epoch=0, now_ms=storage.clock.now_ms())
    log.writer.flush_staged()
    log.truncate_to(42)
    storage.timers.advance(120_000)
    storage.worker.finish()
    end = log.log_end_offset
    for offset in range(log.log_start_offset, end + 1):
        data = log.reader.read(offset, 1 << 20, end_offset=end)
        assert all(view.next_offset > offset for view in iter_batches(data))
    storage.append(log, 1)
    assert len(log.reader.read(end, 1 << 20, end_offset=log.written_end_offset))


def test_a_disk_that_refuses_a_rename_leaves_old_or_new() -> None:
    for number in range(12):
        storage = Storage()
        log = storage.log()
        before = values(log)
        storage.look()
        renames = 0

        def fault(operation: str, path: str, *, at: int = number) -> None:
            nonlocal renames
            if operation == "rename" and path.startswith("/data/accounts-0"):
                renames += 1
                if renames > at:
                    raise OSError(errno.EIO, "simulated", path)

        storage.files.fault = fault
        storage.worker.finish()
        storage.files.fault = lambda operation, path: None
        assert not storage.checkpoint()
        storage.cleaner.stop()
        storage.files.process_kill()
        again = Storage(storage.files).manager.get("accounts", 0)
        assert again is not None
        assert values(again) == before, number


def test_the_checkpoint_is_kafkas_and_survives_a_restart() -> None:
    storage = Storage()
    storage.log()
    storage.look()
    storage.worker.finish()
    offset = storage.checkpoint()["accounts", 0]
    fd = storage.files.open(f"/data/{CLEANER_OFFSETS_NAME}")
    assert storage.files.pread(fd, 100, 0) == b"0\n1\naccounts 0 %d\n" % offset
    storage.cleaner.stop()
    storage.manager.close()
    again = Storage(storage.files)
    assert again.manager.checkpoints.cleaned_offsets == {("accounts", 0): offset}
    again.look()
    assert not again.workers


@pytest.mark.parametrize("policy", [("compact",), ("delete",)])
def test_gaps_between_cleaned_segments_are_no_damage_after_a_kill(policy: tuple[str, ...]) -> None:
    storage = Storage()
    log = storage.log()
    storage.look()
    storage.worker.finish()
    before, end = values(log), log.log_end_offset
    storage.files.process_kill()
    again = Storage(storage.files, SETTINGS.replace(cleanup_policy=policy))
    opened = again.manager.get("accounts", 0)
    assert opened is not None
    assert (opened.log_end_offset, values(opened)) == (end, before), policy


@pytest.mark.parametrize("recovery_point", [0, 1000], ids=["lost", "known"])
def test_a_gap_below_what_is_compacted_is_no_damage_and_one_above_is(recovery_point: int) -> None:
    storage = Storage()
    log = storage.manager.create("accounts", 0, TOPIC_ID, SETTINGS)
    for number in range(7):
        batch = build_simple_batch([(b"once%d" % number, b"value")], storage.clock.now_ms())
        assert not log.leader.append(
            memoryview(batch), leader_epoch=0, now_ms=storage.clock.now_ms()
        ).error_code
        log.writer.flush_staged()
    storage.append(log, 40)
    storage.look()
    storage.worker.finish()
    gaps = [
        following.base_offset
        for segment, following in itertools.pairwise(log.segments)
        if [*segment.walk(0)][-1].last_offset + 1 < following.base_offset
    ]
    assert gaps, "the clean was to leave a gap between two segments"
    before, end = values(log), log.log_end_offset
    storage.files.process_kill()

    def open_with(cleaned_offset: int) -> Log:
        return open_log(
            storage.files,
            log.directory,
            "accounts",
            0,
            SETTINGS,
            recovery_point=min(recovery_point, end),
            cleaned_offset=cleaned_offset,
        ).log

    opened = open_with(end)
    assert (opened.log_end_offset, values(opened)) == (end, before)
    opened.close(clean=False)
    if not recovery_point:
        assert open_with(0).log_end_offset < gaps[0]
