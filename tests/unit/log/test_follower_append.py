"""Batches from a leader: whole, in order and undamaged they become the follower's log as they are; anything
else changes nothing, and the result says exactly what was taken.
"""

import errno
import struct

import pytest

from moldau.broker.log.appending.follower_append import BATCHES_MAX, FollowerAppended
from moldau.broker.log.log import Log
from moldau.broker.log.recovery.recovery import open_log
from moldau.broker.log.state.transaction_index import AbortedTransaction
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import BatchView, iter_batches, seal
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import Crash, SimulatedFiles

NOW_MS = 1_700_000_000_000
EPOCH = 7
SETTINGS = TopicSettings(index_interval_bytes=100)


class Follower:
    def __init__(self, settings: TopicSettings = SETTINGS) -> None:
        self.files = SimulatedFiles()
        self.settings = settings
        self.log = self.open()

    def open(self, *, clean: bool = False, recovery_point: int = 0) -> Log:
        return open_log(
            self.files,
            "/d/t-0",
            "t",
            0,
            self.settings,
            clean=clean,
            recovery_point=recovery_point,
            now_ms=NOW_MS,
        ).log

    def take(
        self, *batches: bytes, leader_epoch: int = EPOCH, log_start_offset: int = -1
    ) -> FollowerAppended:
        data = memoryview(b"".join(batches))
        return self.log.append_as_follower(data, leader_epoch, NOW_MS, log_start_offset)

    def stored(self) -> bytes:
        log = self.log
        start = log.segments[0].base_offset
        data = b""
        while start < log.written_end_offset:
            data += bytes(log.reader.read(start, 1 << 20, end_offset=log.written_end_offset))
            start = log.reader.read_end
        return data

    def fail_after(self, count: int, operation: str, path: str = ".log") -> None:
        left = [count]

        def fault(found: str, name: str) -> None:
            if found == operation and path in name:
                left[0] -= 1
                if left[0] < 0:
                    raise OSError(errno.EIO, "the disk says no")

        self.files.fault = fault

    def heal(self) -> None:
        self.files.fault = lambda operation, path: None


@pytest.fixture
def follower() -> Follower:
    return Follower()


def batch(base_offset: int, count: int = 1, *, epoch: int = 3, size: int = 30, **more: object) -> bytes:
    records = [Record(base_offset + i, NOW_MS + base_offset + i, b"k", b"v" * size) for i in range(count)]
    return bytes(
        build_batch(records, base_offset=base_offset, leader_epoch=epoch, **more)  # type: ignore[arg-type]
    )


def marker(base_offset: int, kind: ControlType, producer_id: int, *, epoch: int = 3) -> bytes:
    return bytes(
        build_end_transaction_marker(
            EndTransactionMarker(kind, 5),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=NOW_MS,
            base_offset=base_offset,
            leader_epoch=epoch,
        )
    )


def transactional(base_offset: int, producer_id: int, sequence: int, *, epoch: int = 3) -> bytes:
    return batch(
        base_offset,
        epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )


# -- taken -----------------------------------------------------------------------------------------


def test_batches_are_written_as_they_came(follower: Follower) -> None:
    sent = [batch(0, 5), batch(5), batch(6, 2, epoch=4)]
    result = follower.take(*sent)
    assert result == FollowerAppended(0, None, 8, len(b"".join(sent)), 4)
    assert follower.stored() == b"".join(sent)
    log = follower.log
    assert (log.written_end_offset, log.log_end_offset) == (8, 8)
    assert log.epochs.entries() == [(3, 0), (4, 6)]
    assert log.latest_leader_epoch == 4
    log.writer.flush_staged()
    assert follower.stored() == b"".join(sent)


def test_nothing_is_nothing(follower: Follower) -> None:
    assert follower.take(b"") == FollowerAppended(0, None, 0, 0, -1)
    follower.take(batch(0))
    assert follower.take(b"") == FollowerAppended(0, None, 1, 0, -1)


@pytest.mark.parametrize("kept", [1, 11, 12, 60, 61, 62, -1])
def test_an_unfinished_last_batch_is_cut_off(follower: Follower, kept: int) -> None:
    whole, cut = batch(0, 2), batch(2, 3)
    assert follower.take(whole, cut[:kept]) == FollowerAppended(0, None, 2, len(whole), 3)
    assert follower.stored() == whole
    assert follower.take(cut).end_offset == 5
    assert follower.stored() == whole + cut


def test_only_an_unfinished_batch_changes_nothing(follower: Follower) -> None:
    assert follower.take(batch(0, 9)[:-1]) == FollowerAppended(0, None, 0, 0, -1)
    assert follower.log.epochs.entries() == []


def test_gaps_that_compaction_left_are_kept(follower: Follower) -> None:
    sent = [batch(3), batch(10, 2), batch(500)]
    assert follower.take(*sent).end_offset == 501
    assert [view.base_offset for view in iter_batches(follower.stored())] == [3, 10, 500]
    assert follower.log.log_start_offset == 0
    follower.files.process_kill()
    follower.log = follower.open(recovery_point=501)
    assert follower.log.log_end_offset == 501


def test_a_gap_that_no_segment_can_hold_begins_another(follower: Follower) -> None:
    far = 1 << 40
    assert follower.take(batch(0), batch(far, 2)).end_offset == far + 2
    assert [segment.base_offset for segment in follower.log.segments] == [0, far]
    assert follower.stored() == batch(0) + batch(far, 2)
    again = Follower()
    assert again.take(batch(far)).end_offset == far + 1
    assert [segment.base_offset for segment in again.log.segments] == [far]
    assert again.stored() == batch(far)
    assert sorted(name for name in again.files.list_directory("/d/t-0") if ".log" in name) == [
        f"{far:020d}.log"
    ]


def test_batches_of_a_later_epoch_are_left_out(follower: Follower) -> None:
    """The sender lost its leadership, truncated, and appended what its new leader wrote, before it
    answered.
    """
    result = follower.take(batch(0, epoch=7), batch(1, epoch=8), batch(2, epoch=7))
    assert result == FollowerAppended(0, None, 1, len(batch(0)), 7)
    assert follower.log.epochs.entries() == [(7, 0)]


def test_segments_roll_within_an_answer() -> None:
    follower = Follower(TopicSettings(internal_segment_bytes=300, index_interval_bytes=1))
    sent = [batch(i) for i in range(40)]
    assert follower.take(*sent[:17]).end_offset == 17
    assert follower.take(*sent[17:]).end_offset == 40
    assert follower.stored() == b"".join(sent)
    assert len(follower.log.segments) == 14
    assert follower.log.segments[3].base_offset == 9
    for offset in range(40):
        data = follower.log.reader.read(offset, 1, end_offset=40)
        assert BatchView(data).base_offset == offset


def test_many_small_batches_are_taken_in_several_calls(follower: Follower) -> None:
    sent = b"".join(batch(i, size=0) for i in range(2 * BATCHES_MAX + 5))
    rest = sent
    for end_offset in (BATCHES_MAX, 2 * BATCHES_MAX, 2 * BATCHES_MAX + 5):
        result = follower.take(rest)
        assert (result.error_code, result.end_offset) == (0, end_offset)
        rest = rest[result.size_bytes :]
    assert rest == b""
    assert follower.stored() == sent


def test_the_leaders_log_start_is_followed(follower: Follower) -> None:
    assert follower.take(batch(0, 5), batch(5, epoch=4), log_start_offset=5).error_code == 0
    assert follower.log.log_start_offset == 5
    assert follower.log.epochs.entries() == [(4, 5)]
    follower.take(b"", log_start_offset=3)
    assert follower.log.log_start_offset == 5
    follower.take(b"", log_start_offset=100)
    assert follower.log.log_start_offset == 6


# -- producers and transactions --------------------------------------------------------------------


def test_producers_and_transactions_follow(follower: Follower) -> None:
    log = follower.log
    follower.take(
        batch(0, 2, producer_id=9, producer_epoch=1, base_sequence=4),
        transactional(2, 1, 0),
        transactional(3, 2, 0),
    )
    assert log.producers.states[9].last_sequence == 5
    assert dict(log.producers.ongoing) == {2: 1, 3: 2}
    assert log.transactions.last_stable_offset(4) == 2
    follower.take(marker(4, ControlType.ABORT, 1), transactional(5, 2, 1))
    assert log.transactions.aborted_in(0, 10) == [AbortedTransaction(1, 2, 4, 3)]
    assert dict(log.producers.ongoing) == {3: 2}
    assert log.producers.states[1].coordinator_epoch == 5
    follower.take(marker(6, ControlType.COMMIT, 2))
    assert log.transactions.last_stable_offset(7) == 7
    # The next leader knows the producer: it recognises a repetition.
    again = batch(0, 2, producer_id=9, producer_epoch=1, base_sequence=4, epoch=-1)
    result = log.leader.append(memoryview(again), 8, NOW_MS)
    assert (result.duplicate, result.base_offset) == (True, 0)


def test_producers_are_not_judged(follower: Follower) -> None:
    """The leader took these batches: an expired state may have let a sequence begin anywhere."""
    first = batch(0, producer_id=9, producer_epoch=3, base_sequence=0)
    late = batch(1, producer_id=9, producer_epoch=2, base_sequence=77)
    assert follower.take(first, late).end_offset == 2


def test_a_marker_that_cannot_be_read_refuses_all(follower: Follower) -> None:
    control = batch(1, producer_id=4, producer_epoch=0, control=True, transactional=True)
    result = follower.take(batch(0), control)
    assert (result.error_code, result.end_offset, result.size_bytes) == (ErrorCode.INVALID_RECORD, 0, 0)
    assert follower.log.producers.states == {}
    assert follower.stored() == b""


def test_a_batch_of_markers_is_not_unpacked_without_a_limit(follower: Follower) -> None:
    """Another cluster sends what it likes: 100 KB here would be 100 MB in memory, on the event loop."""
    record = Record(0, NOW_MS, struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 5) + bytes(100_000))
    for compression in ("none", "gzip"):
        large = build_batch(
            [record], compression=compression, leader_epoch=1, producer_id=4, producer_epoch=0, control=True
        )
        result = follower.take(large)
        assert (result.error_code, result.size_bytes) == (ErrorCode.CORRUPT_MESSAGE, 0)


# -- refused ---------------------------------------------------------------------------------------


def test_an_end_that_no_message_can_tell_is_refused(follower: Follower) -> None:
    """Of an end behind 2^63 - 1 no fetch, and no answer about the log, could be written any more."""
    result = follower.take(batch(0), changed(batch(1), ">q", 0, 2**63 - 1, reseal=False))
    assert (result.error_code, result.end_offset) == (ErrorCode.CORRUPT_MESSAGE, 0)


def changed(data: bytes, layout: str, offset: int, value: int, *, reseal: bool = True) -> bytes:
    copy = bytearray(data)
    struct.pack_into(layout, copy, offset, value)
    if reseal:
        seal(copy)
    return bytes(copy)


@pytest.mark.parametrize(
    "bad",
    [
        changed(batch(2, 2), ">I", 17, 5, reseal=False),
        changed(batch(2, 2), ">b", 70, 55, reseal=False),
        changed(batch(2, 2), ">i", 8, 48),
        changed(batch(2, 2), ">i", 8, -5),
        changed(batch(2, 2), ">b", 16, 1),
        changed(batch(2, 2), ">i", 23, -2),
        batch(1, 2),
        batch(0, 4),
        batch(2, 2, epoch=2),
        batch(2, 2, epoch=-1),
        bytes(61),
    ],
)
def test_one_damaged_batch_refuses_all(follower: Follower, bad: bytes) -> None:
    result = follower.take(batch(0, 2), bad, batch(4))
    assert (result.error_code, result.size_bytes) == (ErrorCode.CORRUPT_MESSAGE, 0)
    assert result.error_message
    log = follower.log
    assert (log.log_end_offset, log.written_end_offset, log.epochs.entries()) == (0, 0, [])
    log.writer.flush_staged()
    assert follower.stored() == b""
    # What was good is fetched again, and taken.
    assert follower.take(batch(0, 2), batch(2, 2), batch(4)).end_offset == 5


def test_what_the_log_has_already_is_out_of_range(follower: Follower) -> None:
    follower.take(batch(0, 5))
    for again in (batch(0, 5), batch(4), batch(3, 9)):
        result = follower.take(again)
        assert (result.error_code, result.end_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 5)
    assert follower.stored() == batch(0, 5)


def test_an_epoch_below_the_logs_is_refused(follower: Follower) -> None:
    follower.take(batch(0, epoch=5))
    result = follower.take(batch(1, epoch=4))
    assert (result.error_code, result.size_bytes) == (ErrorCode.CORRUPT_MESSAGE, 0)


def test_a_refusal_leaves_the_log_start(follower: Follower) -> None:
    follower.take(batch(0, 5))
    follower.take(batch(0, 5), log_start_offset=3)
    assert follower.log.log_start_offset == 0


# -- the disk --------------------------------------------------------------------------------------


def test_a_failed_write_takes_everything_back(follower: Follower) -> None:
    follower.take(transactional(0, 1, 0))
    errors: list[OSError] = []
    follower.log.on_error = lambda log, error: errors.append(error)
    follower.fail_after(0, "write")
    result = follower.take(
        transactional(1, 1, 1), transactional(2, 2, 0, epoch=4), marker(3, ControlType.ABORT, 1, epoch=4)
    )
    assert (result.error_code, result.end_offset, result.size_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, 1, 0)
    log = follower.log
    assert errors
    assert log.log_end_offset == log.written_end_offset == 1
    follower.heal()
    assert log.epochs.entries() == [(3, 0)]
    assert dict(log.producers.ongoing) == {0: 1}
    assert log.transactions.aborted_in(0, 9) == []
    assert follower.take(transactional(1, 1, 1)).end_offset == 2
    assert follower.stored() == transactional(0, 1, 0) + transactional(1, 1, 1)


@pytest.mark.parametrize(
    ("operation", "count", "taken"),
    [*(("write", count, 3 * count) for count in range(4)), *(("create", n, 3 * n + 3) for n in range(3))],
)
def test_what_was_written_before_the_disk_failed_is_told(operation: str, count: int, taken: int) -> None:
    follower = Follower(TopicSettings(internal_segment_bytes=300))  # three batches a segment
    sent = [batch(i) for i in range(10)]
    follower.fail_after(count, operation)
    result = follower.take(*sent)
    follower.heal()
    assert (result.error_code, result.end_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, taken)
    assert (follower.log.log_end_offset, follower.log.written_end_offset) == (taken, taken)
    assert follower.stored() == b"".join(sent[:taken])
    assert result.size_bytes == len(b"".join(sent[:taken]))
    assert follower.take(*sent[taken:]).error_code == 0
    assert follower.stored() == b"".join(sent)
    follower.files.process_kill()
    follower.log = follower.open()
    assert follower.stored() == b"".join(sent)


def test_an_offline_log_takes_nothing(follower: Follower) -> None:
    follower.log.writer.go_offline()
    assert follower.take(batch(0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


# -- changing sides --------------------------------------------------------------------------------


def test_what_was_staged_as_leader_comes_first(follower: Follower) -> None:
    log = follower.log
    log.leader.append(memoryview(batch(0, 2, epoch=-1)), 3, NOW_MS)
    assert log.written_end_offset == 0
    assert follower.take(batch(2)).end_offset == 3
    assert log.written_end_offset == 3
    assert [view.base_offset for view in iter_batches(follower.stored())] == [0, 2]


def test_a_lost_staged_batch_is_noticed(follower: Follower) -> None:
    log = follower.log
    log.leader.append(memoryview(batch(0, 2, epoch=-1)), 3, NOW_MS)
    follower.fail_after(0, "write")
    result = follower.take(batch(2))
    assert (result.error_code, result.end_offset, result.size_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, 0, 0)
    follower.heal()
    assert follower.take(batch(0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR  # until the turn has ended
    with pytest.raises(OSError, match="says no"):
        log.writer.flush_staged()
    assert follower.take(batch(0)).error_code == 0


def test_a_restart_finds_what_was_taken(follower: Follower) -> None:
    sent = [
        transactional(0, 1, 0),
        transactional(1, 2, 0),
        marker(2, ControlType.ABORT, 1),
        batch(3, epoch=6),
    ]
    follower.take(*sent)
    before = follower.log
    follower.files.process_kill()
    for clean in (False, True):
        follower.log = follower.open(clean=clean, recovery_point=4 if clean else 0)
        log = follower.log
        assert log.log_end_offset == 4
        assert log.epochs.entries() == [(3, 0), (6, 3)]
        assert dict(log.producers.ongoing) == {1: 2}
        assert log.transactions.aborted_in(0, 10) == before.transactions.aborted_in(0, 10) != []
        log.close()


def test_an_empty_log_takes_the_batch_around_its_start(follower: Follower) -> None:
    """DeleteRecords may have ended in the middle of a batch (simulated clusters, seeds 101 and 108)."""
    follower.log.truncate_fully_and_start_at(11)
    assert follower.take(batch(8, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE  # all of it lies below
    follower.fail_after(0, "write")
    result = follower.take(batch(10, 3))
    assert (result.error_code, result.end_offset, result.size_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, 11, 0)
    follower.heal()
    follower.log = follower.open()
    follower.log.truncate_fully_and_start_at(11)
    assert follower.take(batch(10, 3), batch(13)).error_code == 0
    log = follower.log
    assert (log.log_start_offset, log.log_end_offset, log.segments[0].base_offset) == (11, 14, 10)
    assert bytes(log.reader.read(11, 1000, end_offset=14)) == batch(10, 3) + batch(13)
    assert follower.take(batch(12, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE  # no longer empty


def test_a_crash_while_an_empty_log_makes_room_for_the_batch_around_its_start() -> None:
    """At each step of the disk; then it takes that batch as before."""
    for step in range(40):
        follower = Follower()
        follower.log.truncate_fully_and_start_at(11)
        follower.log.writer.flush_staged()
        left = [step]

        def fault(operation: str, path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Crash

        follower.files.fault = fault
        try:
            follower.take(batch(10, 3), log_start_offset=11)
            done = True
        except Crash:
            done = False
        follower.heal()
        follower.files.process_kill()
        follower.log = open_log(
            follower.files,
            "/d/t-0",
            "t",
            0,
            SETTINGS,
            recovery_point=11,
            log_start_offset=11,
            now_ms=NOW_MS,
        ).log
        log = follower.log
        if log.log_end_offset != 13:
            assert log.log_end_offset == 11, step
            assert follower.take(batch(10, 3)).error_code == 0, step
        assert (log.log_start_offset, log.log_end_offset) == (11, 13), step
        assert bytes(log.reader.read(11, 1000, end_offset=13)) == batch(10, 3), step
        if done:
            return
    raise AssertionError("it never came to its end")
