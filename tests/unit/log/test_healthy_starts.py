"""A healthy folder starts without a word: small batches between restarts, producers that expired, compaction,
other versions' stops. Each of these was once taken for damage.
"""

import logging
from pathlib import Path

import pytest
from damage_world import NOW_MS, SETTINGS, VICTIM_ID, WITNESS_ID, append, kill, manager_of, start, transaction
from test_compaction_cleaner import HeldWorker

from moldau.broker.log.compaction.cleaner import Cleaner
from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.broker.log.upkeep.housekeeping import Housekeeping
from moldau.common.core.files import OsFiles
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def open_one(folder: Path, settings: TopicSettings, topic_id: bytes = VICTIM_ID) -> tuple[LogManager, Log]:
    manager = manager_of(folder)
    manager.startup.load("cluster", 1, lambda topic: settings)
    log = manager.create("t", 0, topic_id, settings)
    manager.startup.is_over()
    return manager, log


def idempotent(log: Log, sequence: int) -> None:
    rows = [Record(0, NOW_MS, b"key", b"value")]
    batch = build_batch(rows, producer_id=5, producer_epoch=0, base_sequence=sequence)
    assert log.leader.append(memoryview(batch), 0, NOW_MS).error_code == 0
    log.writer.flush_staged()


@pytest.mark.parametrize("clean", [True, False])
def test_small_batches_between_restarts_leave_an_empty_index(
    tmp_path: Path, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = TopicSettings(index_interval_bytes=4096)
    for _ in range(6):
        manager, log = open_one(tmp_path, settings)
        append(log, b"x" * 3000)
        if clean:
            manager.close()
        else:
            kill(manager)
    assert not warnings(caplog)


def test_an_index_interval_that_became_shorter(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manager, log = open_one(tmp_path, TopicSettings(index_interval_bytes=100_000))
    for _ in range(5):
        append(log, b"x" * 3000)
    manager.close()
    manager, _ = open_one(tmp_path, TopicSettings(index_interval_bytes=4096))
    manager.close()
    assert not warnings(caplog)


def test_producers_that_expired_do_not_come_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manager, log = open_one(tmp_path, SETTINGS)
    idempotent(log, 0)
    log.expire_producers(NOW_MS + 10_000, 5000)
    assert not log.producers.states
    manager.close()
    manager, log = open_one(tmp_path, SETTINGS)
    assert not warnings(caplog)
    assert not log.producers.states
    manager.close()


def test_checksums_that_an_earlier_version_or_kafka_did_not_keep(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager, log, _ = start(tmp_path)
    transaction(log, 7)
    manager.close()
    file = tmp_path / "aborted-transactions-checkpoint"
    before = file.read_bytes()
    manager, log, _ = start(tmp_path)
    for number in range(30):
        transaction(log, 20 + number)
    manager.close()
    file.write_bytes(before)
    manager, log, _ = start(tmp_path)
    assert not warnings(caplog)


def test_indexes_of_aborted_transactions_that_compaction_merged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = SETTINGS.replace(internal_segment_bytes=600)
    manager, log = open_one(tmp_path, settings)
    for number in range(30):
        transaction(log, number)
        append(log, b"%d" % number)
    log.transactions.settle(log.log_end_offset)
    settings = settings.replace(cleanup_policy=("compact",), internal_segment_bytes=6000)
    log.reconfigure(settings)
    manager.syncing.sync(log)
    Housekeeping(manager, lambda log: log.log_end_offset).checkpoint()
    workers: list[HeldWorker] = []

    def make_worker() -> HeldWorker:
        workers.append(HeldWorker(OsFiles()))  # type: ignore[arg-type]
        return workers[-1]

    cleaner = Cleaner(manager, lambda log: log.written_end_offset, make_worker)
    cleaner.start()
    manager.timers.advance(15_000)  # type: ignore[attr-defined]
    Housekeeping(manager, lambda log: log.log_end_offset).checkpoint()
    segments = len(log.segments)
    workers[0].finish()
    assert len(log.segments) < segments
    assert any(len(segment.transaction_index) for segment in log.segments)
    kill(manager)
    manager, _ = open_one(tmp_path, settings)
    assert not warnings(caplog)
    manager.close()


def test_a_partition_whose_folder_was_never_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manager, _ = open_one(tmp_path, SETTINGS)
    manager.close()
    manager = manager_of(tmp_path)
    manager.startup.load("cluster", 1, lambda topic: SETTINGS)
    manager.create("t", 0, VICTIM_ID, SETTINGS)
    manager.create("t", 1, VICTIM_ID, SETTINGS)
    manager.create("other", 0, WITNESS_ID, SETTINGS)
    manager.startup.is_over()
    assert not warnings(caplog)
    manager.close()


def test_a_log_whose_records_were_all_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manager, log = open_one(tmp_path, SETTINGS)
    append(log)
    log.increment_log_start_offset(1)
    manager.close()
    for _ in range(2):
        manager, log = open_one(tmp_path, SETTINGS)
        assert (log.log_start_offset, log.log_end_offset) == (1, 1)
        manager.close()
    assert not warnings(caplog)
