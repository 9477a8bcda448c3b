"""Transactions in one log: who may begin and end them, what holds readers back, which were aborted, and what
a restart keeps of that.
"""

from pathlib import Path

import pytest

from moldau.broker.log.appending import verification
from moldau.broker.log.log import Appended, AppendResult, Log, Origin, Repeated
from moldau.broker.log.recovery.recovery import open_log
from moldau.broker.log.state.snapshots import decode_snapshot, encode_snapshot
from moldau.broker.log.state.transaction_index import AbortedTransaction
from moldau.common.core.files import OsFiles
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.builder import build_batch
from moldau.common.records.control import MARKER_BYTES, ControlType, EndTransactionMarker
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings

NOW_MS = 1_700_000_000_000
SETTINGS = TopicSettings(index_interval_bytes=200)
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def open_in(directory: Path, *, clean: bool = False, recovery_point: int = 0, start_offset: int = 0) -> Log:
    return open_log(
        OsFiles(),
        str(directory),
        "t",
        0,
        SETTINGS,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=start_offset,
        now_ms=NOW_MS,
    ).log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_in(tmp_path)


def batch(
    producer_id: int, sequence: int, *, epoch: int = 0, count: int = 1, transactional: bool = True
) -> memoryview:
    records = [Record(index, NOW_MS, b"k", b"v" * 20) for index in range(count)]
    data = build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return memoryview(bytes(data))


def begin(log: Log, producer_id: int, sequence: int = 0, *, epoch: int = 0) -> AppendResult:
    guard = log.transactions.begin_verification(producer_id, epoch, sequence)
    return log.leader.append_verified(batch(producer_id, sequence, epoch=epoch), 0, NOW_MS, guard)


def go_on(log: Log, producer_id: int, sequence: int, *, epoch: int = 0) -> AppendResult:
    return log.leader.append(batch(producer_id, sequence, epoch=epoch), 0, NOW_MS)


def end(
    log: Log,
    producer_id: int,
    kind: ControlType = ABORT,
    *,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
) -> AppendResult:
    marker = EndTransactionMarker(kind, coordinator_epoch)
    return log.leader.append_marker(marker, producer_id, epoch, 0, NOW_MS, version)


def abort_some(
    log: Log, count: int, producer_id: int = 1, first_sequence: int = 0
) -> list[AbortedTransaction]:
    """Transactions of one batch each, aborted one after the other."""
    wanted = []
    for number in range(first_sequence, first_sequence + count):
        base = begin(log, producer_id, number).base_offset
        assert not end(log, producer_id).error_code
        wanted.append(AbortedTransaction(producer_id, base, base + 1, base + 2))
    log.writer.flush_staged()
    return wanted


# -- beginning -------------------------------------------------------------------------------------


def test_only_a_guard_lets_a_batch_begin_a_transaction(log: Log) -> None:
    assert go_on(log, 1, 0).error_code == ErrorCode.INVALID_TXN_STATE
    assert not log.transactions.is_open(1, 0)
    assert not begin(log, 1).error_code
    assert log.transactions.is_open(1, 0)
    assert not log.transactions.is_open(1, 1)
    assert type(go_on(log, 1, 1)) is Appended


def test_a_marker_breaks_the_guard(log: Log) -> None:
    guard = log.transactions.begin_verification(1, 0)
    assert not end(log, 1).error_code
    refused = log.leader.append_verified(batch(1, 0), 0, NOW_MS, guard)
    assert refused.error_code == ErrorCode.INVALID_TXN_STATE
    assert not log.producers.ongoing


def test_another_producers_guard_is_no_guard(log: Log) -> None:
    guard = log.transactions.begin_verification(2, 0)
    assert log.leader.append_verified(batch(1, 0), 0, NOW_MS, guard).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_guard_serves_all_batches_that_waited_with_the_first(log: Log) -> None:
    guards = [log.transactions.begin_verification(1, 0, sequence) for sequence in (0, 1)]
    for sequence, guard in enumerate(guards):
        assert not log.leader.append_verified(batch(1, sequence), 0, NOW_MS, guard).error_code


def test_nothing_gets_ahead_of_a_batch_that_must_be_tried_again(log: Log) -> None:
    log.transactions.begin_verification(1, 0, 0)  # its coordinator is not there now
    later = log.transactions.begin_verification(1, 0, 5)
    refused = log.leader.append_verified(batch(1, 5), 0, NOW_MS, later)
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not begin(log, 1, 0).error_code


def test_with_version_two_an_unknown_producer_begins_at_zero(log: Log) -> None:
    guard = log.transactions.begin_verification(1, 0, 3, bumps_epoch=True)
    refused = log.leader.append_verified(batch(1, 3), 0, NOW_MS, guard)
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not begin(log, 2, 3).error_code


def test_a_lie_about_the_epoch_does_not_lock_the_producer_out(log: Log) -> None:
    guard = log.transactions.begin_verification(1, 0, 0)
    log.transactions.begin_verification(1, 9, 7)
    assert not log.leader.append_verified(batch(1, 0), 0, NOW_MS, guard).error_code


def test_guards_are_limited_and_swept(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "GUARDS_MAX", 2)
    first, *_ = (log.transactions.begin_verification(producer_id, 0) for producer_id in (1, 2, 3))
    assert log.leader.append_verified(batch(1, 0), 0, NOW_MS, first).error_code == ErrorCode.INVALID_TXN_STATE
    assert len(log.producers.verifications) == 2
    log.expire_producers(NOW_MS, 1000)
    assert len(log.producers.verifications) == 2
    log.expire_producers(NOW_MS, 1000)
    assert len(log.producers.verifications) == 0


def test_an_old_epoch_is_told_so_before_anything_else(log: Log) -> None:
    begin(log, 1, epoch=1)
    assert go_on(log, 1, 1, epoch=0).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(log, 1, epoch=0).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


# -- ending ----------------------------------------------------------------------------------------


def test_a_repeated_batch_of_an_ended_transaction_is_answered_as_the_first_time(log: Log) -> None:
    base = begin(log, 1).base_offset
    end(log, 1, COMMIT)
    again = go_on(log, 1, 0)
    assert (type(again), again.base_offset) == (Repeated, base)
    assert not log.producers.ongoing


def test_with_version_two_the_marker_opens_the_next_epoch(log: Log) -> None:
    begin(log, 1)
    assert not end(log, 1, COMMIT, epoch=1, version=2).error_code
    assert go_on(log, 1, 0).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert begin(log, 1, 1, epoch=1).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    end(log, 1, epoch=1, version=2)
    assert not begin(log, 1, 0, epoch=1).error_code


@pytest.mark.parametrize(
    ("version", "marker_epoch", "is_open", "accepted"),
    [
        (0, 4, True, False),
        (0, 5, True, True),
        (1, 5, True, True),
        (1, 5, False, True),
        (2, 4, True, False),
        (2, 5, True, False),
        (2, 6, True, True),
        (2, 5, False, True),  # the repetition of a marker whose answer was lost
        (2, 4, False, False),
    ],
)
def test_which_marker_a_producer_of_epoch_five_takes(
    log: Log, version: int, marker_epoch: int, is_open: bool, accepted: bool
) -> None:
    begin(log, 1, epoch=5)
    if not is_open:
        end(log, 1, epoch=5)
    before = dict(log.producers.states)
    result = end(log, 1, epoch=marker_epoch, version=version)
    assert result.error_code == (0 if accepted else ErrorCode.INVALID_PRODUCER_EPOCH)
    assert (log.producers.states == before) is (not accepted) or not is_open


def test_a_deposed_coordinator_is_refused(log: Log) -> None:
    begin(log, 1)
    end(log, 1, coordinator_epoch=7)
    begin(log, 1, 1)
    assert end(log, 1, coordinator_epoch=6).error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.transactions.is_open(1, 0)
    assert not end(log, 1, coordinator_epoch=7).error_code


def test_a_marker_where_nothing_is_open_aborts_nothing(log: Log) -> None:
    assert not end(log, 1, coordinator_epoch=4).error_code
    log.writer.flush_staged()
    assert log.producers.states[1].coordinator_epoch == 4
    assert log.transactions.aborted_in(0, 10) == []
    assert log.size_bytes == MARKER_BYTES


# -- the last stable offset ------------------------------------------------------------------------


def test_the_oldest_undecided_transaction_holds_readers_back(log: Log) -> None:
    for producer_id in (1, 2, 3):
        begin(log, producer_id)
    end(log, 2, COMMIT)  # offset 3
    end(log, 1, COMMIT)  # offset 4
    log.writer.flush_staged()
    assert [log.transactions.last_stable_offset(high) for high in (3, 4, 5)] == [0, 0, 2]
    end(log, 3, COMMIT)
    log.writer.flush_staged()
    assert log.transactions.last_stable_offset(6) == 6
    assert not log.producers.transactions.unreplicated


def test_a_transaction_whose_beginning_was_deleted_holds_back_at_the_log_start(log: Log) -> None:
    begin(log, 1)
    go_on(log, 1, 1)
    go_on(log, 1, 2)
    log.writer.flush_staged()
    log.increment_log_start_offset(2)
    assert log.transactions.last_stable_offset(3) == 2


def test_a_log_that_nobody_reads_forgets_what_is_decided(log: Log) -> None:
    transactions = log.producers.transactions
    for number in range(5):
        abort_some(log, 200, first_sequence=200 * number)
        log.transactions.settle(log.written_end_offset)
        assert len(transactions.unreplicated) <= 256
    high_watermark = log.written_end_offset
    abort_some(log, 400, producer_id=2)
    log.transactions.settle(high_watermark)
    assert log.transactions.last_stable_offset(high_watermark + 1) == high_watermark


def test_an_open_transaction_keeps_its_producer(log: Log) -> None:
    begin(log, 1)
    begin(log, 2)
    end(log, 2)
    log.writer.flush_staged()
    log.expire_producers(NOW_MS + 10_000, 1)
    assert set(log.producers.states) == {1}


# -- aborted transactions --------------------------------------------------------------------------


def test_aborted_transactions_are_found_by_range(log: Log) -> None:
    begin(log, 1)  # 0
    begin(log, 2)  # 1
    end(log, 2)  # 2
    begin(log, 3)  # 3
    end(log, 3, COMMIT)  # 4
    end(log, 1)  # 5
    begin(log, 2, 1)  # 6
    end(log, 2)  # 7
    log.writer.flush_staged()
    wanted = [AbortedTransaction(2, 1, 2, 0), AbortedTransaction(1, 0, 5, 6), AbortedTransaction(2, 6, 7, 8)]
    assert log.transactions.aborted_in(0, 8) == wanted
    assert log.transactions.aborted_in(3, 6) == wanted[1:2]
    assert log.transactions.aborted_in(6, 7) == wanted[2:]
    assert log.transactions.aborted_for_fetch(0, 6) == [(2, 1), (1, 0)]


def test_a_transaction_that_spans_segments_is_found_from_all_of_them(log: Log, tmp_path: Path) -> None:
    begin(log, 1)
    log.writer.roll(NOW_MS)
    go_on(log, 1, 1)
    log.writer.roll(NOW_MS)
    end(log, 1)
    log.writer.flush_staged()
    log.writer.roll(NOW_MS)
    for offset in (0, 1):
        assert log.transactions.aborted_for_fetch(offset, offset + 1) == [(1, 0)]
    assert [path.name for path in tmp_path.glob("*.txnindex")] == ["00000000000000000002.txnindex"]


@pytest.mark.parametrize("clean", [True, False])
def test_thousands_of_aborts_survive(log: Log, tmp_path: Path, clean: bool) -> None:
    begin(log, 9)
    wanted = abort_some(log, 1500)
    wanted = [each._replace(last_stable_offset=0) for each in wanted]
    log.writer.roll(NOW_MS)
    end(log, 9)
    wanted.append(AbortedTransaction(9, 0, 3001, 3002))
    wanted += abort_some(log, 1100, first_sequence=1500)
    log.close(clean=clean)
    again = open_in(tmp_path, clean=clean, recovery_point=log.flusher.recovery_point if clean else 0)
    for each in (log, again):
        assert each.transactions.aborted_in(0, 10**6) == wanted
        assert each.transactions.aborted_in(2000, 2010) == [
            entry for entry in wanted if entry.last_offset >= 2000 and entry.first_offset < 2010
        ]
    assert again.producers.ongoing == log.producers.ongoing == {}


def test_a_failed_write_takes_the_abort_back(log: Log) -> None:
    begin(log, 1)
    log.writer.flush_staged()
    end(log, 1)
    log.writer.roll_back()
    assert log.transactions.aborted_in(0, 10) == []
    assert log.transactions.is_open(1, 0)
    assert log.transactions.last_stable_offset(1) == 0
    end(log, 1)
    log.writer.flush_staged()
    assert log.transactions.aborted_in(0, 10) == [AbortedTransaction(1, 0, 1, 2)]


@pytest.mark.parametrize("damage", ["cut", "zeros", "version", "order"])
def test_a_damaged_index_is_built_anew(
    log: Log, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    begin(log, 9)
    log.writer.roll(NOW_MS)
    wanted = abort_some(log, 5)
    wanted = [each._replace(last_stable_offset=0) for each in wanted]
    log.writer.roll(NOW_MS)
    go_on(log, 9, 1)
    log.close()
    (path,) = tmp_path.glob("*.txnindex")
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[:-1],
            "zeros": bytes(len(data)),
            "version": data[:34] + b"\0\1" + data[36:],
            "order": data[34:] + data[:34],
        }[damage]
    )
    again = open_in(tmp_path, clean=True, recovery_point=log.flusher.recovery_point)
    assert again.transactions.aborted_in(0, 100) == wanted
    assert path.read_bytes() == data
    assert "rebuilt" in caplog.text
    assert list(again.producers.ongoing) == [0]


def test_truncation_takes_back_aborts_and_reopens_transactions(log: Log, tmp_path: Path) -> None:
    wanted = abort_some(log, 3)
    log.writer.roll(NOW_MS)
    wanted += abort_some(log, 3, first_sequence=3)
    log.truncate_to(9)  # the last but one marker
    assert log.transactions.aborted_in(0, 100) == wanted[:4]
    assert log.producers.ongoing == {8: 1}
    assert log.transactions.last_stable_offset(9) == 8
    log.close()
    assert open_in(tmp_path, clean=True, recovery_point=9).transactions.aborted_in(0, 100) == wanted[:4]


def test_an_index_goes_with_its_segment(log: Log, tmp_path: Path) -> None:
    abort_some(log, 2)
    log.writer.roll(NOW_MS)
    wanted = abort_some(log, 2, first_sequence=2)
    log.increment_log_start_offset(4)
    removed = log.apply_retention(NOW_MS, log.written_end_offset)
    assert f"{tmp_path}/00000000000000000000.txnindex.deleted" in removed
    assert log.transactions.aborted_in(0, 100) == wanted


def test_recovery_begins_no_later_than_an_index_that_is_not_on_the_disk(log: Log) -> None:
    abort_some(log, 1)
    job = log.flusher.job()
    assert job is not None
    log.writer.roll(NOW_MS)
    job.run()
    log.flusher.job_done(job)
    assert (log.flushed_end_offset, log.flusher.recovery_point) == (2, 0)
    job = log.flusher.job()
    assert job is not None
    job.run()
    log.flusher.job_done(job)
    assert log.flusher.recovery_point == 2


# -- coordinators' batches, restarts ----------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_open_transactions_of_clients_and_coordinators_survive(log: Log, tmp_path: Path, clean: bool) -> None:
    begin(log, 1)
    result = log.leader.append(batch(2, -1, count=3), 0, NOW_MS, Origin.COORDINATOR)
    assert not result.error_code
    assert not log.leader.append(batch(2, -1, count=2), 0, NOW_MS, Origin.COORDINATOR).error_code
    log.writer.roll(NOW_MS)
    end(log, 3, coordinator_epoch=8)
    log.writer.flush_staged()
    log.close(clean=clean)
    again = open_in(tmp_path, clean=clean, recovery_point=log.flusher.recovery_point if clean else 0)
    assert again.producers.ongoing == {0: 1, 1: 2}
    assert again.producers.states[2].last_sequence == -1
    assert again.producers.states[2].batches[-1].base_sequence == -1
    assert again.producers.states[3].coordinator_epoch == 8
    states = again.producers.states
    decoded = decode_snapshot(encode_snapshot(states))
    assert {each: state[:6] for each, state in decoded.items()} == {
        each: state[:6] for each, state in states.items()
    }
    assert type(go_on(again, 1, 0)) is Repeated
    assert type(go_on(again, 1, 1)) is Appended
    assert not end(again, 2).error_code
    again.writer.flush_staged()
    assert again.transactions.aborted_in(0, 100) == [AbortedTransaction(2, 1, 8, 0)]


def test_a_batch_outside_of_the_open_transaction_is_refused(log: Log) -> None:
    begin(log, 1)
    refused = log.leader.append(batch(1, 1, transactional=False), 0, NOW_MS)
    assert refused.error_code == ErrorCode.INVALID_TXN_STATE
    end(log, 1)
    assert not log.leader.append(batch(1, 1, transactional=False), 0, NOW_MS).error_code
