"""Cutting a log's end, as a replica does whose leader has something else there: what is left is a log as if
what was cut had never been, now and after a restart, a crash or a power cut.
"""

import errno

import pytest

from moldau.broker.log.log import Log, OffsetOutOfRange
from moldau.broker.log.recovery.recovery import open_log
from moldau.broker.log.state.transaction_index import AbortedTransaction
from moldau.broker.log.upkeep.truncation import CutJob
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import Crash, SimulatedFiles

NOW_MS = 1_700_000_000_000
SETTINGS = TopicSettings(index_interval_bytes=1)


class Replica:
    def __init__(self) -> None:
        self.files = SimulatedFiles(3)
        self.log = self.open()

    def open(self, *, clean: bool = False, recovery_point: int = 0, log_start_offset: int = 0) -> Log:
        return open_log(
            self.files,
            "/d/t-0",
            "t",
            0,
            SETTINGS,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_ms=NOW_MS,
        ).log

    def append(self, count: int = 1, *, epoch: int = 0, timestamp_ms: int = NOW_MS, **more: object) -> None:
        records = [Record(i, timestamp_ms + i, b"k", b"v" * 20) for i in range(count)]
        data = memoryview(bytes(build_batch(records, **more)))  # type: ignore[arg-type]
        result = self.log.leader.append(data, epoch, NOW_MS + 10_000)
        assert not result.error_code, result

    def produce(self, producer_id: int, sequence: int) -> None:
        self.append(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)

    def transact(self, producer_id: int, sequence: int) -> None:
        data = build_batch(
            [Record(0, NOW_MS, b"k", b"v")],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        guard = self.log.transactions.begin_verification(producer_id, 0, sequence)
        result = self.log.leader.append_verified(memoryview(bytes(data)), 0, NOW_MS, guard)
        assert not result.error_code, result

    def end(self, producer_id: int, kind: ControlType) -> None:
        self.log.leader.append_marker(EndTransactionMarker(kind, 0), producer_id, 0, 0, NOW_MS)

    def roll(self) -> None:
        self.log.writer.roll(NOW_MS)

    def offsets(self) -> list[int]:
        """The base offsets of all batches that can be read."""
        log, found = self.log, []
        offset = log.segments[0].base_offset
        while offset < log.written_end_offset:
            data = log.reader.read(
                max(offset, log.log_start_offset), 1 << 20, end_offset=log.written_end_offset
            )
            found += [view.base_offset for view in iter_batches(data)]
            if not data:
                break
            offset = log.reader.read_end
        return found

    def reopened(self, *, power_cut: bool = False) -> Log:
        """The log after kill -9 (or worse)."""
        if power_cut:
            self.files.power_cut()
        else:
            self.files.process_kill()
        return self.open(recovery_point=self.log.flusher.recovery_point)


@pytest.fixture
def replica() -> Replica:
    return Replica()


# -- where the cut is ------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", range(13))
def test_a_batch_goes_whole(replica: Replica, offset: int) -> None:
    for number in range(4):
        replica.append(3)
        if number == 1:
            replica.roll()
    replica.log.writer.flush_staged()
    replica.log.truncate_to(offset)
    end = offset // 3 * 3
    assert replica.log.log_end_offset == replica.log.written_end_offset == end
    assert replica.offsets() == list(range(0, end, 3))
    assert replica.log.flusher.recovery_point <= end
    with pytest.raises(OffsetOutOfRange):
        replica.log.reader.read(end + 1, 1, end_offset=99)
    replica.append(2)
    replica.log.writer.flush_staged()
    assert replica.offsets() == [*range(0, end, 3), end]
    assert replica.log.offset_for_timestamp(NOW_MS, 99) is not None
    replica.log = replica.reopened()
    assert replica.offsets() == [*range(0, end, 3), end]


@pytest.mark.parametrize("offset", [4, 5, 7, 8, 9])
def test_a_cut_within_a_gap(replica: Replica, offset: int) -> None:
    """Compaction leaves gaps, and a follower has its leader's."""
    for base in (0, 5, 9):
        data = build_batch([Record(base, NOW_MS, b"k", b"v")], base_offset=base, leader_epoch=0)
        replica.log.append_as_follower(memoryview(data), 0, NOW_MS)
    replica.log.truncate_to(offset)
    assert replica.log.log_end_offset == offset
    assert replica.offsets() == [base for base in (0, 5, 9) if base < offset]


def test_what_is_staged_is_cut_too(replica: Replica) -> None:
    replica.append(2)
    replica.log.writer.flush_staged()
    replica.append(2)
    replica.append(2, epoch=1)
    replica.log.truncate_to(3)
    assert (replica.log.log_end_offset, replica.log.written_end_offset) == (2, 2)
    assert replica.log.epochs.entries() == [(0, 0)]
    assert replica.offsets() == [0]


def test_what_is_staged_before_the_cut_stays(replica: Replica) -> None:
    replica.append(2)
    replica.append(2)
    replica.log.truncate_to(2)
    assert replica.offsets() == [0]
    assert replica.log.written_end_offset == 2


def test_at_the_end_or_behind_it_nothing_goes(replica: Replica) -> None:
    replica.append(2)
    for offset in (2, 3, 99):
        replica.log.truncate_to(offset)
        assert replica.log.log_end_offset == replica.log.written_end_offset == 2
    assert replica.log.flusher.generation == 0


def test_below_the_log_start_the_start_falls(replica: Replica) -> None:
    for _ in range(4):
        replica.append(3)
    replica.log.writer.flush_staged()
    replica.log.increment_log_start_offset(8)
    replica.log.truncate_to(5)
    log = replica.log
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    assert bytes(log.reader.read(3, 100, end_offset=99)) == b""
    assert [segment.base_offset for segment in log.segments] == [0]
    replica.append(1)
    log.writer.flush_staged()
    assert log.reader.read(3, 100, end_offset=99)


def test_below_the_first_segment_the_log_begins_anew_there(replica: Replica) -> None:
    for _ in range(3):
        replica.append(3)
        replica.roll()
    replica.log.increment_log_start_offset(6)
    replica.log.apply_retention(NOW_MS, 9)
    replica.log.truncate_to(4)
    log = replica.log
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries()) == (4, 4, [])
    assert [segment.base_offset for segment in log.segments] == [4]
    replica.append(2, epoch=3)
    log.writer.flush_staged()
    assert replica.offsets() == [4]
    assert log.epochs.entries() == [(3, 4)]


# -- leader epochs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [4, 5])
def test_an_epoch_without_records_goes(replica: Replica, offset: int) -> None:
    """This replica led in epoch 2, wrote nothing, and follows now: its leader never knew that epoch, and
    would send it to truncate for ever.
    """
    replica.append(4, epoch=1)
    replica.log.writer.flush_staged()
    replica.log.writer.assign_epoch(2, 4)
    replica.log.truncate_to(offset)
    assert replica.log.log_end_offset == 4
    kept = [(1, 0)] if offset == 4 else [(1, 0), (2, 4)]
    assert replica.log.epochs.entries() == kept
    assert replica.log.latest_leader_epoch == kept[-1][0]
    replica.log = replica.reopened()
    assert replica.log.epochs.entries() == [(1, 0)]  # nothing in the log is of epoch 2
    # A batch of another epoch is taken there.
    data = build_batch([Record(4, NOW_MS, None, b"v")], base_offset=4, leader_epoch=3)
    assert not replica.log.append_as_follower(memoryview(data), 3, NOW_MS).error_code


@pytest.mark.parametrize(
    ("offset", "entries"),
    [(9, [(1, 0), (3, 3), (4, 6)]), (7, [(1, 0), (3, 3)]), (6, [(1, 0), (3, 3)]), (5, [(1, 0)]), (0, [])],
)
def test_epochs_end_where_the_log_does(replica: Replica, offset: int, entries: list[tuple[int, int]]) -> None:
    for epoch in (1, 3, 4):
        replica.append(3, epoch=epoch)
    replica.log.writer.flush_staged()
    replica.log.truncate_to(offset)
    assert replica.log.epochs.entries() == entries
    assert replica.reopened().epochs.entries() == entries


def test_where_an_epoch_ended(replica: Replica) -> None:
    ends = replica.log.epoch_end_offset
    assert [ends(epoch) for epoch in (-1, 0, 5)] == [(-1, -1)] * 3
    for epoch in (1, 3, 4):
        replica.append(3, epoch=epoch)
    assert [ends(epoch) for epoch in range(6)] == [(0, 0), (1, 3), (1, 3), (3, 6), (4, 9), (-1, -1)]
    replica.log.truncate_to(8)
    assert [ends(epoch) for epoch in (3, 4)] == [(3, 6), (-1, -1)]
    replica.log.writer.assign_epoch(6, 6)
    assert [ends(epoch) for epoch in (3, 5, 6, 7)] == [(3, 6), (3, 6), (6, 6), (-1, -1)]


# -- producers and transactions --------------------------------------------------------------------


@pytest.mark.parametrize("snapshot", [False, True])
def test_producers_are_as_they_were_there(replica: Replica, snapshot: bool) -> None:
    replica.produce(1, 0)
    if snapshot:
        replica.roll()
    replica.produce(1, 1)
    replica.produce(2, 0)
    if snapshot:
        replica.roll()
    replica.produce(1, 2)
    replica.log.writer.flush_staged()
    replica.log.truncate_to(2)
    assert {each: state.last_sequence for each, state in replica.log.producers.states.items()} == {1: 1}
    replica.produce(1, 2)
    replica.log.writer.flush_staged()
    again = replica.reopened().producers.states
    assert {each: state.last_sequence for each, state in again.items()} == {1: 2}


def test_open_and_ended_transactions(replica: Replica) -> None:
    replica.transact(1, 0)  # 0
    replica.transact(2, 0)  # 1
    replica.end(1, ControlType.ABORT)  # 2
    replica.roll()
    replica.end(2, ControlType.ABORT)  # 3
    replica.transact(1, 1)  # 4
    guard = replica.log.transactions.begin_verification(3, 0)
    replica.log.writer.flush_staged()
    log = replica.log
    first, second = AbortedTransaction(1, 0, 2, 1), AbortedTransaction(2, 1, 3, 4)
    assert (log.transactions.aborted_in(0, 9), dict(log.producers.ongoing)) == ([first, second], {4: 1})
    log.truncate_to(4)
    assert (log.transactions.aborted_in(0, 9), dict(log.producers.ongoing)) == ([first, second], {})
    assert not log.transactions.verification_holds(guard)
    log.truncate_to(3)
    assert (log.transactions.aborted_in(0, 9), dict(log.producers.ongoing)) == ([first], {1: 2})
    assert log.transactions.last_stable_offset(3) == 1
    log.truncate_to(2)
    assert (log.transactions.aborted_in(0, 9), dict(log.producers.ongoing)) == ([], {0: 1, 1: 2})
    assert log.transactions.last_stable_offset(2) == 0
    again = replica.reopened()
    assert (again.transactions.aborted_in(0, 9), dict(again.producers.ongoing)) == ([], {0: 1, 1: 2})


def test_a_full_truncation_forgets_producers_for_good(replica: Replica) -> None:
    replica.transact(1, 0)
    replica.produce(2, 0)
    replica.roll()
    replica.produce(2, 1)
    replica.roll()
    assert replica.log.producers.states
    replica.log.truncate_fully_and_start_at(2)
    log = replica.log
    assert (log.log_start_offset, log.log_end_offset, log.producers.states) == (2, 2, {})
    assert log.transactions.last_stable_offset(2) == 2
    assert not [name for name in replica.files.list_directory("/d/t-0") if name.endswith(".snapshot")]
    replica.append(1)
    log.writer.flush_staged()
    assert replica.reopened().producers.states == {}
    log = replica.log = replica.open(recovery_point=2)
    log.close()
    assert replica.open(clean=True, recovery_point=3).producers.states == {}


# -- crashes ---------------------------------------------------------------------------------------


def filled() -> Replica:
    replica = Replica()
    for number in range(12):
        replica.produce(number % 3, number // 3)
        if number % 4 == 3:
            replica.roll()
    job = replica.log.flusher.job()
    assert job is not None
    job.run()
    replica.log.flusher.job_done(job)
    return replica


def test_a_power_cut_does_not_bring_back_what_was_cut() -> None:
    for offset in (1, 4, 6, 11):
        replica = filled()
        replica.log.truncate_to(offset)
        replica.log = replica.reopened(power_cut=True)
        assert replica.offsets() == list(range(offset))


@pytest.mark.parametrize("power_cut", [False, True])
@pytest.mark.parametrize("fully", [False, True])
def test_a_crash_at_any_step_leaves_a_log(fully: bool, power_cut: bool) -> None:
    """A part of what was there, in order, which the replica then compares with its leader's again."""
    step = 0
    while True:
        replica = filled()
        recovery_point = replica.log.flusher.recovery_point
        left = [step]

        def fault(operation: str, path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Crash

        replica.files.fault = fault
        try:
            if fully:
                replica.log.truncate_fully_and_start_at(20)
            else:
                replica.log.truncate_to(5)
        except Crash:
            crashed = True
        else:
            crashed = False
        replica.files.fault = lambda operation, path: None
        if power_cut:
            replica.files.power_cut()
        else:
            replica.files.process_kill()
        replica.log = replica.open(recovery_point=recovery_point)
        offsets = replica.offsets()
        if fully:
            assert offsets == list(range(12))[12 - len(offsets) :]
        else:
            assert offsets == list(range(len(offsets)))
            assert len(offsets) >= 5
        replica.append(1)
        replica.log.writer.flush_staged()
        if not crashed:
            assert step > 5
            assert replica.log.log_end_offset == (21 if fully else 6)
            return
        step += 1


@pytest.mark.parametrize("operation", ["truncate", "sync", "remove"])
def test_a_disk_that_refuses_is_reported(operation: str) -> None:
    replica = filled()
    replica.append(3)
    errors: list[OSError] = []
    replica.log.on_error = lambda log, error: errors.append(error)

    def fault(found: str, path: str) -> None:
        if found == operation:
            raise OSError(errno.EIO, "the disk says no")

    replica.files.fault = fault
    with pytest.raises(OSError, match="says no"):
        replica.log.truncate_to(6)
    assert errors


def test_a_segment_whose_batches_cannot_be_found_goes_whole(
    replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk has changed a header; the leader has what is cut too much."""
    for number in range(8):
        replica.produce(1, number)
        if number == 3:
            replica.roll()
    replica.log.writer.flush_staged()
    segment = replica.log.segments[-1]
    segment.offset_index.keep(0)
    segment.write([b"\0" * 61], 61, segment.size_bytes // 4)  # the header of the batch at offset 5
    replica.log.truncate_to(7)
    assert replica.log.log_end_offset == 4
    assert replica.offsets() == [0, 1, 2, 3]
    assert replica.log.producers.states[1].last_sequence == 3
    assert "cut off" in caplog.text
    replica.produce(1, 4)
    replica.log.writer.flush_staged()
    assert replica.reopened().log_end_offset == 5


def test_a_truncation_that_cannot_write_what_is_staged_cuts_nothing(replica: Replica) -> None:
    replica.append(2)
    replica.log.writer.flush_staged()
    replica.append(2)

    def fault(found: str, path: str) -> None:
        if found == "write":
            raise OSError(errno.ENOSPC, "no room")

    replica.files.fault = fault
    with pytest.raises(OSError, match="no room"):
        replica.log.truncate_to(1)
    assert replica.log.log_end_offset == replica.log.written_end_offset == 2
    replica.files.fault = lambda operation, path: None
    replica.log.truncate_to(1)
    assert replica.log.log_end_offset == 0


@pytest.mark.parametrize("offset", [2, 9])
def test_with_no_descriptor_left_the_producers_are_read_by_a_second_attempt(offset: int) -> None:
    replica = Replica()
    for number in range(16):
        replica.produce(1, number)
        if number == 7:
            replica.roll()
    replica.log.writer.flush_staged()
    replica.log = replica.reopened()
    replica.files.remove("/d/t-0/00000000000000000008.snapshot")
    while True:
        job = replica.log.begin_truncation(offset)
        assert job is not None
        replica.files.fault = no_reads
        with pytest.raises(OSError, match="too many"):
            job.run()
        assert replica.log.is_cutting
        replica.files.fault = lambda operation, path: None
        job.run()
        replica.log.cut_done(job)
        if not job.unfinished:
            break
    assert replica.log.log_end_offset == offset
    assert replica.log.producers.states[1].last_sequence == offset - 1


def no_reads(operation: str, path: str) -> None:
    if operation == "read" and path.endswith("/00000000000000000000.log"):
        raise OSError(errno.EMFILE, "too many open files")


def cut_amid_transactions(replica: Replica) -> CutJob:
    """Two hundred transactions, of which the last marker is cut off; a job that has not run."""
    for number in range(200):
        replica.transact(1, number)
        replica.end(1, ControlType.COMMIT)
    replica.log.writer.flush_staged()
    reads = 0

    def count(operation: str, path: str) -> None:
        nonlocal reads
        reads += operation == "read"

    replica.files.fault = count
    job = replica.log.begin_truncation(399)
    replica.files.fault = lambda operation, path: None
    assert reads < 20, "each marker is read on the event loop"
    assert job is not None
    return job


def test_until_the_producers_are_known_nothing_counts_as_decided(replica: Replica) -> None:
    # The marker that was cut off had ended the last transaction: it is open again, and a consumer with
    # read_committed must not see its records meanwhile.
    job = cut_amid_transactions(replica)
    assert replica.log.transactions.last_stable_offset(399) == 0
    job.run()
    assert replica.log.transactions.last_stable_offset(399) == 0
    replica.log.cut_done(job)
    assert replica.log.transactions.last_stable_offset(399) == 398


def test_after_a_cut_amid_transactions_nothing_is_appended_before_its_producers_are_known(
    replica: Replica,
) -> None:
    job = cut_amid_transactions(replica)
    data = memoryview(bytes(build_batch([Record(0, NOW_MS, b"k", b"v")])))
    assert replica.log.leader.append(data, 0, NOW_MS).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    replica.log.writer.hold()  # another one holds it as well
    job.run()
    replica.log.cut_done(job)
    assert replica.log.leader.append(data, 0, NOW_MS).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    replica.log.writer.release()
    assert dict(replica.log.producers.ongoing) == {398: 1}, "its marker has not been"
    assert replica.log.producers.states[1].last_sequence == 199
    assert replica.log.leader.append(data, 0, NOW_MS).error_code == 0


def test_a_stop_before_the_producers_are_known_leaves_no_snapshot_of_what_was_cut(replica: Replica) -> None:
    job = cut_amid_transactions(replica)
    replica.log.close()
    job.close()
    log = replica.open(clean=True, recovery_point=399)
    assert dict(log.producers.ongoing) == {398: 1}


def test_damage_before_the_cut_does_not_hinder_it(replica: Replica, caplog: pytest.LogCaptureFixture) -> None:
    """A header in an older segment cannot be read: the producers are known as far as they can be."""
    for number in range(16):
        replica.produce(1, number)
        if number == 7:
            replica.roll()
    replica.log.writer.flush_staged()
    replica.files.remove("/d/t-0/00000000000000000008.snapshot")
    segment = replica.log.segments[0]
    segment.write([b"\0" * 61], 61, segment.size_bytes // 8)  # the header of the batch at offset 1
    replica.log.truncate_to(9)
    assert replica.log.log_end_offset == 9
    assert "not all are known" in caplog.text


@pytest.mark.parametrize("offset", [12, 15])
def test_of_a_short_cut_the_producers_are_known_without_reading_the_log(
    replica: Replica, offset: int
) -> None:
    for number in range(16):
        replica.produce(1 + number // 8, number % 8)
    replica.log.writer.flush_staged()
    exact = Replica()
    for number in range(offset):
        exact.produce(1 + number // 8, number % 8)
    exact.log.writer.flush_staged()
    replica.log.truncate_to(offset)
    found, expected = replica.log.producers.states, exact.log.producers.states
    assert {each: state[:6] for each, state in found.items()} == {
        each: state[:6] for each, state in expected.items()
    }
    kept = found[2].batches
    assert kept == expected[2].batches[-len(kept) :]
    assert len(kept) == 5 - (16 - offset)
    replica.produce(2, offset - 8)
    replica.log.writer.flush_staged()
    assert replica.log.log_end_offset == offset + 1


def test_retention_waits_until_the_producers_are_known(replica: Replica) -> None:
    """It would roll, and leave a snapshot with what was cut off: after a crash a batch that is sent again
    would be taken for one that is there.
    """
    job = cut_amid_transactions(replica)
    later_ms = NOW_MS + 30 * 86_400_000
    assert replica.log.apply_retention(later_ms, replica.log.log_end_offset) == []
    job.run()
    replica.log.cut_done(job)
    log = replica.reopened()
    assert dict(log.producers.ongoing) == {398: 1}
    assert log.producers.states[1].last_sequence == 199
    assert log.apply_retention(later_ms, log.log_end_offset)
